-- Only for the holder of the host's kernel lock: holding it proves that every running row of this host has no process
-- behind it, so that no time-out has to be guessed. Taking the fence away makes every late write of those attempts stale.
-- A lost attempt uses up no try: the job is mostly not to blame for it. One that takes its attempts down every time is, and
-- would keep its host busy for ever: after `lost_limit` of them since a person last queued it, it has failed.
WITH running AS (
    SELECT
        j.id,
        CASE
            WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN (
                SELECT count(*)
                FROM attempts AS a
                WHERE a.job_id = j.id
                  AND a.outcome = 'lost'
                  AND a.started_at > coalesce(
                      (SELECT max(e.at) FROM events AS e WHERE e.job_id = j.id AND e.kind = 'retried'), '-infinity'
                  )
            ) + 1 >= CAST(:lost_limit AS integer) THEN 'failed'
            ELSE 'queued'
        END AS state
    FROM jobs AS j
    WHERE j.host = :host AND j.state = 'running'
    FOR UPDATE
),
dead AS (
    UPDATE jobs
    SET state = running.state,
        finished_at = CASE WHEN running.state <> 'queued' THEN clock_timestamp() END,
        fence = NULL,
        lease_expires_at = NULL,
        woken_at = NULL,
        yield_requested_at = NULL,
        failure = CASE WHEN running.state = 'failed' THEN 'LEASE_LOST' END,
        evidence = CASE
            WHEN running.state = 'failed'
            THEN format('%s attempts in a row vanished with their process, the last one so: %s', CAST(:lost_limit AS integer), CAST(:why AS text))
        END
    FROM running
    WHERE jobs.id = running.id
    RETURNING jobs.id, jobs.sweep_id, jobs.state
)
UPDATE attempts
SET outcome = 'lost', ended_at = clock_timestamp(), failure = 'LEASE_LOST', evidence = CAST(:why AS text)
FROM dead
WHERE attempts.job_id = dead.id AND attempts.outcome IS NULL
RETURNING dead.id AS job_id, dead.sweep_id, dead.state, attempts.id AS attempt_id
