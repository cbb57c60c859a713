-- Sweeps as submitted, and their cells.

CREATE TABLE sweeps (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    submitted_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    hypothesis TEXT,
    out_of_distribution TEXT NOT NULL,
    simulated BOOLEAN NOT NULL,
    paused BOOLEAN DEFAULT false NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    after_sweep_id BIGINT,
    file_name TEXT NOT NULL,
    file_text TEXT NOT NULL,
    measure JSONB NOT NULL,
    imported JSONB,
    CONSTRAINT sweeps_pkey PRIMARY KEY (id),
    CONSTRAINT sweeps_after_sweep_id_fkey FOREIGN KEY(after_sweep_id) REFERENCES sweeps (id) ON DELETE SET NULL,
    CONSTRAINT sweeps_name_revision_key UNIQUE (name, revision),
    CONSTRAINT sweeps_revision_counts_from_one CHECK (revision >= 1),
    CONSTRAINT sweeps_out_of_distribution_known CHECK (out_of_distribution IN ('refuse', 'allow'))
);

COMMENT ON TABLE sweeps IS 'One submitted file; immutable but for paused and priority.';
COMMENT ON COLUMN sweeps.revision IS '1 for a new name; resubmitting a name adds one';
COMMENT ON COLUMN sweeps.engine IS 'the engine profile: how a build of SGLang is started';
COMMENT ON COLUMN sweeps.hypothesis IS 'what the person expects, in their words';
COMMENT ON COLUMN sweeps.out_of_distribution IS 'refuse or allow block sizes that the drafter was not trained for';
COMMENT ON COLUMN sweeps.simulated IS 'runs on software GPUs: its numbers are not measurements';
COMMENT ON COLUMN sweeps.paused IS 'no job is claimed while true';
COMMENT ON COLUMN sweeps.priority IS 'higher goes first';
COMMENT ON COLUMN sweeps.after_sweep_id IS 'none of its jobs starts before every job of that sweep has ended';
COMMENT ON COLUMN sweeps.file_text IS 'the submitted file, as it was';
COMMENT ON COLUMN sweeps.measure IS 'points [[concurrency, context, output]], repeats, coding';
COMMENT ON COLUMN sweeps.imported IS 'null = measured by ddqueue; else whence its numbers came: file, sha256, by, measured_on, note';

CREATE TABLE cells (
    sweep_id BIGINT NOT NULL,
    hash TEXT NOT NULL,
    position INTEGER NOT NULL,
    label TEXT NOT NULL,
    canonical JSONB NOT NULL,
    baseline BOOLEAN NOT NULL,
    out_of_distribution BOOLEAN NOT NULL,
    block_size INTEGER,
    budget INTEGER,
    topk INTEGER,
    draft_window INTEGER,
    CONSTRAINT cells_pkey PRIMARY KEY (sweep_id, hash),
    CONSTRAINT cells_sweep_id_position_key UNIQUE (sweep_id, position),
    CONSTRAINT cells_baseline_has_no_speculation CHECK (NOT baseline OR block_size IS NULL),
    CONSTRAINT cells_sweep_id_fkey FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE
);

COMMENT ON TABLE cells IS 'One server configuration of a sweep, independent of host and parallelism.';
COMMENT ON COLUMN cells.hash IS 'names the configuration, on any host';
COMMENT ON COLUMN cells.position IS 'order asked in the sweep, from 0';
COMMENT ON COLUMN cells.label IS 'the name people use in tables, e.g. b8 t4 w2048';
COMMENT ON COLUMN cells.canonical IS 'the whole configuration as plain values';
COMMENT ON COLUMN cells.baseline IS 'no speculation';
COMMENT ON COLUMN cells.out_of_distribution IS 'block_size differs from the drafter''s trained one';
COMMENT ON COLUMN cells.block_size IS 'tokens; the depth limit is block_size - 1';
COMMENT ON COLUMN cells.budget IS 'tree nodes below the root; the target verifies budget + 1 tokens';
COMMENT ON COLUMN cells.topk IS 'ranks tried per position';
COMMENT ON COLUMN cells.draft_window IS 'the drafter''s attention window in tokens; null = all';
