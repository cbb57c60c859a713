-- Prolong exactly this lease: the row is found by its fence, never by its id alone, so that a runner that slept through its
-- own replacement learns of it here. An expired lease is prolonged too: expiry only wakes recovery, and as long as nobody
-- has taken the fence the runner is the owner.
-- What the attempt does now goes along, for people who watch; it decides nothing.
WITH held AS (
    UPDATE jobs
    SET lease_expires_at = clock_timestamp() + make_interval(secs => :lease_ttl_s)
    WHERE id = :job_id AND fence = :fence AND state = 'running'
    RETURNING fence, cancel_requested_at IS NOT NULL AS cancel, yield_requested_at IS NOT NULL AS yields
),
told AS (
    UPDATE attempts
    SET activity = :activity
    FROM held
    WHERE attempts.fence = held.fence AND attempts.activity IS DISTINCT FROM :activity
)
SELECT cancel, yields FROM held
