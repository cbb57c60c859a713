-- Every answer of a sweep with its newest score, job by job in the sweep's order. A running attempt's answers are left out: it
-- is about to judge them itself, and a judgement made here first would stand in the place of its own.
SELECT a.*, t.job_id, t.number AS attempt, j.host, j.parallel, c.label, score.outcome
FROM answers AS a
JOIN attempts AS t ON t.id = a.attempt_id
JOIN jobs AS j ON j.id = t.job_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
LEFT JOIN LATERAL (
    SELECT s.outcome FROM scores AS s WHERE s.answer_id = a.id ORDER BY s.revision DESC LIMIT 1
) AS score ON true
WHERE j.sweep_id = :sweep_id AND t.outcome IS NOT NULL
ORDER BY j.host, j.position, t.number, a.id
