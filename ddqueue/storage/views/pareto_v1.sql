-- What a box does for all its users together against what each of them gets. A point is on the front when no other one of the
-- same host and workload gives more to both. Parallelism, cell and concurrency are what is chosen, so they compete; cells out
-- of distribution stand beside the ranking, and simulated numbers compete with each other only.
CREATE VIEW pareto AS
SELECT
    sweep_id,
    sweep,
    revision,
    host,
    parallel,
    cell_hash,
    label,
    baseline,
    out_of_distribution,
    simulated,
    concurrency,
    context_tokens,
    output_tokens_asked,
    system_tok_s,
    user_tok_s,
    NOT out_of_distribution
        AND system_tok_s >= max(system_tok_s) FILTER (WHERE NOT out_of_distribution) OVER as_fast
        AND system_tok_s > coalesce(max(system_tok_s) FILTER (WHERE NOT out_of_distribution) OVER faster, 0) AS on_front
FROM (
    SELECT *, mean_tok_s AS system_tok_s, 1000 / itl_ms AS user_tok_s FROM cell_points WHERE itl_ms > 0
) AS speeds
WINDOW
    workload AS (
        PARTITION BY sweep_id, sweep, revision, host, simulated, context_tokens, output_tokens_asked
        ORDER BY user_tok_s DESC
    ),
    as_fast AS (workload GROUPS BETWEEN CURRENT ROW AND CURRENT ROW),
    faster AS (workload GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);

COMMENT ON VIEW pareto IS 'One row a cell and point: throughput of the system against the speed that each user sees, per host and workload.';
COMMENT ON COLUMN pareto.simulated IS 'ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN pareto.concurrency IS 'requests in flight';
COMMENT ON COLUMN pareto.context_tokens IS 'prompt tokens per request';
COMMENT ON COLUMN pareto.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN pareto.system_tok_s IS 'output tokens per second of all users together';
COMMENT ON COLUMN pareto.user_tok_s IS 'output tokens per second that one user sees once they come: 1000 / itl_ms';
COMMENT ON COLUMN pareto.on_front IS 'no other row of this sweep, host, context and output is at least as good at both and better at one';
