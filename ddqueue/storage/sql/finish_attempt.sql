-- In the transaction of finish_job: the outcome and the job's move are one fact.
UPDATE attempts
SET outcome = :outcome,
    ended_at = clock_timestamp(),
    failure = :failure,
    evidence = :evidence
WHERE id = :attempt_id AND fence = :fence AND outcome IS NULL
RETURNING id
