-- A sweep always has a row here, even one whose jobs have all ended.
SELECT
    s.id,
    s.name,
    s.revision,
    s.submitted_at,
    s.model,
    s.engine,
    s.hypothesis,
    s.simulated,
    s.paused,
    s.priority,
    count(j.id) AS jobs,
    count(j.id) FILTER (WHERE j.state = 'queued') AS queued,
    count(j.id) FILTER (WHERE j.state = 'running') AS running,
    count(j.id) FILTER (WHERE j.state = 'succeeded') AS succeeded,
    count(j.id) FILTER (WHERE j.state = 'failed') AS failed,
    count(j.id) FILTER (WHERE j.state = 'unsupported') AS unsupported,
    count(j.id) FILTER (WHERE j.state = 'cancelled') AS cancelled,
    count(j.id) FILTER (WHERE j.state = 'pruned') AS pruned
FROM sweeps AS s
LEFT JOIN jobs AS j ON j.sweep_id = s.id
GROUP BY s.id
ORDER BY s.id DESC
