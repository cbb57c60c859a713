-- What the circuit breaker judges by: a host's attempts that ended since a person last released it, newest first.
-- The host's row is locked first, or a release that commits meanwhile would be answered by a quarantine for what was
-- before it. What was imported says nothing of the box today. NO KEY, so that nobody who only refers to the host waits.
WITH box AS (
    SELECT name, coalesce(released_at, '-infinity') AS released_at
    FROM hosts
    WHERE name = :host
    FOR NO KEY UPDATE
)
SELECT a.job_id, j.cell_hash AS configuration, a.outcome, a.failure
FROM box
JOIN attempts AS a ON a.host = box.name AND a.outcome IS NOT NULL AND a.ended_at > box.released_at
    AND a.imported IS NULL
JOIN jobs AS j ON j.id = a.job_id
ORDER BY a.ended_at DESC, a.id DESC
LIMIT :limit
