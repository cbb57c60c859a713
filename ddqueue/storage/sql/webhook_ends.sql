-- Write a message for every sweep with a webhook that has ended since it was last told, and take note of sweeps that go on
-- again because a person retried a job. Only probes of jobs_unfinished for sweeps that were told of before, so that it may be
-- asked every second. Two dispatchers at once: the second waits for the row and then finds told_end already set.
WITH going_on AS (
    UPDATE webhooks AS w
    SET told_end = false
    WHERE w.told_end
      AND EXISTS (SELECT FROM jobs AS j WHERE j.sweep_id = w.sweep_id AND j.state IN ('queued', 'running'))
),
ended AS (
    UPDATE webhooks AS w
    SET told_end = true
    WHERE NOT w.told_end
      AND NOT EXISTS (SELECT FROM jobs AS j WHERE j.sweep_id = w.sweep_id AND j.state IN ('queued', 'running'))
    RETURNING w.sweep_id
)
INSERT INTO webhook_messages (sweep_id, kind, payload)
SELECT
    s.id,
    'sweep_ended',
    jsonb_build_object(
        'kind', 'sweep_ended',
        'at', counted.finished_at,
        'sweep', s.name || '@' || s.revision,
        'sweep_id', s.id,
        'model', s.model,
        'engine', s.engine,
        'simulated', s.simulated,
        'all_succeeded', counted.succeeded + counted.pruned = counted.total,
        'jobs', jsonb_build_object(
            'total', counted.total,
            'succeeded', counted.succeeded,
            'failed', counted.failed,
            'unsupported', counted.unsupported,
            'cancelled', counted.cancelled,
            'pruned', counted.pruned
        ),
        'failures', coalesce(listed.failures, '[]'::jsonb)
    )
FROM ended
JOIN sweeps AS s ON s.id = ended.sweep_id
CROSS JOIN LATERAL (
    SELECT
        max(j.finished_at) AS finished_at,
        count(*) AS total,
        count(*) FILTER (WHERE j.state = 'succeeded') AS succeeded,
        count(*) FILTER (WHERE j.state = 'failed') AS failed,
        count(*) FILTER (WHERE j.state = 'unsupported') AS unsupported,
        count(*) FILTER (WHERE j.state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE j.state = 'pruned') AS pruned
    FROM jobs AS j
    WHERE j.sweep_id = s.id
) AS counted
CROSS JOIN LATERAL (
    SELECT
        jsonb_agg(
            jsonb_build_object(
                'job_id', f.id,
                'host', f.host,
                'parallel', f.parallel,
                'label', f.label,
                'failure', f.failure,
                'evidence', f.evidence
            )
            ORDER BY f.position
        ) AS failures
    FROM (
        SELECT j.*, c.label
        FROM jobs AS j
        JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
        WHERE j.sweep_id = s.id AND j.failure IS NOT NULL
        ORDER BY j.position
        LIMIT :most_failures
    ) AS f
) AS listed
