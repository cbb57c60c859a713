-- One row a job and point, of the attempt whose results are accepted; for a job without one, of its latest attempt, marked
-- by `accepted`. Acceptance is by sums over requests, never a mean of means: (100 tokens, 25 verifies) and (10, 10) make
-- 3.14, not 2.5.
CREATE VIEW points AS
WITH shown AS (
    SELECT DISTINCT ON (job_id) id, job_id, number, outcome, simulated
    FROM attempts
    ORDER BY job_id, (outcome IS NOT DISTINCT FROM 'succeeded') DESC, number DESC
)
SELECT
    j.id AS job_id,
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
    shown.number AS attempt,
    shown.outcome AS attempt_outcome,
    coalesce(shown.outcome = 'succeeded', false) AS accepted,
    min(m.started_at) AS started_at,
    m.concurrency,
    m.context_tokens,
    m.output_tokens_asked,
    count(*) FILTER (WHERE m.valid) AS n,
    count(*) FILTER (WHERE NOT m.valid) AS n_invalid,
    avg(m.output_throughput_tok_s) FILTER (WHERE m.valid) AS mean_tok_s,
    stddev_samp(m.output_throughput_tok_s) FILTER (WHERE m.valid) AS sd_tok_s,
    coalesce(array_agg(m.output_throughput_tok_s ORDER BY m.repeat) FILTER (WHERE m.valid), '{}') AS values_tok_s,
    avg(m.ttft_mean_ms) FILTER (WHERE m.valid) AS ttft_ms,
    avg(m.itl_mean_ms) FILTER (WHERE m.valid) AS itl_ms,
    avg(m.e2e_mean_ms) FILTER (WHERE m.valid) AS e2e_ms,
    1 + sum(m.correct_drafts) FILTER (WHERE m.valid) / nullif(sum(m.verifies) FILTER (WHERE m.valid), 0)::double precision
        AS acceptance_length,
    sum(m.verifies) FILTER (WHERE m.valid) AS verifies,
    sum(m.correct_drafts) FILTER (WHERE m.valid) AS correct_drafts,
    avg(m.step_time_ms) FILTER (WHERE m.valid) AS step_time_ms
FROM shown
JOIN jobs AS j ON j.id = shown.job_id
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
JOIN measurements AS m ON m.attempt_id = shown.id
GROUP BY
    j.id, s.id, c.sweep_id, c.hash, shown.simulated, shown.number, shown.outcome,
    m.concurrency, m.context_tokens, m.output_tokens_asked;

COMMENT ON VIEW points IS 'One row a job and point: concurrency x context x output, over the repeats of one attempt.';
COMMENT ON COLUMN points.visit IS 'counts the starts of the cell''s server, from 1: repeats of one visit share a start';
COMMENT ON COLUMN points.control IS 'a visit of the control cell, whose spread over the sweep is the noise floor';
COMMENT ON COLUMN points.simulated IS 'ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN points.accepted IS 'the attempt succeeded; only then may its numbers be ranked';
COMMENT ON COLUMN points.started_at IS 'when its first repeat began, for trends over a sweep';
COMMENT ON COLUMN points.concurrency IS 'requests in flight';
COMMENT ON COLUMN points.context_tokens IS 'prompt tokens per request';
COMMENT ON COLUMN points.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN points.n IS 'valid repeats, over which everything else is computed';
COMMENT ON COLUMN points.n_invalid IS 'repeats that are not valid; measurements.reasons says why';
COMMENT ON COLUMN points.mean_tok_s IS 'output tokens per second, mean over repeats';
COMMENT ON COLUMN points.sd_tok_s IS 'sample standard deviation of the same, tokens per second; null below two repeats';
COMMENT ON COLUMN points.values_tok_s IS 'output tokens per second of each valid repeat, in order';
COMMENT ON COLUMN points.ttft_ms IS 'time to first token, milliseconds, mean over repeats of the mean over requests';
COMMENT ON COLUMN points.itl_ms IS 'time per output token after the first chunk, milliseconds, mean of means';
COMMENT ON COLUMN points.e2e_ms IS 'whole request, milliseconds, mean of means';
COMMENT ON COLUMN points.acceptance_length IS '1 + sum(correct drafts) / sum(verifies), tokens per verify';
COMMENT ON COLUMN points.step_time_ms IS 'acceptance length / per-request decode rate, milliseconds, mean over repeats';
