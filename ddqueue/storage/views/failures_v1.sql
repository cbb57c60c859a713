-- One row an attempt that failed or was lost, also where a later one succeeded. What a person cancelled has not failed.
CREATE VIEW failures AS
SELECT
    s.id AS sweep_id,
    s.name AS sweep,
    s.revision,
    a.simulated,
    a.host,
    j.parallel,
    j.cell_hash,
    c.label,
    c.out_of_distribution,
    j.id AS job_id,
    j.state AS job_state,
    a.number AS attempt,
    a.ended_at AS at,
    extract(epoch FROM a.ended_at - a.started_at)::double precision AS lasted_s,
    a.outcome,
    a.failure,
    k.scope,
    a.evidence,
    k.remedy,
    count(*) OVER (PARTITION BY s.id, s.name, s.revision, a.host, a.failure) AS times
FROM attempts AS a
JOIN jobs AS j ON j.id = a.job_id
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
LEFT JOIN failure_classes AS k ON k.failure = a.failure
WHERE a.outcome IN ('failed', 'lost');

COMMENT ON VIEW failures IS 'One row an attempt that failed or was lost: class, evidence and remedy.';
COMMENT ON COLUMN failures.simulated IS 'ran on software GPUs';
COMMENT ON COLUMN failures.job_state IS 'what became of the job since: it may have succeeded in a later attempt';
COMMENT ON COLUMN failures.attempt IS 'counts the job''s attempts from 1';
COMMENT ON COLUMN failures.at IS 'when the attempt ended';
COMMENT ON COLUMN failures.lasted_s IS 'seconds from claim to end: what the failure cost';
COMMENT ON COLUMN failures.failure IS 'class; failure_classes lists them all';
COMMENT ON COLUMN failures.scope IS 'configuration: fails again; host: the box, which is quarantined; transient: may pass';
COMMENT ON COLUMN failures.evidence IS 'the line or reading that decided';
COMMENT ON COLUMN failures.remedy IS 'what a person can do';
COMMENT ON COLUMN failures.times IS 'attempts of this sweep on this host that ended with this class';
