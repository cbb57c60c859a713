-- Take one queued job, or nothing, open its attempt, and tell the attempt all that it needs to know: one statement, since each
-- exchange with Postgres keeps a host waiting, and since there is never a running job without an attempt. The caller holds
-- its host's kernel lock; this statement decides everything else.
-- SKIP LOCKED: a second claimer of the same job must leave at once instead of waiting to be told no. The conditions are
-- tested again on the locked row, so that a cancel that has just committed wins. A second running job on the host breaks
-- jobs_one_running_per_host, whatever happened to the lock.
-- All parts see the database as it was when the statement began, and of each other only what they return. An attempt that
-- another one began and ended between that moment and the lock is not seen: its number, given again, breaks
-- attempts_job_id_number_key, and the claim fails as if it had come too late.
WITH claimed AS (
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
    RETURNING id, sweep_id, cell_hash, host, fence, tries, tp, ep, pp, dp
),
opened AS (
    INSERT INTO attempts (job_id, number, fence, host, runner_pid, runner_start_ticks, worker, simulated)
    SELECT
        c.id,
        1 + coalesce((SELECT max(a.number) FROM attempts AS a WHERE a.job_id = c.id), 0),
        c.fence,
        c.host,
        :runner_pid,
        :runner_start_ticks,
        :worker,
        s.simulated OR h.simulated
    FROM claimed AS c
    JOIN sweeps AS s ON s.id = c.sweep_id
    JOIN hosts AS h ON h.name = c.host
    RETURNING id, number
),
told AS (
    INSERT INTO events (sweep_id, job_id, attempt_id, host, kind, detail)
    SELECT
        c.sweep_id, c.id, o.id, c.host, 'claimed', jsonb_build_object('number', o.number, 'fence', c.fence)
    FROM claimed AS c
    CROSS JOIN opened AS o
)
SELECT
    c.fence,
    c.tries,
    c.tp,
    c.ep,
    c.pp,
    c.dp,
    o.id AS attempt_id,
    o.number AS attempt_number,
    s.id AS sweep_id,
    s.name,
    s.revision,
    s.measure,
    cell.canonical,
    cell.label,
    cell.out_of_distribution
FROM claimed AS c
CROSS JOIN opened AS o
JOIN sweeps AS s ON s.id = c.sweep_id
JOIN cells AS cell ON cell.sweep_id = c.sweep_id AND cell.hash = c.cell_hash
