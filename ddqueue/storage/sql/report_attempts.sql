-- Every attempt of the sweep, host by host, in the order begun; what was imported never ran here.
SELECT
    a.id AS attempt_id,
    a.job_id,
    a.number,
    a.host,
    j.parallel,
    j.cell_hash,
    c.label,
    j.visit,
    j.control,
    a.started_at,
    a.ended_at,
    a.outcome,
    a.failure,
    a.evidence,
    a.simulated,
    a.provenance,
    a.difference
FROM attempts AS a
JOIN jobs AS j ON j.id = a.job_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
WHERE j.sweep_id = :sweep_id AND a.imported IS NULL
ORDER BY a.host, a.started_at, a.id
