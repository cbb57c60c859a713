-- One configuration on two hosts of a sweep, at one point: how the boxes differ. Tokens per second = acceptance / step time,
-- times concurrency: the step time is the box's, the acceptance should not be. Acceptance that differs says that the two did
-- not compute the same: kernels, numerics, a template.
CREATE VIEW pairs AS
SELECT
    a.sweep_id,
    a.sweep,
    a.revision,
    a.cell_hash,
    a.label,
    a.baseline,
    a.out_of_distribution,
    a.simulated OR b.simulated AS simulated,
    a.host AS host_a,
    a.parallel AS parallel_a,
    b.host AS host_b,
    b.parallel AS parallel_b,
    a.concurrency,
    a.context_tokens,
    a.output_tokens_asked,
    a.mean_tok_s AS tok_s_a,
    b.mean_tok_s AS tok_s_b,
    b.mean_tok_s / a.mean_tok_s AS throughput_ratio,
    b.mean_tok_s / a.mean_tok_s * exp(-half.throughput) AS throughput_ratio_low,
    b.mean_tok_s / a.mean_tok_s * exp(half.throughput) AS throughput_ratio_high,
    a.step_time_ms AS step_time_ms_a,
    b.step_time_ms AS step_time_ms_b,
    b.step_time_ms / a.step_time_ms AS step_time_ratio,
    b.step_time_ms / a.step_time_ms * exp(-half.step_time) AS step_time_ratio_low,
    b.step_time_ms / a.step_time_ms * exp(half.step_time) AS step_time_ratio_high,
    a.acceptance_length AS acceptance_length_a,
    b.acceptance_length AS acceptance_length_b,
    b.acceptance_length / a.acceptance_length AS acceptance_ratio,
    abs(ln(b.acceptance_length / a.acceptance_length)) <= 0.01
        OR abs(ln(b.acceptance_length / a.acceptance_length)) <= half.acceptance AS acceptance_agrees
FROM cell_points AS a
-- Sweep and label follow from other columns; compared all the same, a filter on them reaches both sides.
JOIN cell_points AS b
    ON b.sweep = a.sweep
    AND b.revision = a.revision
    AND b.cell_hash = a.cell_hash
    AND b.label = a.label
    AND b.concurrency = a.concurrency
    AND b.context_tokens = a.context_tokens
    AND b.output_tokens_asked = a.output_tokens_asked
    AND b.host > a.host
CROSS JOIN LATERAL (
    SELECT
        ratio_half_width(
            (a.sd_tok_s / a.mean_tok_s) ^ 2 / a.interval_n, a.interval_n,
            (b.sd_tok_s / b.mean_tok_s) ^ 2 / b.interval_n, b.interval_n
        ) AS throughput,
        ratio_half_width(
            (a.sd_step_time_ms / a.step_time_ms) ^ 2 / a.interval_n, a.interval_n,
            (b.sd_step_time_ms / b.step_time_ms) ^ 2 / b.interval_n, b.interval_n
        ) AS step_time,
        ratio_half_width(
            (a.sd_acceptance_length / a.acceptance_length) ^ 2 / a.interval_n, a.interval_n,
            (b.sd_acceptance_length / b.acceptance_length) ^ 2 / b.interval_n, b.interval_n
        ) AS acceptance
) AS half;

COMMENT ON VIEW pairs IS 'One row a cell on two hosts of a sweep, and point: host b against host a, the names in order.';
COMMENT ON COLUMN pairs.simulated IS 'one of both ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN pairs.concurrency IS 'requests in flight';
COMMENT ON COLUMN pairs.context_tokens IS 'prompt tokens per request';
COMMENT ON COLUMN pairs.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN pairs.tok_s_a IS 'output tokens per second on host a';
COMMENT ON COLUMN pairs.tok_s_b IS 'output tokens per second on host b';
COMMENT ON COLUMN pairs.throughput_ratio IS 'output tokens per second, b / a: above 1 host b is faster';
COMMENT ON COLUMN pairs.throughput_ratio_low IS 'lower bound of its 95% interval (Welch, on logarithms); over visits from three on, else over repeats';
COMMENT ON COLUMN pairs.throughput_ratio_high IS 'upper bound of the same';
COMMENT ON COLUMN pairs.step_time_ms_a IS 'step time on host a, milliseconds';
COMMENT ON COLUMN pairs.step_time_ms_b IS 'step time on host b, milliseconds';
COMMENT ON COLUMN pairs.step_time_ratio IS 'step time, b / a: below 1 host b is faster';
COMMENT ON COLUMN pairs.step_time_ratio_low IS 'lower bound of its 95% interval';
COMMENT ON COLUMN pairs.step_time_ratio_high IS 'upper bound of its 95% interval';
COMMENT ON COLUMN pairs.acceptance_length_a IS 'tokens per verify on host a';
COMMENT ON COLUMN pairs.acceptance_length_b IS 'tokens per verify on host b';
COMMENT ON COLUMN pairs.acceptance_ratio IS 'acceptance length, b / a';
COMMENT ON COLUMN pairs.acceptance_agrees IS 'within 1%, or within the 95% interval of the ratio; false is an alarm, null = not known';
