-- One row a job and concurrency of its coding checks, of the attempt that the view `points` shows: the accepted one, else
-- the latest. Of each answer only the newest score counts; an answer that has none yet was not graded.
CREATE VIEW coding AS
SELECT
    j.id AS job_id,
    s.name AS sweep,
    s.revision,
    j.host,
    j.parallel,
    j.cell_hash,
    c.label,
    c.baseline,
    b.simulated,
    shown.number AS attempt,
    coalesce(shown.outcome = 'succeeded', false) AS accepted,
    b.suite,
    b.suite_digest,
    b.concurrency,
    sum(b.asked)::bigint AS asked,
    sum(b.judged)::bigint AS judged,
    sum(b.passed)::bigint AS passed,
    sum(b.failed)::bigint AS failed,
    sum(b.no_code)::bigint AS no_code,
    sum(b.no_answer)::bigint AS no_answer,
    sum(b.not_asked)::bigint AS not_asked,
    sum(b.not_graded)::bigint AS not_graded,
    max(b.revision) AS score_revision,
    json_object_agg(b.problem, b.outcomes ORDER BY b.first_id) AS outcomes
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
-- Attempt and answers are looked up job by job: gathered in a CTE, all answers would be read for one job's sake.
JOIN LATERAL (
    SELECT t.id, t.number, t.outcome
    FROM attempts AS t
    WHERE t.job_id = j.id
    ORDER BY (t.outcome IS NOT DISTINCT FROM 'succeeded') DESC, t.number DESC
    LIMIT 1
) AS shown ON true
JOIN LATERAL (
    SELECT
        a.suite,
        a.suite_digest,
        a.concurrency,
        a.problem,
        a.simulated,
        min(a.id) AS first_id,
        array_agg(coalesce(score.outcome, 'not_graded') ORDER BY a.sample) AS outcomes,
        count(*) AS asked,
        count(*) FILTER (WHERE score.outcome IN ('passed', 'failed', 'no_code', 'no_answer')) AS judged,
        count(*) FILTER (WHERE score.outcome = 'passed') AS passed,
        count(*) FILTER (WHERE score.outcome = 'failed') AS failed,
        count(*) FILTER (WHERE score.outcome = 'no_code') AS no_code,
        count(*) FILTER (WHERE score.outcome = 'no_answer') AS no_answer,
        count(*) FILTER (WHERE score.outcome = 'not_asked') AS not_asked,
        count(*) FILTER (WHERE coalesce(score.outcome, 'not_graded') = 'not_graded') AS not_graded,
        max(score.revision) AS revision
    FROM answers AS a
    LEFT JOIN LATERAL (
        SELECT s.outcome, s.revision FROM scores AS s WHERE s.answer_id = a.id ORDER BY s.revision DESC LIMIT 1
    ) AS score ON true
    WHERE a.attempt_id = shown.id
    GROUP BY a.suite, a.suite_digest, a.concurrency, a.problem, a.simulated
) AS b ON true
GROUP BY
    j.id, s.id, c.sweep_id, c.hash, b.simulated, shown.number, shown.outcome, b.suite, b.suite_digest, b.concurrency;

COMMENT ON VIEW coding IS 'One row a job and concurrency: what became of its answers, by the newest score of each.';
COMMENT ON COLUMN coding.simulated IS 'ran on software GPUs: no model answered';
COMMENT ON COLUMN coding.accepted IS 'the attempt succeeded';
COMMENT ON COLUMN coding.suite_digest IS 'equal for equal problems: only then may two rows be compared';
COMMENT ON COLUMN coding.concurrency IS 'requests in flight';
COMMENT ON COLUMN coding.asked IS 'answers, whatever became of them';
COMMENT ON COLUMN coding.judged IS 'answers that say something about the model: passed, failed, no_code or no_answer';
COMMENT ON COLUMN coding.no_code IS 'answers in which no code defines the function asked for';
COMMENT ON COLUMN coding.no_answer IS 'nothing after the reasoning, or cut off before any';
COMMENT ON COLUMN coding.not_asked IS 'requests that failed; answers.error says why';
COMMENT ON COLUMN coding.not_graded IS 'answers that the grader could not judge, or has not yet';
COMMENT ON COLUMN coding.score_revision IS 'the newest revision of the scores counted here';
COMMENT ON COLUMN coding.outcomes IS 'object: problem -> outcomes of its samples, in order';
