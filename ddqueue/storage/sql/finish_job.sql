-- End the attempt's hold on its job. No row means that the fence is stale.
-- A job that would go back to the queue although a person has asked to cancel it is cancelled instead: the wish was
-- addressed to the running attempt, and nobody would carry it out later.
UPDATE jobs
SET state = moved.state,
    fence = NULL,
    lease_expires_at = NULL,
    woken_at = NULL,
    yield_requested_at = NULL,
    tries = tries + CAST(:counts AS boolean)::integer,
    not_before = CASE WHEN moved.state = 'queued' THEN clock_timestamp() + make_interval(secs => :delay_s) END,
    finished_at = CASE WHEN moved.state <> 'queued' THEN clock_timestamp() END,
    failure = CASE WHEN moved.state IN ('failed', 'unsupported') THEN CAST(:failure AS text) END,
    evidence = CASE WHEN moved.state IN ('failed', 'unsupported', 'pruned') THEN CAST(:evidence AS text) END
FROM (
    SELECT
        id,
        CASE
            WHEN CAST(:state AS text) = 'queued' AND cancel_requested_at IS NOT NULL THEN 'cancelled'
            ELSE CAST(:state AS text)
        END AS state
    FROM jobs
    WHERE id = :job_id AND fence = :fence AND state = 'running'
    FOR UPDATE
) AS moved
WHERE jobs.id = moved.id
RETURNING jobs.state
