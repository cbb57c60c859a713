-- Attempts with their phases, and the log of what happened.

CREATE TABLE attempts (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    job_id BIGINT NOT NULL,
    number INTEGER NOT NULL,
    fence BIGINT,
    host TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    outcome TEXT,
    failure TEXT,
    evidence TEXT,
    activity TEXT,
    runner_pid INTEGER,
    runner_start_ticks BIGINT,
    worker TEXT,
    simulated BOOLEAN NOT NULL,
    provenance JSONB,
    requested JSONB,
    effective JSONB,
    difference JSONB,
    effective_hash TEXT,
    imported JSONB,
    CONSTRAINT attempts_pkey PRIMARY KEY (id),
    CONSTRAINT attempts_job_id_number_key UNIQUE (job_id, number),
    CONSTRAINT attempts_outcome_known CHECK (outcome IN ('succeeded', 'failed', 'lost', 'cancelled', 'pruned')),
    CONSTRAINT attempts_ended_has_an_outcome CHECK ((outcome IS NULL) = (ended_at IS NULL)),
    CONSTRAINT attempts_failure_known CHECK (failure IN ('BAD_ARGS', 'UNSUPPORTED', 'MODEL_NOT_FOUND', 'OOM_LOAD',
        'KV_TOO_SMALL', 'OOM_CAPTURE', 'CAPTURE_FAILED', 'CAPTURE_HANG', 'OOM_RUN', 'UNSUPPORTED_ARCH',
        'NCCL_HANG', 'JIT_TIMEOUT', 'READY_TIMEOUT', 'SERVER_CRASHED', 'SERVER_STALLED', 'CONFIG_OVERRIDDEN',
        'PORT_BUSY', 'GPU_BUSY', 'GPU_NOT_RELEASED', 'GPU_LOST', 'SHM_FULL', 'SHORT_OUTPUT', 'CLIENT_BOUND',
        'CORRECTNESS_DROP', 'LEASE_LOST', 'CANCELLED', 'INFRA')),
    CONSTRAINT attempts_imported_ran_nowhere CHECK (num_nulls(fence, runner_pid, runner_start_ticks,
        worker) = CASE WHEN imported IS NULL THEN 0 ELSE 4 END),
    CONSTRAINT attempts_imported_has_numbers CHECK (imported IS NULL OR outcome = 'succeeded'),
    CONSTRAINT attempts_failed_has_a_class CHECK (outcome IS DISTINCT FROM 'failed' OR failure IS NOT NULL),
    CONSTRAINT attempts_no_failure_in_success CHECK (failure IS NULL OR outcome IN ('failed', 'lost', 'cancelled')),
    CONSTRAINT attempts_job_id_fkey FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT attempts_fence_key UNIQUE (fence),
    CONSTRAINT attempts_host_fkey FOREIGN KEY(host) REFERENCES hosts (name)
);

CREATE INDEX attempts_ended ON attempts (host, ended_at DESC) WHERE outcome IS NOT NULL;

CREATE INDEX attempts_open ON attempts (host) WHERE outcome IS NULL;

CREATE UNIQUE INDEX attempts_one_accepted_per_job ON attempts (job_id) WHERE outcome = 'succeeded';

COMMENT ON TABLE attempts IS 'One execution of a job. Numbers of an attempt that did not succeed are kept, and not accepted.';
COMMENT ON COLUMN attempts.number IS 'counts the job''s attempts from 1';
COMMENT ON COLUMN attempts.fence IS 'the job''s fence while this attempt ran; null when imported';
COMMENT ON COLUMN attempts.started_at IS 'when it was claimed, or imported';
COMMENT ON COLUMN attempts.outcome IS 'succeeded, failed, lost, cancelled or pruned; null while it runs';
COMMENT ON COLUMN attempts.failure IS 'class';
COMMENT ON COLUMN attempts.evidence IS 'the line or reading that decided';
COMMENT ON COLUMN attempts.runner_pid IS 'null when imported';
COMMENT ON COLUMN attempts.runner_start_ticks IS 'clock ticks since boot; names the pid for ever';
COMMENT ON COLUMN attempts.worker IS 'the Celery worker that started the runner; null when imported';
COMMENT ON COLUMN attempts.activity IS 'what it does now, for people who watch: its phase and how far it is';
COMMENT ON COLUMN attempts.simulated IS 'ran on software GPUs: its numbers are not measurements';
COMMENT ON COLUMN attempts.provenance IS 'what it ran on and ran: GPUs, driver, clocks, versions, environment';
COMMENT ON COLUMN attempts.requested IS 'settings asked for';
COMMENT ON COLUMN attempts.effective IS 'settings the server says it runs';
COMMENT ON COLUMN attempts.difference IS 'setting -> [asked, effective]';
COMMENT ON COLUMN attempts.effective_hash IS 'equal for two servers that ran the same, whatever was asked of them';
COMMENT ON COLUMN attempts.imported IS 'null = it ran here; else what its row of the file says: line, acceptance_length, coding, written';

CREATE TABLE phases (
    attempt_id BIGINT NOT NULL,
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    duration_s DOUBLE PRECISION NOT NULL,
    detail TEXT NOT NULL,
    CONSTRAINT phases_pkey PRIMARY KEY (attempt_id, seq),
    CONSTRAINT phases_attempt_id_name_started_at_key UNIQUE (attempt_id, name, started_at),
    CONSTRAINT phases_duration_finite CHECK (duration_s >= 0 AND duration_s < 'Infinity'),
    CONSTRAINT phases_attempt_id_fkey FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE
);

COMMENT ON TABLE phases IS 'One timed step of an attempt.';
COMMENT ON COLUMN phases.seq IS 'order stored, from 1';
COMMENT ON COLUMN phases.duration_s IS 'seconds';

CREATE TABLE events (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    sweep_id BIGINT,
    job_id BIGINT,
    attempt_id BIGINT,
    host TEXT,
    kind TEXT NOT NULL,
    detail JSONB DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (id),
    CONSTRAINT events_sweep_id_fkey FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT events_job_id_fkey FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE,
    CONSTRAINT events_attempt_id_fkey FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE
);

CREATE INDEX events_job_id_idx ON events (job_id);

CREATE INDEX events_sweep_id_idx ON events (sweep_id, id);

COMMENT ON TABLE events IS 'What happened, in order, written in the transaction that made it so.';
