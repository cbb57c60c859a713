-- The same order as next_jobs: what a person reads is what will happen.
SELECT
    j.id AS job_id,
    j.host,
    j.state,
    s.name || '@' || s.revision AS sweep,
    c.label,
    j.parallel,
    j.visit,
    j.control,
    j.tries,
    j.not_before,
    CASE
        WHEN j.state = 'running' THEN NULL
        WHEN s.paused THEN 'paused'
        WHEN h.quarantined_at IS NOT NULL THEN 'quarantine'
        WHEN h.held_at IS NOT NULL AND coalesce(h.held_until > clock_timestamp(), true) THEN 'hold'
        WHEN EXISTS (
            SELECT FROM jobs AS b WHERE b.sweep_id = s.after_sweep_id AND b.state IN ('queued', 'running')
        ) THEN 'sweep'
        WHEN j.not_before > clock_timestamp() THEN 'backoff'
    END AS waits_for
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
JOIN hosts AS h ON h.name = j.host
WHERE j.state IN ('queued', 'running')
  AND (CAST(:sweep_id AS bigint) IS NULL OR j.sweep_id = CAST(:sweep_id AS bigint))
ORDER BY j.host, (j.state = 'running') DESC, s.priority DESC, j.priority DESC, s.id, j.position
LIMIT :limit
