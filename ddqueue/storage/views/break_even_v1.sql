-- Whether speculation pays: one row a speculating cell and point, against the baseline of its host and parallelism. Of several
-- baselines in a sweep it is the one with the cell's own server arguments and environment, else the first.
CREATE VIEW break_even AS
SELECT
    p.sweep_id,
    p.sweep,
    p.revision,
    p.host,
    p.parallel,
    p.cell_hash,
    p.label,
    p.out_of_distribution,
    p.simulated,
    p.concurrency,
    p.context_tokens,
    p.output_tokens_asked,
    p.acceptance_length,
    p.step_time_ms,
    b.step_time_ms AS baseline_step_time_ms,
    p.step_time_ms / nullif(b.step_time_ms, 0) AS break_even_acceptance,
    p.acceptance_length - p.step_time_ms / nullif(b.step_time_ms, 0) AS margin,
    p.mean_tok_s,
    b.mean_tok_s AS baseline_tok_s,
    p.mean_tok_s / b.mean_tok_s AS speedup
FROM cell_points AS p
JOIN cells AS c ON c.sweep_id = p.sweep_id AND c.hash = p.cell_hash
JOIN LATERAL (
    SELECT o.hash
    FROM cells AS o
    WHERE o.sweep_id = c.sweep_id AND o.baseline
    ORDER BY
        (o.canonical -> 'args' = c.canonical -> 'args' AND o.canonical -> 'env' = c.canonical -> 'env') DESC, o.position
    LIMIT 1
) AS against ON true
-- Sweep and host are compared by name, so that a filter on them reaches both sides.
JOIN cell_points AS b
    ON b.sweep = p.sweep
    AND b.revision = p.revision
    AND b.host = p.host
    AND b.parallel = p.parallel
    AND b.cell_hash = against.hash
    AND b.simulated = p.simulated
    AND b.concurrency = p.concurrency
    AND b.context_tokens = p.context_tokens
    AND b.output_tokens_asked = p.output_tokens_asked
WHERE NOT p.baseline AND b.baseline;

COMMENT ON VIEW break_even IS 'One row a speculating cell, host, parallelism and point: whether speculation pays there.';
COMMENT ON COLUMN break_even.simulated IS 'ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN break_even.concurrency IS 'requests in flight';
COMMENT ON COLUMN break_even.context_tokens IS 'prompt tokens per request';
COMMENT ON COLUMN break_even.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN break_even.acceptance_length IS 'measured: 1 + sum(correct drafts) / sum(verifies), tokens per verify';
COMMENT ON COLUMN break_even.step_time_ms IS 'what one draft-and-verify step takes, milliseconds';
COMMENT ON COLUMN break_even.baseline_step_time_ms IS 'what one token takes without speculation, milliseconds';
COMMENT ON COLUMN break_even.break_even_acceptance IS 'step time / the baseline''s: the acceptance at which both decode equally fast, tokens per verify';
COMMENT ON COLUMN break_even.margin IS 'acceptance length - break-even acceptance, tokens per verify: speculation pays where it is positive';
COMMENT ON COLUMN break_even.mean_tok_s IS 'output tokens per second of the cell';
COMMENT ON COLUMN break_even.baseline_tok_s IS 'output tokens per second of the baseline';
COMMENT ON COLUMN break_even.speedup IS 'the cell''s output tokens per second / the baseline''s, prefill and all';
