-- The next judgement of one answer. A statement of its own, after the one that locks the answer: only then does it see the
-- revisions that another rescore has just committed.
INSERT INTO scores (answer_id, revision, scorer, outcome, rule, detail, code)
SELECT :answer_id, 1 + coalesce(max(s.revision), 0), :scorer, :outcome, :rule, :detail, :code
FROM scores AS s
WHERE s.answer_id = :answer_id
