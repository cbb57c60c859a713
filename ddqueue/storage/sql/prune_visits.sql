-- The visits of a given-up configuration that have not begun: they would show the same at the price of a start each.
UPDATE jobs AS later
SET state = 'pruned',
    finished_at = clock_timestamp(),
    evidence = CAST(:evidence AS text),
    not_before = NULL,
    woken_at = NULL
FROM jobs AS mine
WHERE mine.id = :job_id
  AND later.sweep_id = mine.sweep_id
  AND later.cell_hash = mine.cell_hash
  AND later.host = mine.host
  AND later.parallel = mine.parallel
  AND later.id <> mine.id
  AND later.state = 'queued'
RETURNING later.id
