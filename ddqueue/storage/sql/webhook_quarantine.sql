-- In the transaction that shuts a host: a message for every sweep with a webhook that has work there. A sweep whose last job
-- there ended in this same transaction has none waiting any more, and is told all the same. For a new sweep: its hosts that
-- are shut already.
INSERT INTO webhook_messages (sweep_id, kind, payload)
SELECT
    s.id,
    'host_quarantined',
    jsonb_build_object(
        'kind', 'host_quarantined',
        'at', h.quarantined_at,
        'sweep', s.name || '@' || s.revision,
        'sweep_id', s.id,
        'model', s.model,
        'engine', s.engine,
        'simulated', s.simulated,
        'host', h.name,
        'failure', h.quarantine_class,
        'reason', h.quarantine_reason,
        'jobs_waiting', waiting.jobs
    )
FROM hosts AS h
CROSS JOIN webhooks AS w
JOIN sweeps AS s ON s.id = w.sweep_id
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE j.state = 'queued') AS jobs,
        coalesce(bool_or(j.state IN ('queued', 'running') OR j.finished_at >= transaction_timestamp()), false) AS uses
    FROM jobs AS j
    WHERE j.sweep_id = s.id AND j.host = h.name
) AS waiting
WHERE h.quarantined_at IS NOT NULL
  AND waiting.uses
  AND (CAST(:host AS text) IS NULL OR h.name = CAST(:host AS text))
  AND (CAST(:sweep_id AS bigint) IS NULL OR w.sweep_id = CAST(:sweep_id AS bigint))
