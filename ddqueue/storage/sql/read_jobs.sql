-- In the order in which a host runs them.
SELECT
    j.id AS job_id,
    j.host,
    j.parallel,
    c.label,
    c.hash AS cell_hash,
    c.baseline,
    c.out_of_distribution,
    j.visit,
    j.control,
    j.state,
    j.tries,
    j.failure,
    j.evidence,
    j.cancel_requested_at,
    j.started_at,
    j.finished_at
FROM jobs AS j
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
WHERE j.sweep_id = :sweep_id
ORDER BY j.position
