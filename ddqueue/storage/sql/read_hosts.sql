-- `phase` is the last one that ended; `activity` is what the attempt said with its last heartbeat.
SELECT
    h.name,
    h.gpus,
    h.gpu_kind,
    h.interconnect,
    h.simulated,
    h.quarantined_at,
    h.quarantine_class,
    h.quarantine_reason,
    held.at AS held_at,
    held.until AS held_until,
    held.reason AS hold_reason,
    r.id AS job_id,
    s.name || '@' || s.revision AS sweep,
    c.label,
    r.parallel,
    a.number AS attempt,
    a.worker,
    a.runner_pid,
    (SELECT p.name FROM phases AS p WHERE p.attempt_id = a.id ORDER BY p.seq DESC LIMIT 1) AS phase,
    a.activity,
    extract(epoch FROM clock_timestamp() - r.started_at)::double precision AS running_s,
    r.lease_expires_at < clock_timestamp() AS lease_expired,
    r.cancel_requested_at IS NOT NULL AS cancel_requested,
    h.worker_version,
    h.worker_seen_at,
    h.borrow,
    h.loan_state,
    h.borrowed_since,
    (SELECT count(*) FROM jobs AS q WHERE q.host = h.name AND q.state = 'queued') AS queued
FROM hosts AS h
LEFT JOIN LATERAL (
    SELECT h.held_at AS at, h.held_until AS until, h.hold_reason AS reason
    WHERE h.held_at IS NOT NULL AND coalesce(h.held_until > clock_timestamp(), true)
) AS held ON true
LEFT JOIN jobs AS r ON r.host = h.name AND r.state = 'running'
LEFT JOIN sweeps AS s ON s.id = r.sweep_id
LEFT JOIN cells AS c ON c.sweep_id = r.sweep_id AND c.hash = r.cell_hash
LEFT JOIN attempts AS a ON a.job_id = r.id AND a.outcome IS NULL
ORDER BY h.name
