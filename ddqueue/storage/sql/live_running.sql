-- What each running attempt has stored so far. `step_s` counts from the end of the last step that ended.
SELECT
    j.host,
    j.id AS job_id,
    j.sweep_id,
    s.name || '@' || s.revision AS sweep,
    s.measure,
    s.simulated,
    c.baseline,
    a.activity,
    extract(epoch FROM clock_timestamp() - a.started_at)::double precision AS running_s,
    extract(
        epoch FROM clock_timestamp() - greatest(a.started_at, steps.ended_at)
    )::double precision AS step_s,
    coalesce(steps.phases, '[]'::jsonb) AS phases,
    coalesce(measured.points, '[]'::jsonb) AS points
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
JOIN attempts AS a ON a.job_id = j.id AND a.outcome IS NULL
CROSS JOIN LATERAL (
    SELECT
        max(p.started_at + make_interval(secs => p.duration_s)) AS ended_at,
        jsonb_agg(jsonb_build_array(p.name, p.started_at, p.duration_s) ORDER BY p.seq) AS phases
    FROM phases AS p
    WHERE p.attempt_id = a.id
) AS steps
CROSS JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_array(m.concurrency, m.context_tokens, m.output_tokens_asked, m.n, m.mean_tok_s)) AS points
    FROM (
        SELECT
            concurrency,
            context_tokens,
            output_tokens_asked,
            count(*) FILTER (WHERE valid) AS n,
            avg(output_throughput_tok_s) FILTER (WHERE valid) AS mean_tok_s
        FROM measurements
        WHERE attempt_id = a.id
        GROUP BY concurrency, context_tokens, output_tokens_asked
        ORDER BY concurrency, context_tokens, output_tokens_asked
    ) AS m
) AS measured
WHERE j.state = 'running'
ORDER BY j.host
