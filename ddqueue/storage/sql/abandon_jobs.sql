-- A person says that the box behind these running jobs will not come back. Only where nobody has heard of the attempt for
-- longer than its lease: one that lives stops by itself when it is cancelled. Taking the fence away makes whatever the box
-- would still write, should it come back after all, stale; the box's kernel lock, not this row, decides who uses its GPUs.
WITH gone AS (
    UPDATE jobs
    SET state = 'cancelled',
        finished_at = clock_timestamp(),
        cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()),
        fence = NULL,
        lease_expires_at = NULL,
        woken_at = NULL,
        yield_requested_at = NULL
    WHERE sweep_id = :sweep_id
      AND (CAST(:job_id AS bigint) IS NULL OR id = CAST(:job_id AS bigint))
      AND state = 'running'
      AND lease_expires_at < clock_timestamp()
    RETURNING id, sweep_id, host
)
UPDATE attempts
SET outcome = 'lost', ended_at = clock_timestamp(), failure = 'LEASE_LOST', evidence = CAST(:why AS text)
FROM gone
WHERE attempts.job_id = gone.id AND attempts.outcome IS NULL
RETURNING gone.id AS job_id, gone.sweep_id, gone.host, attempts.id AS attempt_id
