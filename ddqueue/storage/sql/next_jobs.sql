-- One job for each idle host that has not been woken lately, and the mark that it is woken now: one statement, so that
-- choosing and marking cannot come apart. Only the leader runs it, on the connection that holds the leader's lock.
-- Idle = nothing runs there with a live lease. A running job whose lease has expired is what its host is woken for first:
-- whoever answers takes the host's lock and recovers. Expiry alone never gives the job to anybody.
-- The inner LATERAL takes the first job of one sweep from jobs_queue_order, so that the cost grows with the number of
-- sweeps and hosts, not with the length of the queue.
WITH idle AS (
    SELECT h.name
    FROM hosts AS h
    WHERE h.quarantined_at IS NULL
      AND coalesce(h.held_until <= now(), h.held_at IS NULL)
      AND NOT EXISTS (
          SELECT FROM jobs AS r WHERE r.host = h.name AND r.state = 'running' AND r.lease_expires_at >= now()
      )
      AND NOT EXISTS (
          SELECT FROM jobs AS w
          WHERE w.host = h.name
            AND w.woken_at IS NOT NULL
            AND w.woken_at > now() - make_interval(secs => :wake_again_after_s)
      )
),
chosen AS (
    SELECT pick.id
    FROM idle
    CROSS JOIN LATERAL (
        SELECT candidate.id
        FROM (
            SELECT r.id, true AS dead FROM jobs AS r WHERE r.host = idle.name AND r.state = 'running'
            UNION ALL
            (
                SELECT first.id, false
                FROM sweeps AS s
                CROSS JOIN LATERAL (
                    SELECT j.id, j.priority
                    FROM jobs AS j
                    WHERE j.host = idle.name
                      AND j.sweep_id = s.id
                      AND j.state = 'queued'
                      AND coalesce(j.not_before <= now(), true)
                    ORDER BY j.priority DESC, j.position
                    LIMIT 1
                ) AS first
                WHERE NOT s.paused
                  -- A scalar with an order, so that it is one probe of jobs_unfinished: as a join, or without the order,
                  -- it would read every job.
                  AND coalesce((
                      SELECT false FROM jobs AS b
                      WHERE b.sweep_id = s.after_sweep_id AND b.state IN ('queued', 'running')
                      ORDER BY b.position
                      LIMIT 1
                  ), true)
                ORDER BY s.priority DESC, first.priority DESC, s.id
                LIMIT 1
            )
        ) AS candidate
        ORDER BY candidate.dead DESC
        LIMIT 1
    ) AS pick
)
UPDATE jobs
SET woken_at = clock_timestamp()
FROM chosen, sweeps AS s, cells AS c
WHERE jobs.id = chosen.id
  -- Tested again on the newest row: a claim may have committed since the choice.
  AND (jobs.state = 'queued' OR (jobs.state = 'running' AND jobs.lease_expires_at < now()))
  AND s.id = jobs.sweep_id
  AND c.sweep_id = jobs.sweep_id
  AND c.hash = jobs.cell_hash
RETURNING jobs.id AS job_id, jobs.host, s.name, s.revision, s.model, c.label, jobs.parallel
