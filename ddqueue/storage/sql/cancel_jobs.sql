-- A queued job ends at once; a running one is asked to stop, because only its own attempt can stop it and prove the GPUs
-- clean. One statement for both: with two, a job that moves between them (lost and requeued, say) could escape.
UPDATE jobs
SET state = CASE state WHEN 'queued' THEN 'cancelled' ELSE state END,
    finished_at = CASE state WHEN 'queued' THEN clock_timestamp() END,
    cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()),
    not_before = NULL,
    woken_at = NULL
WHERE sweep_id = :sweep_id
  AND (CAST(:job_id AS bigint) IS NULL OR id = CAST(:job_id AS bigint))
  AND state IN ('queued', 'running')
RETURNING id, state, host
