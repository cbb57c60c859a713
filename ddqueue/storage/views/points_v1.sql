-- One row a job and point, of the attempt whose results are accepted; for a job without one, of its latest attempt, marked
-- by `accepted`. Acceptance is by sums over requests, never a mean of means: (100 tokens, 25 verifies) and (10, 10) make
-- 3.14, not 2.5. The attempt is looked up job by job, so that a filter on sweep, host or cell reaches the measurements.
CREATE VIEW points AS
SELECT
    job_id,
    sweep_id,
    sweep,
    revision,
    host,
    parallel,
    cell_hash,
    label,
    baseline,
    out_of_distribution,
    visit,
    control,
    simulated,
    imported,
    attempt,
    attempt_outcome,
    coalesce(attempt_outcome = 'succeeded', false) AS accepted,
    started_at,
    concurrency,
    context_tokens,
    output_tokens_asked,
    n,
    n_invalid,
    ARRAY(SELECT DISTINCT reason FROM string_to_table(reasons, ' ') AS reason ORDER BY reason) AS reasons,
    ARRAY(SELECT DISTINCT mark FROM string_to_table(marks, ' ') AS mark ORDER BY mark) AS marks,
    mean_tok_s,
    sd_tok_s,
    mean_tok_s - interval_factor * t_975(n - 1) * sd_tok_s / sqrt(n) AS low_tok_s,
    mean_tok_s + interval_factor * t_975(n - 1) * sd_tok_s / sqrt(n) AS high_tok_s,
    interval_factor,
    values_tok_s,
    ttft_ms,
    itl_ms,
    tpot_ms,
    e2e_ms,
    1 + correct_drafts / nullif(verifies, 0)::double precision AS acceptance_length,
    sd_acceptance_length,
    verifies,
    correct_drafts,
    step_time_ms,
    sd_step_time_ms,
    energy_per_token_j,
    goodput_requests_s,
    goodput_output_tok_s
FROM (
    SELECT
        j.id AS job_id,
        s.id AS sweep_id,
        s.name AS sweep,
        s.revision,
        j.host,
        j.parallel,
        j.cell_hash,
        c.label,
        c.baseline,
        c.out_of_distribution,
        j.visit,
        j.control,
        shown.simulated,
        s.imported IS NOT NULL AS imported,
        looking_costs(s.measure) AS interval_factor,
        shown.number AS attempt,
        shown.outcome AS attempt_outcome,
        min(m.started_at) AS started_at,
        m.concurrency,
        m.context_tokens,
        m.output_tokens_asked,
        count(*) FILTER (WHERE m.valid) AS n,
        count(*) FILTER (WHERE NOT m.valid) AS n_invalid,
        string_agg(array_to_string(m.reasons, ' '), ' ') FILTER (WHERE NOT m.valid) AS reasons,
        string_agg(array_to_string(m.marks, ' '), ' ') FILTER (WHERE m.valid AND m.marks <> '{}') AS marks,
        avg(m.output_throughput_tok_s) FILTER (WHERE m.valid) AS mean_tok_s,
        stddev_samp(m.output_throughput_tok_s) FILTER (WHERE m.valid) AS sd_tok_s,
        coalesce(array_agg(m.output_throughput_tok_s ORDER BY m.repeat) FILTER (WHERE m.valid), '{}') AS values_tok_s,
        avg(m.ttft_mean_ms) FILTER (WHERE m.valid) AS ttft_ms,
        avg(m.itl_mean_ms) FILTER (WHERE m.valid) AS itl_ms,
        avg(m.tpot_mean_ms) FILTER (WHERE m.valid) AS tpot_ms,
        avg(m.e2e_mean_ms) FILTER (WHERE m.valid) AS e2e_ms,
        stddev_samp(m.acceptance_length) FILTER (WHERE m.valid) AS sd_acceptance_length,
        sum(m.verifies) FILTER (WHERE m.valid) AS verifies,
        sum(m.correct_drafts) FILTER (WHERE m.valid) AS correct_drafts,
        avg(m.step_time_ms) FILTER (WHERE m.valid) AS step_time_ms,
        stddev_samp(m.step_time_ms) FILTER (WHERE m.valid) AS sd_step_time_ms,
        avg(m.energy_per_token_j) FILTER (WHERE m.valid) AS energy_per_token_j,
        avg(m.goodput_requests_s) FILTER (WHERE m.valid) AS goodput_requests_s,
        avg(m.goodput_output_tok_s) FILTER (WHERE m.valid) AS goodput_output_tok_s
    FROM jobs AS j
    JOIN sweeps AS s ON s.id = j.sweep_id
    JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
    JOIN LATERAL (
        SELECT a.id, a.number, a.outcome, a.simulated
        FROM attempts AS a
        WHERE a.job_id = j.id
        ORDER BY (a.outcome IS NOT DISTINCT FROM 'succeeded') DESC, a.number DESC
        LIMIT 1
    ) AS shown ON true
    JOIN measurements AS m ON m.attempt_id = shown.id
    GROUP BY
        j.id, s.id, c.sweep_id, c.hash, shown.simulated, shown.number, shown.outcome,
        m.concurrency, m.context_tokens, m.output_tokens_asked
) AS repeats;

COMMENT ON VIEW points IS 'One row a job and point: concurrency x context x output, over the repeats of one attempt.';
COMMENT ON COLUMN points.cell_hash IS 'names the configuration, on any host';
COMMENT ON COLUMN points.visit IS 'counts the starts of the cell''s server, from 1: repeats of one visit share a start';
COMMENT ON COLUMN points.control IS 'a visit of the control cell, whose spread over the sweep is the noise floor';
COMMENT ON COLUMN points.simulated IS 'ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN points.imported IS 'measured by hand and brought in from a file: sweeps.imported says whence';
COMMENT ON COLUMN points.accepted IS 'the attempt succeeded; only then may its numbers be ranked';
COMMENT ON COLUMN points.started_at IS 'when its first repeat began, for trends over a sweep';
COMMENT ON COLUMN points.concurrency IS 'requests in flight';
COMMENT ON COLUMN points.context_tokens IS 'prompt tokens per request';
COMMENT ON COLUMN points.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN points.n IS 'valid repeats, over which everything else is computed';
COMMENT ON COLUMN points.n_invalid IS 'repeats that are not valid';
COMMENT ON COLUMN points.reasons IS 'why those are not valid, each reason once';
COMMENT ON COLUMN points.marks IS 'what to know of the valid ones, each mark once: THROTTLED, POWER_CAPPED, ...';
COMMENT ON COLUMN points.mean_tok_s IS 'output tokens per second, mean over repeats';
COMMENT ON COLUMN points.sd_tok_s IS 'sample standard deviation of the same, tokens per second; null below two repeats';
COMMENT ON COLUMN points.low_tok_s IS 'lower bound of the 95% t interval of the mean over these repeats, tokens per second';
COMMENT ON COLUMN points.high_tok_s IS 'upper bound of the same, tokens per second';
COMMENT ON COLUMN points.interval_factor IS 'by how much both lie farther from the mean because the repeats could stop by themselves: 1.15, else 1';
COMMENT ON COLUMN points.values_tok_s IS 'output tokens per second of each valid repeat, in order';
COMMENT ON COLUMN points.ttft_ms IS 'time to first token, milliseconds, mean over repeats of the mean over requests';
COMMENT ON COLUMN points.itl_ms IS 'time per output token after the first chunk, milliseconds, mean over repeats of the mean over tokens';
COMMENT ON COLUMN points.tpot_ms IS 'the same with one value a request, milliseconds, mean over repeats of the mean over requests';
COMMENT ON COLUMN points.e2e_ms IS 'whole request, milliseconds, mean over repeats of the mean over requests';
COMMENT ON COLUMN points.acceptance_length IS '1 + sum(correct drafts) / sum(verifies), tokens per verify; null without speculation';
COMMENT ON COLUMN points.sd_acceptance_length IS 'sample standard deviation of the repeats'' own acceptance lengths, tokens per verify';
COMMENT ON COLUMN points.verifies IS 'verify steps of the target, sum over requests and repeats';
COMMENT ON COLUMN points.correct_drafts IS 'draft tokens accepted, sum over requests and repeats';
COMMENT ON COLUMN points.step_time_ms IS 'acceptance length / per-request decode rate, milliseconds, mean over repeats';
COMMENT ON COLUMN points.sd_step_time_ms IS 'sample standard deviation of the same, milliseconds';
COMMENT ON COLUMN points.energy_per_token_j IS 'energy of all GPUs / output tokens, joules, mean over repeats';
COMMENT ON COLUMN points.goodput_requests_s IS 'requests per second within every limit of sweeps.measure -> goodput, mean over repeats; null without limits';
COMMENT ON COLUMN points.goodput_output_tok_s IS 'output tokens per second of the same requests, mean over repeats';
