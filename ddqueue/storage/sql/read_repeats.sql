-- Every repeat of the sweep's accepted attempts, in the order taken, valid or not. A repeat that was carried over shares the
-- start of the server that it was measured on, not the start of the attempt that took it over: `start` names it.
SELECT
    j.id AS job_id,
    coalesce(m.carried_from, m.attempt_id) AS start,
    m.started_at,
    m.concurrency,
    m.context_tokens,
    m.output_tokens_asked,
    m.reasons,
    m.marks,
    m.output_throughput_tok_s,
    m.step_time_ms,
    m.acceptance_length,
    m.verifies,
    m.correct_drafts,
    m.draft_histogram
FROM jobs AS j
JOIN attempts AS a ON a.job_id = j.id AND a.outcome = 'succeeded'
JOIN measurements AS m ON m.attempt_id = a.id
WHERE j.sweep_id = :sweep_id AND j.state = 'succeeded'
ORDER BY j.position, m.started_at, m.id
