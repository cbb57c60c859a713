-- Measurements: one row a repeat of a point, its requests as samples, and what the GPUs did meanwhile.

CREATE TABLE measurements (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    attempt_id BIGINT NOT NULL,
    concurrency INTEGER NOT NULL,
    context_tokens INTEGER NOT NULL,
    output_tokens_asked INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE,
    wall_s DOUBLE PRECISION,
    requests_completed INTEGER,
    requests_failed INTEGER,
    prompt_tokens BIGINT,
    output_tokens BIGINT,
    output_throughput_tok_s DOUBLE PRECISION,
    total_throughput_tok_s DOUBLE PRECISION,
    ttft_mean_ms DOUBLE PRECISION,
    ttft_p50_ms DOUBLE PRECISION,
    ttft_p90_ms DOUBLE PRECISION,
    ttft_p99_ms DOUBLE PRECISION,
    itl_mean_ms DOUBLE PRECISION,
    itl_p50_ms DOUBLE PRECISION,
    itl_p90_ms DOUBLE PRECISION,
    itl_p99_ms DOUBLE PRECISION,
    tpot_mean_ms DOUBLE PRECISION,
    tpot_p50_ms DOUBLE PRECISION,
    tpot_p90_ms DOUBLE PRECISION,
    tpot_p99_ms DOUBLE PRECISION,
    e2e_mean_ms DOUBLE PRECISION,
    e2e_p50_ms DOUBLE PRECISION,
    e2e_p90_ms DOUBLE PRECISION,
    e2e_p99_ms DOUBLE PRECISION,
    acceptance_length DOUBLE PRECISION,
    step_time_ms DOUBLE PRECISION,
    cached_share DOUBLE PRECISION,
    energy_per_token_j DOUBLE PRECISION,
    goodput_requests_s DOUBLE PRECISION,
    goodput_output_tok_s DOUBLE PRECISION,
    verifies BIGINT,
    correct_drafts BIGINT,
    draft_histogram BIGINT[],
    valid BOOLEAN NOT NULL,
    reasons TEXT[] NOT NULL,
    marks TEXT[] NOT NULL,
    client JSONB NOT NULL,
    simulated BOOLEAN NOT NULL,
    carried_from BIGINT,
    CONSTRAINT measurements_pkey PRIMARY KEY (id),
    CONSTRAINT measurements_once UNIQUE (attempt_id, concurrency, context_tokens, output_tokens_asked, repeat),
    CONSTRAINT measurements_invalid_has_reasons CHECK (valid = (cardinality(reasons) = 0)),
    CONSTRAINT measurements_reasons_known CHECK (reasons <@ ARRAY['REQUESTS_FAILED', 'SHORT_OUTPUT',
        'LONG_OUTPUT', 'WRONG_SERVER', 'CACHED_PREFIX', 'NO_TOKENS', 'NOT_FINITE', 'CLIENT_BOUND', 'COMPILED']::text[]),
    CONSTRAINT measurements_marks_known CHECK (marks <@ ARRAY['THROTTLED', 'POWER_CAPPED', 'CLOCK_DRIFT',
        'UNEVEN_CLOCKS', 'NO_BENEFIT', 'IMPORTED']::text[]),
    CONSTRAINT measurements_only_imported_lacks_its_window CHECK (num_nulls(started_at, wall_s, requests_completed,
        requests_failed, prompt_tokens, output_tokens) = 0 OR 'IMPORTED' = ANY (marks)),
    CONSTRAINT measurements_valid_has_throughput CHECK (NOT valid OR coalesce(output_throughput_tok_s > 0, false)),
    CONSTRAINT measurements_numbers_finite CHECK (least(
        wall_s, output_throughput_tok_s, total_throughput_tok_s, ttft_mean_ms, ttft_p50_ms, ttft_p90_ms,
        ttft_p99_ms, itl_mean_ms, itl_p50_ms, itl_p90_ms, itl_p99_ms, tpot_mean_ms, tpot_p50_ms,
        tpot_p90_ms, tpot_p99_ms, e2e_mean_ms, e2e_p50_ms, e2e_p90_ms, e2e_p99_ms, acceptance_length,
        step_time_ms, cached_share, energy_per_token_j, goodput_requests_s, goodput_output_tok_s) >= 0
        AND greatest(wall_s, output_throughput_tok_s, total_throughput_tok_s, ttft_mean_ms, ttft_p50_ms, ttft_p90_ms,
        ttft_p99_ms, itl_mean_ms, itl_p50_ms, itl_p90_ms, itl_p99_ms, tpot_mean_ms, tpot_p50_ms,
        tpot_p90_ms, tpot_p99_ms, e2e_mean_ms, e2e_p50_ms, e2e_p90_ms, e2e_p99_ms, acceptance_length,
        step_time_ms, cached_share, energy_per_token_j, goodput_requests_s, goodput_output_tok_s) < 'Infinity'),
    CONSTRAINT measurements_acceptance_has_verifies CHECK (acceptance_length IS NULL OR verifies > 0),
    CONSTRAINT measurements_attempt_id_fkey FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE,
    CONSTRAINT measurements_carried_from_fkey FOREIGN KEY(carried_from) REFERENCES attempts (id) ON DELETE SET NULL
);

COMMENT ON TABLE measurements IS 'One repeat of one point in one attempt. A number that could not be measured is null, never zero.';
COMMENT ON COLUMN measurements.concurrency IS 'requests in flight';
COMMENT ON COLUMN measurements.context_tokens IS 'prompt tokens asked for per request';
COMMENT ON COLUMN measurements.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN measurements.repeat IS 'number of the repeat of this point in this attempt';
COMMENT ON COLUMN measurements.wall_s IS 'length of the window, seconds';
COMMENT ON COLUMN measurements.prompt_tokens IS 'sum over completed requests';
COMMENT ON COLUMN measurements.output_tokens IS 'sum over completed requests';
COMMENT ON COLUMN measurements.output_throughput_tok_s IS 'output tokens / wall time of the window, tokens per second';
COMMENT ON COLUMN measurements.total_throughput_tok_s IS 'prompt and output tokens / wall time, tokens per second';
COMMENT ON COLUMN measurements.ttft_mean_ms IS 'time to first token, mean over requests, milliseconds';
COMMENT ON COLUMN measurements.ttft_p50_ms IS 'time to first token, p50 over requests, milliseconds';
COMMENT ON COLUMN measurements.ttft_p90_ms IS 'time to first token, p90 over requests, milliseconds';
COMMENT ON COLUMN measurements.ttft_p99_ms IS 'time to first token, p99 over requests, milliseconds';
COMMENT ON COLUMN measurements.itl_mean_ms IS 'time per output token after the first chunk, mean over requests, milliseconds';
COMMENT ON COLUMN measurements.itl_p50_ms IS 'time per output token after the first chunk, p50 over requests, milliseconds';
COMMENT ON COLUMN measurements.itl_p90_ms IS 'time per output token after the first chunk, p90 over requests, milliseconds';
COMMENT ON COLUMN measurements.itl_p99_ms IS 'time per output token after the first chunk, p99 over requests, milliseconds';
COMMENT ON COLUMN measurements.tpot_mean_ms IS 'time per output token after the first chunk, one value a request, mean over requests, milliseconds';
COMMENT ON COLUMN measurements.tpot_p50_ms IS 'time per output token after the first chunk, one value a request, p50 over requests, milliseconds';
COMMENT ON COLUMN measurements.tpot_p90_ms IS 'time per output token after the first chunk, one value a request, p90 over requests, milliseconds';
COMMENT ON COLUMN measurements.tpot_p99_ms IS 'time per output token after the first chunk, one value a request, p99 over requests, milliseconds';
COMMENT ON COLUMN measurements.e2e_mean_ms IS 'whole request, mean over requests, milliseconds';
COMMENT ON COLUMN measurements.e2e_p50_ms IS 'whole request, p50 over requests, milliseconds';
COMMENT ON COLUMN measurements.e2e_p90_ms IS 'whole request, p90 over requests, milliseconds';
COMMENT ON COLUMN measurements.e2e_p99_ms IS 'whole request, p99 over requests, milliseconds';
COMMENT ON COLUMN measurements.acceptance_length IS '1 + sum(correct drafts) / sum(verifies), tokens per verify';
COMMENT ON COLUMN measurements.step_time_ms IS 'acceptance length / per-request decode rate, milliseconds';
COMMENT ON COLUMN measurements.cached_share IS 'share of prompt tokens that came from the prefix cache, 0 to 1';
COMMENT ON COLUMN measurements.energy_per_token_j IS 'energy of all GPUs over the window / output tokens, joules';
COMMENT ON COLUMN measurements.goodput_requests_s IS 'requests within every limit of sweeps.measure -> goodput / wall time, requests per second';
COMMENT ON COLUMN measurements.goodput_output_tok_s IS 'output tokens of the same requests / wall time, tokens per second';
COMMENT ON COLUMN measurements.verifies IS 'verify steps of the target, sum over requests';
COMMENT ON COLUMN measurements.correct_drafts IS 'draft tokens accepted, sum over requests';
COMMENT ON COLUMN measurements.draft_histogram IS 'element k + 1: verifies that accepted k drafts';
COMMENT ON COLUMN measurements.valid IS 'only valid rows are ranked';
COMMENT ON COLUMN measurements.reasons IS 'why it is not valid; empty when it is';
COMMENT ON COLUMN measurements.marks IS 'what to know of a row that is valid all the same';
COMMENT ON COLUMN measurements.client IS 'how the load client fared: lag, CPU seconds, requests in flight';
COMMENT ON COLUMN measurements.simulated IS 'ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN measurements.carried_from IS 'the earlier attempt that measured it, on an equal server; null = this attempt did';

CREATE TABLE samples (
    measurement_id BIGINT NOT NULL,
    request_index INTEGER NOT NULL,
    started_s DOUBLE PRECISION NOT NULL,
    finished_s DOUBLE PRECISION NOT NULL,
    ttft_ms DOUBLE PRECISION,
    tpot_ms DOUBLE PRECISION,
    prompt_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    verifies INTEGER,
    correct_drafts INTEGER,
    finish_reason TEXT,
    error TEXT,
    not_finite TEXT[] NOT NULL,
    CONSTRAINT samples_pkey PRIMARY KEY (measurement_id, request_index),
    CONSTRAINT samples_measurement_id_fkey FOREIGN KEY(measurement_id) REFERENCES measurements (id) ON DELETE CASCADE
);

COMMENT ON TABLE samples IS 'One request as the load client saw it.';
COMMENT ON COLUMN samples.started_s IS 'seconds from the window''s start';
COMMENT ON COLUMN samples.finished_s IS 'seconds from the window''s start';
COMMENT ON COLUMN samples.ttft_ms IS 'time to first token, milliseconds';
COMMENT ON COLUMN samples.tpot_ms IS 'time per output token after the first chunk, milliseconds';
COMMENT ON COLUMN samples.prompt_tokens IS 'as the server counted them';
COMMENT ON COLUMN samples.output_tokens IS 'as the server counted them';
COMMENT ON COLUMN samples.cached_tokens IS 'prompt tokens from the prefix cache';
COMMENT ON COLUMN samples.error IS 'exception type and text, or the server''s own error';
COMMENT ON COLUMN samples.not_finite IS 'fields in which the server reported NaN or infinity, stored as null';

CREATE TABLE telemetry (
    measurement_id BIGINT NOT NULL,
    gpu_index INTEGER NOT NULL,
    gpu_uuid TEXT NOT NULL,
    readings INTEGER NOT NULL,
    power_mean_w DOUBLE PRECISION,
    power_max_w DOUBLE PRECISION,
    energy_j DOUBLE PRECISION,
    sm_clock_mean_mhz DOUBLE PRECISION,
    sm_clock_min_mhz DOUBLE PRECISION,
    sm_clock_max_mhz DOUBLE PRECISION,
    memory_clock_mean_mhz DOUBLE PRECISION,
    temperature_max_c INTEGER,
    memory_used_max_mib INTEGER,
    throttle_reasons TEXT[] NOT NULL,
    CONSTRAINT telemetry_pkey PRIMARY KEY (measurement_id, gpu_index),
    CONSTRAINT telemetry_numbers_finite CHECK (least(power_mean_w, power_max_w, energy_j, sm_clock_mean_mhz, sm_clock_min_mhz, sm_clock_max_mhz,
        memory_clock_mean_mhz) >= 0
        AND greatest(power_mean_w, power_max_w, energy_j, sm_clock_mean_mhz, sm_clock_min_mhz, sm_clock_max_mhz,
        memory_clock_mean_mhz) < 'Infinity'),
    CONSTRAINT telemetry_measurement_id_fkey FOREIGN KEY(measurement_id) REFERENCES measurements (id) ON DELETE CASCADE
);

COMMENT ON TABLE telemetry IS 'One GPU over exactly one measured window. What the driver could not say is null.';
COMMENT ON COLUMN telemetry.gpu_index IS 'PCI order';
COMMENT ON COLUMN telemetry.readings IS 'readings inside the window';
COMMENT ON COLUMN telemetry.power_mean_w IS 'mean over time, watts';
COMMENT ON COLUMN telemetry.power_max_w IS 'watts';
COMMENT ON COLUMN telemetry.energy_j IS 'power integrated over the window, joules';
COMMENT ON COLUMN telemetry.sm_clock_mean_mhz IS 'mean over time, MHz';
COMMENT ON COLUMN telemetry.sm_clock_min_mhz IS 'MHz';
COMMENT ON COLUMN telemetry.sm_clock_max_mhz IS 'MHz';
COMMENT ON COLUMN telemetry.memory_clock_mean_mhz IS 'mean over time, MHz';
COMMENT ON COLUMN telemetry.temperature_max_c IS 'degrees Celsius';
COMMENT ON COLUMN telemetry.memory_used_max_mib IS 'MiB';
COMMENT ON COLUMN telemetry.throttle_reasons IS 'why the clocks were held down, in any reading';
