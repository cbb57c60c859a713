-- One row a job (a visit of a cell on a host), whatever became of it. Numbers only from an accepted attempt: what failed has
-- a class instead of numbers. Only a job that succeeded has an accepted attempt: for the others nothing is looked up.
CREATE VIEW results AS
SELECT
    j.id AS job_id,
    s.id AS sweep_id,
    s.name AS sweep,
    s.revision,
    s.model,
    s.engine,
    s.hypothesis,
    j.host,
    h.gpu_kind,
    j.parallel,
    j.position,
    j.visit,
    j.control,
    c.position AS cell_position,
    j.cell_hash,
    c.label,
    c.block_size,
    c.budget,
    c.topk,
    c.draft_window,
    c.baseline,
    c.out_of_distribution,
    coalesce(latest.simulated, s.simulated OR h.simulated) AS simulated,
    j.state,
    j.failure,
    j.evidence,
    j.tries,
    coalesce(latest.number, 0) AS attempts,
    accepted.points,
    coalesce(accepted.acceptance_length, (latest.imported ->> 'acceptance_length')::double precision)
        AS acceptance_length,
    coalesce(accepted.n_valid, 0) AS n_valid,
    coalesce(accepted.n_invalid, 0) AS n_invalid,
    jsonb_typeof(s.measure -> 'coding') = 'object' OR latest.imported ->> 'coding' IS NOT NULL AS coding_asked,
    checked.coding,
    s.imported IS NOT NULL AS imported,
    latest.imported ->> 'coding' AS imported_coding,
    j.created_at,
    j.started_at,
    j.finished_at
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
JOIN hosts AS h ON h.name = j.host
LEFT JOIN LATERAL (
    SELECT a.number, a.simulated, a.imported FROM attempts AS a WHERE a.job_id = j.id ORDER BY a.number DESC LIMIT 1
) AS latest ON true
LEFT JOIN LATERAL (
    SELECT
        jsonb_agg(
            jsonb_build_object(
                'concurrency', p.concurrency,
                'context_tokens', p.context_tokens,
                'output_tokens_asked', p.output_tokens_asked,
                'n', p.n,
                'n_invalid', p.n_invalid,
                'mean_tok_s', p.mean_tok_s,
                'sd_tok_s', p.sd_tok_s,
                'values_tok_s', p.values_tok_s,
                'ttft_ms', p.ttft_ms,
                'acceptance_length', p.acceptance_length,
                'verifies', p.verifies,
                'correct_drafts', p.correct_drafts,
                'step_time_ms', p.step_time_ms,
                'goodput_requests_s', p.goodput_requests_s,
                'goodput_output_tok_s', p.goodput_output_tok_s
            )
            ORDER BY p.concurrency, p.context_tokens, p.output_tokens_asked
        ) AS points,
        1 + sum(p.correct_drafts) / nullif(sum(p.verifies), 0)::double precision AS acceptance_length,
        sum(p.n)::bigint AS n_valid,
        sum(p.n_invalid)::bigint AS n_invalid
    FROM points AS p
    WHERE j.state = 'succeeded' AND p.job_id = j.id AND p.accepted
) AS accepted ON true
LEFT JOIN LATERAL (
    SELECT
        json_agg(
            json_build_object(
                'suite', k.suite,
                'suite_digest', k.suite_digest,
                'concurrency', k.concurrency,
                'asked', k.asked,
                'judged', k.judged,
                'passed', k.passed,
                'no_answer', k.no_answer,
                'no_code', k.no_code,
                'not_asked', k.not_asked,
                'not_graded', k.not_graded,
                'outcomes', k.outcomes
            )
            ORDER BY k.concurrency
        ) AS coding
    FROM coding AS k
    WHERE j.state = 'succeeded' AND k.job_id = j.id AND k.accepted
) AS checked ON true;

COMMENT ON VIEW results IS 'One row a job: a visit of a cell on a host. Numbers only of accepted attempts; filter simulated yourself.';
COMMENT ON COLUMN results.position IS 'order in which the host was to run it';
COMMENT ON COLUMN results.visit IS 'counts the starts of the cell''s server on that host and parallelism, from 1';
COMMENT ON COLUMN results.control IS 'a visit of the control cell, whose spread over the sweep is the noise floor';
COMMENT ON COLUMN results.cell_position IS 'order of the configuration in the sweep file';
COMMENT ON COLUMN results.cell_hash IS 'names the configuration: equal on both hosts, so that cells can be paired';
COMMENT ON COLUMN results.block_size IS 'tokens; the depth limit is block_size - 1';
COMMENT ON COLUMN results.budget IS 'tree nodes below the root; the target verifies budget + 1 tokens';
COMMENT ON COLUMN results.topk IS 'ranks tried per position';
COMMENT ON COLUMN results.draft_window IS 'the drafter''s attention window in tokens; null = all';
COMMENT ON COLUMN results.out_of_distribution IS 'block_size differs from the one the drafter was trained for';
COMMENT ON COLUMN results.simulated IS 'ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN results.failure IS 'class of the failure that ended the job';
COMMENT ON COLUMN results.points IS 'array, one element a point: tok/s mean, sd and values over n valid repeats, ttft_ms, ...';
COMMENT ON COLUMN results.acceptance_length IS '1 + sum(correct drafts) / sum(verifies) over all valid measurements; as written where imported';
COMMENT ON COLUMN results.imported IS 'measured by hand and brought in from a file: sweeps.imported says whence';
COMMENT ON COLUMN results.imported_coding IS 'what the file says of coding, in its words';
COMMENT ON COLUMN results.n_valid IS 'valid measurements of the accepted attempt';
COMMENT ON COLUMN results.n_invalid IS 'measurements of the accepted attempt that are not valid, and not counted in points';
COMMENT ON COLUMN results.coding_asked IS 'the sweep asks for coding checks, or its file tells of some';
COMMENT ON COLUMN results.coding IS 'array, one element a concurrency: passed of judged, and the outcomes of each problem';
