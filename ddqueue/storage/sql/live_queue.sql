-- How many jobs of each sweep wait for each host, in the order of read_queue.sql; those of its baseline by themselves, for
-- they take longer than others.
SELECT
    j.host,
    s.id AS sweep_id,
    s.name || '@' || s.revision AS sweep,
    s.measure,
    s.simulated,
    c.baseline,
    count(*) AS jobs,
    CASE
        WHEN s.paused THEN 'paused'
        WHEN h.quarantined_at IS NOT NULL THEN 'quarantine'
        WHEN h.held_at IS NOT NULL AND coalesce(h.held_until > clock_timestamp(), true) THEN 'hold'
        WHEN EXISTS (
            SELECT FROM jobs AS b WHERE b.sweep_id = s.after_sweep_id AND b.state IN ('queued', 'running')
        ) THEN 'sweep'
    END AS waits_for
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN hosts AS h ON h.name = j.host
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
WHERE j.state = 'queued'
GROUP BY j.host, s.id, h.name, c.baseline
ORDER BY j.host, s.priority DESC, s.id, c.baseline DESC
