-- The newest failures of every host, for people: not only those that count against it.
SELECT h.name AS host, f.*
FROM hosts AS h
CROSS JOIN LATERAL (
    SELECT a.ended_at AS at, a.job_id, s.name || '@' || s.revision AS sweep, c.label, a.outcome, a.failure, a.evidence
    FROM attempts AS a
    JOIN jobs AS j ON j.id = a.job_id
    JOIN sweeps AS s ON s.id = j.sweep_id
    JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
    WHERE a.host = h.name AND a.outcome IN ('failed', 'lost')
    ORDER BY a.ended_at DESC, a.id DESC
    LIMIT :limit
) AS f
ORDER BY h.name, f.at DESC
