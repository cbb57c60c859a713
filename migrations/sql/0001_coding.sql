-- Coding checks: every answer as it came, and each judgement of it.

CREATE TABLE answers (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    attempt_id BIGINT NOT NULL,
    suite TEXT NOT NULL,
    suite_digest TEXT NOT NULL,
    problem TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    sample INTEGER NOT NULL,
    asked_at TIMESTAMP WITH TIME ZONE NOT NULL,
    duration_s DOUBLE PRECISION NOT NULL,
    content TEXT,
    reasoning TEXT,
    finish_reason TEXT,
    prompt_tokens INTEGER,
    output_tokens INTEGER,
    tag TEXT,
    error TEXT,
    simulated BOOLEAN NOT NULL,
    CONSTRAINT answers_pkey PRIMARY KEY (id),
    CONSTRAINT answers_once UNIQUE (attempt_id, problem, concurrency, sample),
    CONSTRAINT answers_counts_positive CHECK (concurrency > 0 AND sample >= 0),
    CONSTRAINT answers_duration_finite CHECK (duration_s >= 0 AND duration_s < 'Infinity'),
    CONSTRAINT answers_tokens_positive CHECK (least(prompt_tokens, output_tokens) >= 0),
    CONSTRAINT answers_attempt_id_fkey FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE
);

COMMENT ON TABLE answers IS 'One answer to one coding problem, raw, so that it can be scored again without a server.';
COMMENT ON COLUMN answers.suite_digest IS 'equal for equal problems: only then may two scores be compared';
COMMENT ON COLUMN answers.concurrency IS 'requests in flight';
COMMENT ON COLUMN answers.sample IS 'counts how often the problem was asked at it, from 0';
COMMENT ON COLUMN answers.duration_s IS 'seconds from the request to its end';
COMMENT ON COLUMN answers.content IS 'the answer as it came; null when the server sent none';
COMMENT ON COLUMN answers.reasoning IS 'what it thought, where the server tells it apart; null when it sent none';
COMMENT ON COLUMN answers.prompt_tokens IS 'as the server counted them';
COMMENT ON COLUMN answers.output_tokens IS 'as the server counted them, reasoning and answer together';
COMMENT ON COLUMN answers.tag IS 'the weight version in the answer itself; null where a build gives none';
COMMENT ON COLUMN answers.error IS 'exception type and text, or the server''s own error';
COMMENT ON COLUMN answers.simulated IS 'ran on software GPUs: no model answered';

CREATE TABLE scores (
    answer_id BIGINT NOT NULL,
    revision INTEGER NOT NULL,
    scored_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    scorer TEXT NOT NULL,
    outcome TEXT NOT NULL,
    rule TEXT NOT NULL,
    detail TEXT NOT NULL,
    code TEXT,
    CONSTRAINT scores_pkey PRIMARY KEY (answer_id, revision),
    CONSTRAINT scores_revision_positive CHECK (revision > 0),
    CONSTRAINT scores_outcome_known CHECK (outcome IN ('passed', 'failed', 'no_code', 'no_answer', 'not_asked',
        'not_graded')),
    CONSTRAINT scores_judged_by_running CHECK (outcome NOT IN ('passed', 'failed') OR code IS NOT NULL),
    CONSTRAINT scores_answer_id_fkey FOREIGN KEY(answer_id) REFERENCES answers (id) ON DELETE CASCADE
);

COMMENT ON TABLE scores IS 'One judgement of one answer. A rescore adds a revision and changes none; the newest one counts.';
COMMENT ON COLUMN scores.revision IS 'counts the judgements of it from 1';
COMMENT ON COLUMN scores.scorer IS 'the versions of ddqueue and of its extractor';
COMMENT ON COLUMN scores.outcome IS 'passed, failed, no_code, no_answer, not_asked or not_graded';
COMMENT ON COLUMN scores.rule IS 'how the code was found in the answer';
COMMENT ON COLUMN scores.detail IS 'what decided';
COMMENT ON COLUMN scores.code IS 'what was run; null when there was nothing to run';
