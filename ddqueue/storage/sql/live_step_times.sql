-- The phases of the newest accepted attempts of every sweep that goes on, on each of its hosts, of its baseline and of what
-- speculates: what the rest is expected to take. Only the newest ones, so that the cost does not grow with a sweep.
SELECT pair.host, pair.sweep_id, kind.baseline, recent.id AS attempt_id, p.name, p.started_at, p.duration_s
FROM (SELECT DISTINCT j.host, j.sweep_id FROM jobs AS j WHERE j.state IN ('queued', 'running')) AS pair
CROSS JOIN (VALUES (true), (false)) AS kind (baseline)
CROSS JOIN LATERAL (
    SELECT a.id
    FROM jobs AS d
    JOIN cells AS c ON c.sweep_id = d.sweep_id AND c.hash = d.cell_hash AND c.baseline = kind.baseline
    JOIN attempts AS a ON a.job_id = d.id AND a.outcome = 'succeeded'
    WHERE d.sweep_id = pair.sweep_id AND d.host = pair.host AND d.state = 'succeeded'
    ORDER BY d.finished_at DESC
    LIMIT :most
) AS recent
JOIN phases AS p ON p.attempt_id = recent.id
ORDER BY pair.host, pair.sweep_id, kind.baseline, recent.id, p.seq
