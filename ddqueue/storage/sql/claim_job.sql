-- Take one queued job, or nothing. The caller holds its host's kernel lock; this statement decides everything else.
-- SKIP LOCKED: a second claimer of the same job must leave at once instead of waiting to be told no. The conditions are
-- tested again on the locked row, so that a cancel that has just committed wins. A second running job on the host breaks
-- jobs_one_running_per_host, whatever happened to the lock.
UPDATE jobs
SET state = 'running',
    fence = nextval('fence'),
    lease_expires_at = clock_timestamp() + make_interval(secs => :lease_ttl_s),
    started_at = clock_timestamp(),
    not_before = NULL,
    woken_at = NULL
WHERE id = (
    SELECT j.id
    FROM jobs AS j
    JOIN sweeps AS s ON s.id = j.sweep_id
    JOIN hosts AS h ON h.name = j.host
    WHERE j.id = :job_id
      AND j.host = :host
      AND j.state = 'queued'
      AND coalesce(j.not_before <= clock_timestamp(), true)
      AND NOT s.paused
      -- One probe of jobs_unfinished, as in next_jobs.
      AND coalesce((
          SELECT false FROM jobs AS b
          WHERE b.sweep_id = s.after_sweep_id AND b.state IN ('queued', 'running')
          ORDER BY b.position
          LIMIT 1
      ), true)
      AND h.quarantined_at IS NULL
      AND coalesce(h.held_until <= clock_timestamp(), h.held_at IS NULL)
    FOR UPDATE OF j SKIP LOCKED
)
RETURNING fence
