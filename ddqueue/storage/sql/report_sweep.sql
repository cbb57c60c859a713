-- What was submitted, word for word, and when its jobs ran; what was imported never ran here.
SELECT
    s.name,
    s.revision,
    s.model,
    s.engine,
    s.hypothesis,
    s.simulated,
    s.imported,
    s.submitted_at,
    s.file_name,
    s.file_text,
    ran.began_at,
    ran.ended_at
FROM sweeps AS s
CROSS JOIN LATERAL (
    SELECT min(a.started_at) AS began_at, max(a.ended_at) AS ended_at
    FROM jobs AS j
    JOIN attempts AS a ON a.job_id = j.id AND a.imported IS NULL
    WHERE j.sweep_id = s.id
) AS ran
WHERE s.id = :sweep_id
