-- The timed steps of the sweep's attempts, in the order stored; a server's own start-up steps lie within `ready`.
SELECT p.attempt_id, p.name, p.started_at, p.duration_s, p.detail
FROM phases AS p
JOIN attempts AS a ON a.id = p.attempt_id
JOIN jobs AS j ON j.id = a.job_id
WHERE j.sweep_id = :sweep_id
ORDER BY p.attempt_id, p.seq
