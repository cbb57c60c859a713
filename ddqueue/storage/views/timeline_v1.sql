-- Where a host's time went: the phases of each attempt in order, and how long the host stood idle before. A server's own phases
-- (load weights, capture graphs, ...) lie within `ready`, and are marked, so that sums can leave them out. What was
-- imported took no time here.
CREATE VIEW timeline AS
SELECT
    s.id AS sweep_id,
    s.name AS sweep,
    s.revision,
    a.simulated,
    a.host,
    j.parallel,
    j.cell_hash,
    c.label,
    j.id AS job_id,
    a.number AS attempt,
    a.outcome AS attempt_outcome,
    a.started_at AS attempt_started_at,
    a.ended_at AS attempt_ended_at,
    p.seq,
    p.name AS phase,
    p.detail,
    p.started_at,
    p.duration_s,
    CASE
        WHEN p.seq > ready.seq AND p.started_at < ready.started_at + make_interval(secs => ready.duration_s)
        THEN ready.name
    END AS within,
    -- On one row of each attempt only, so that it can be added up.
    CASE
        WHEN coalesce(p.seq, 1) = 1
        THEN extract(epoch FROM a.started_at - (
            SELECT b.ended_at
            FROM attempts AS b
            WHERE b.host = a.host AND b.outcome IS NOT NULL AND b.ended_at <= a.started_at AND b.imported IS NULL
            ORDER BY b.ended_at DESC
            LIMIT 1
        ))::double precision
    END AS idle_before_s
FROM attempts AS a
JOIN jobs AS j ON j.id = a.job_id
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
LEFT JOIN LATERAL (
    SELECT r.seq, r.name, r.started_at, r.duration_s
    FROM phases AS r
    WHERE r.attempt_id = a.id AND r.name = 'ready'
    ORDER BY r.started_at
    LIMIT 1
) AS ready ON true
LEFT JOIN phases AS p ON p.attempt_id = a.id
WHERE a.imported IS NULL;

COMMENT ON VIEW timeline IS 'One row a phase of an attempt; an attempt that recorded none has one row without a phase.';
COMMENT ON COLUMN timeline.simulated IS 'ran on software GPUs: these times say nothing of real hardware';
COMMENT ON COLUMN timeline.attempt_started_at IS 'when the job was claimed';
COMMENT ON COLUMN timeline.seq IS 'order stored, from 1';
COMMENT ON COLUMN timeline.detail IS 'what it did, or failed';
COMMENT ON COLUMN timeline.duration_s IS 'seconds';
COMMENT ON COLUMN timeline.within IS 'the phase that it is a part of; null = stands by itself, so that these add up to the attempt';
COMMENT ON COLUMN timeline.idle_before_s IS 'seconds since the former attempt on this host ended, of any sweep; on the first phase of each attempt only';
