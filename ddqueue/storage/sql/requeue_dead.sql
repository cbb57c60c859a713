-- Only for the holder of the host's kernel lock: holding it proves that every running row of this host has no process
-- behind it, so that no time-out has to be guessed. Taking the fence away makes every late write of those attempts stale.
-- A lost attempt uses up no try: the job is not to blame for it.
WITH dead AS (
    UPDATE jobs
    SET state = CASE WHEN cancel_requested_at IS NULL THEN 'queued' ELSE 'cancelled' END,
        finished_at = CASE WHEN cancel_requested_at IS NOT NULL THEN clock_timestamp() END,
        fence = NULL,
        lease_expires_at = NULL,
        woken_at = NULL
    WHERE host = :host AND state = 'running'
    RETURNING id, sweep_id, state
)
UPDATE attempts
SET outcome = 'lost', ended_at = clock_timestamp(), failure = 'LEASE_LOST', evidence = :why
FROM dead
WHERE attempts.job_id = dead.id AND attempts.outcome IS NULL
RETURNING dead.id AS job_id, dead.sweep_id, dead.state, attempts.id AS attempt_id
