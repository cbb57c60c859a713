-- The attempt's row, in the claim's transaction: there is never a running job without one. The number needs no lock of its
-- own, for the claim holds the job's row.
INSERT INTO attempts (job_id, number, fence, host, runner_pid, runner_start_ticks, worker, simulated)
SELECT
    j.id,
    1 + coalesce((SELECT max(a.number) FROM attempts AS a WHERE a.job_id = j.id), 0),
    j.fence,
    j.host,
    :runner_pid,
    :runner_start_ticks,
    :worker,
    s.simulated OR h.simulated
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN hosts AS h ON h.name = j.host
WHERE j.id = :job_id AND j.fence = :fence
RETURNING id, number
