-- A measured job whose server ran what this job's server is about to run: same sweep, host and parallelism, so that the
-- points are the same too. Only an accepted attempt counts: numbers of a failed one are no reason not to measure.
-- Another visit of the same cell is wanted, and no duplicate.
SELECT
    other.id AS job_id,
    c.label,
    a.requested
FROM jobs AS mine
JOIN jobs AS other
    ON other.sweep_id = mine.sweep_id
    AND other.host = mine.host
    AND other.parallel = mine.parallel
    AND other.cell_hash <> mine.cell_hash
JOIN attempts AS a ON a.job_id = other.id AND a.outcome = 'succeeded'
JOIN cells AS c ON c.sweep_id = other.sweep_id AND c.hash = other.cell_hash
WHERE mine.id = :job_id AND a.effective_hash = :effective_hash
ORDER BY other.position
LIMIT 1
