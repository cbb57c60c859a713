-- Hosts and jobs: what the queue works on. The constraints refuse rows that the table of states cannot produce.

CREATE SEQUENCE fence;

CREATE TABLE hosts (
    name TEXT NOT NULL,
    gpus INTEGER NOT NULL,
    gpu_kind TEXT NOT NULL,
    interconnect TEXT,
    simulated BOOLEAN NOT NULL,
    first_seen TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    quarantined_at TIMESTAMP WITH TIME ZONE,
    quarantine_class TEXT,
    quarantine_reason TEXT,
    held_at TIMESTAMP WITH TIME ZONE,
    held_until TIMESTAMP WITH TIME ZONE,
    hold_reason TEXT,
    released_at TIMESTAMP WITH TIME ZONE,
    worker_version TEXT,
    worker_seen_at TIMESTAMP WITH TIME ZONE,
    borrow JSONB,
    loan_state TEXT,
    borrowed_since TIMESTAMP WITH TIME ZONE,
    CONSTRAINT hosts_pkey PRIMARY KEY (name),
    CONSTRAINT hosts_has_gpus CHECK (gpus > 0),
    CONSTRAINT hosts_quarantine_has_a_reason CHECK ((quarantined_at IS NULL) = (quarantine_class IS NULL) AND (quarantined_at IS NULL) = (quarantine_reason IS NULL)),
    CONSTRAINT hosts_quarantine_class_known CHECK (quarantine_class IN ('BAD_ARGS', 'UNSUPPORTED',
        'MODEL_NOT_FOUND', 'OOM_LOAD', 'KV_TOO_SMALL', 'OOM_CAPTURE', 'CAPTURE_FAILED', 'CAPTURE_HANG', 'OOM_RUN',
        'UNSUPPORTED_ARCH', 'NCCL_HANG', 'JIT_TIMEOUT', 'READY_TIMEOUT', 'SERVER_CRASHED', 'SERVER_STALLED',
        'CONFIG_OVERRIDDEN', 'PORT_BUSY', 'GPU_BUSY', 'GPU_NOT_RELEASED', 'GPU_LOST', 'SHM_FULL', 'SHORT_OUTPUT',
        'CLIENT_BOUND', 'CORRECTNESS_DROP', 'LEASE_LOST', 'CANCELLED', 'INFRA')),
    CONSTRAINT hosts_hold_has_a_reason CHECK ((held_at IS NULL) = (hold_reason IS NULL)),
    CONSTRAINT hosts_hold_has_a_beginning CHECK (held_until IS NULL OR held_at IS NOT NULL),
    CONSTRAINT hosts_version_was_seen CHECK ((worker_version IS NULL) = (worker_seen_at IS NULL)),
    CONSTRAINT hosts_loan_state_known CHECK (loan_state IN ('taking', 'taken', 'giving back')),
    CONSTRAINT hosts_loan_has_a_beginning CHECK ((loan_state IS NULL) = (borrowed_since IS NULL))
);

COMMENT ON TABLE hosts IS 'One GPU box.';
COMMENT ON COLUMN hosts.gpus IS 'number of GPUs in the box';
COMMENT ON COLUMN hosts.simulated IS 'a box that exists only in software';
COMMENT ON COLUMN hosts.quarantined_at IS 'since when the host takes no work, because of a fault of the box';
COMMENT ON COLUMN hosts.quarantine_class IS 'the failure class of that fault';
COMMENT ON COLUMN hosts.quarantine_reason IS 'the reading or line that decided';
COMMENT ON COLUMN hosts.held_at IS 'since when a person keeps the host free';
COMMENT ON COLUMN hosts.held_until IS 'until when; null while held = until a person releases it';
COMMENT ON COLUMN hosts.released_at IS 'when a person last let it work again: failures before that count against it no more';
COMMENT ON COLUMN hosts.worker_version IS 'the ddqueue of its worker, or of the newest attempt; null = never heard of';
COMMENT ON COLUMN hosts.worker_seen_at IS 'when that worker started, or an attempt of it last began';
COMMENT ON COLUMN hosts.borrow IS 'how it is borrowed from production, as the box''s own inventory says: hours, idle_s; null = it is ours';
COMMENT ON COLUMN hosts.loan_state IS 'how far it is taken or given back; null = production has it';
COMMENT ON COLUMN hosts.borrowed_since IS 'when it was taken from production';

CREATE TABLE jobs (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    sweep_id BIGINT NOT NULL,
    cell_hash TEXT NOT NULL,
    host TEXT NOT NULL,
    parallel TEXT NOT NULL,
    tp INTEGER NOT NULL,
    ep INTEGER NOT NULL,
    pp INTEGER NOT NULL,
    dp INTEGER NOT NULL,
    visit INTEGER DEFAULT 1 NOT NULL,
    control BOOLEAN DEFAULT false NOT NULL,
    position INTEGER NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    state TEXT DEFAULT 'queued' NOT NULL,
    tries INTEGER DEFAULT 0 NOT NULL,
    fence BIGINT,
    lease_expires_at TIMESTAMP WITH TIME ZONE,
    not_before TIMESTAMP WITH TIME ZONE,
    woken_at TIMESTAMP WITH TIME ZONE,
    cancel_requested_at TIMESTAMP WITH TIME ZONE,
    yield_requested_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE,
    finished_at TIMESTAMP WITH TIME ZONE,
    failure TEXT,
    evidence TEXT,
    CONSTRAINT jobs_pkey PRIMARY KEY (id),
    CONSTRAINT jobs_sweep_id_cell_hash_fkey FOREIGN KEY(sweep_id, cell_hash) REFERENCES cells (sweep_id,
        hash) ON DELETE CASCADE,
    CONSTRAINT jobs_sweep_id_cell_hash_host_parallel_visit_key UNIQUE (sweep_id, cell_hash, host, parallel, visit),
    CONSTRAINT jobs_state_known CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'unsupported',
        'cancelled', 'pruned')),
    CONSTRAINT jobs_running_has_fence_and_lease CHECK ((state = 'running') = (fence IS NOT NULL) AND (state = 'running') = (lease_expires_at IS NOT NULL)),
    CONSTRAINT jobs_final_is_finished CHECK ((state IN ('succeeded', 'failed', 'unsupported',
        'cancelled', 'pruned')) = (finished_at IS NOT NULL)),
    CONSTRAINT jobs_failure_only_when_failed CHECK ((state IN ('failed', 'unsupported')) = (failure IS NOT NULL)),
    CONSTRAINT jobs_failure_known CHECK (failure IN ('BAD_ARGS', 'UNSUPPORTED', 'MODEL_NOT_FOUND', 'OOM_LOAD',
        'KV_TOO_SMALL', 'OOM_CAPTURE', 'CAPTURE_FAILED', 'CAPTURE_HANG', 'OOM_RUN', 'UNSUPPORTED_ARCH',
        'NCCL_HANG', 'JIT_TIMEOUT', 'READY_TIMEOUT', 'SERVER_CRASHED', 'SERVER_STALLED', 'CONFIG_OVERRIDDEN',
        'PORT_BUSY', 'GPU_BUSY', 'GPU_NOT_RELEASED', 'GPU_LOST', 'SHM_FULL', 'SHORT_OUTPUT', 'CLIENT_BOUND',
        'CORRECTNESS_DROP', 'LEASE_LOST', 'CANCELLED', 'INFRA')),
    CONSTRAINT jobs_queued_is_cancelled_at_once CHECK (state <> 'queued' OR cancel_requested_at IS NULL),
    CONSTRAINT jobs_only_running_yields CHECK (yield_requested_at IS NULL OR state = 'running'),
    CONSTRAINT jobs_only_queued_waits CHECK (not_before IS NULL OR state = 'queued'),
    CONSTRAINT jobs_final_wakes_nobody CHECK (woken_at IS NULL OR state IN ('queued', 'running')),
    CONSTRAINT jobs_visit_counts_from_one CHECK (visit >= 1),
    CONSTRAINT jobs_counts_positive CHECK (tries >= 0 AND tp > 0 AND ep > 0 AND pp > 0 AND dp > 0),
    CONSTRAINT jobs_sweep_id_fkey FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT jobs_host_fkey FOREIGN KEY(host) REFERENCES hosts (name)
);

CREATE UNIQUE INDEX jobs_one_running_per_host ON jobs (host) WHERE state = 'running';

CREATE INDEX jobs_queue_order ON jobs (host, sweep_id, priority DESC, position) WHERE state = 'queued';

CREATE INDEX jobs_unfinished ON jobs (sweep_id, position) WHERE state IN ('queued', 'running');

CREATE INDEX jobs_woken ON jobs (host) WHERE woken_at IS NOT NULL;

COMMENT ON TABLE jobs IS 'One visit of a cell on a host: the unit of queueing.';
COMMENT ON COLUMN jobs.parallel IS 'the field''s short name: TP8, EP8, EP4/TP8, PP8';
COMMENT ON COLUMN jobs.visit IS 'counts the cell''s starts here, from 1';
COMMENT ON COLUMN jobs.control IS 'a visit of the control cell, whose spread over the sweep is the noise floor';
COMMENT ON COLUMN jobs.position IS 'order in which to run within the sweep, from 0';
COMMENT ON COLUMN jobs.priority IS 'higher goes first in its sweep';
COMMENT ON COLUMN jobs.tries IS 'ended attempts that used up a try; faults of a host and lost attempts do not';
COMMENT ON COLUMN jobs.fence IS 'while running: the only number whose writes are accepted';
COMMENT ON COLUMN jobs.lease_expires_at IS 'while running: past it the host''s next attempt looks after the job';
COMMENT ON COLUMN jobs.not_before IS 'while queued: back-off after a failure that may pass';
COMMENT ON COLUMN jobs.woken_at IS 'when the dispatcher last nudged the host for this job; cleared by claim';
COMMENT ON COLUMN jobs.cancel_requested_at IS 'a person wants the running attempt stopped';
COMMENT ON COLUMN jobs.yield_requested_at IS 'a person wants the running attempt to stop and the job to wait again';
COMMENT ON COLUMN jobs.started_at IS 'when its latest attempt was claimed';
COMMENT ON COLUMN jobs.failure IS 'class of the failure that ended it';
COMMENT ON COLUMN jobs.evidence IS 'the line or reading that decided';
