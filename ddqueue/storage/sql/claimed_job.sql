-- All that the attempt needs to know, read in the claim's transaction.
SELECT
    j.tries,
    j.tp,
    j.ep,
    j.pp,
    j.dp,
    s.id AS sweep_id,
    s.name,
    s.revision,
    s.measure,
    c.canonical,
    c.label,
    c.out_of_distribution
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
WHERE j.id = :job_id
