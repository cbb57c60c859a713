-- A person's decision, so that the job starts afresh with all its tries. Its earlier attempts stay as they are.
UPDATE jobs
SET state = 'queued',
    tries = 0,
    failure = NULL,
    evidence = NULL,
    finished_at = NULL,
    cancel_requested_at = NULL
WHERE sweep_id = :sweep_id
  AND (CAST(:job_id AS bigint) IS NULL OR id = CAST(:job_id AS bigint))
  AND (CAST(:failures AS text[]) IS NULL OR failure = ANY (CAST(:failures AS text[])))
  AND state IN ('failed', 'unsupported', 'cancelled', 'pruned')
RETURNING id, state, host
