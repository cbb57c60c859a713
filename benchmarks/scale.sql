-- Every second job of every sweep has ended and was measured: 2 points, 10 repeats each. So a database of 100,000 jobs holds
-- a million measurements and a queue of 50,000. Numbers come from an integer hash, so that two runs are equal.

-- Foreign keys are not checked row by row: that would take half the time.
SET session_replication_role = replica;

UPDATE jobs SET state = 'succeeded', started_at = now() - interval '20 minutes', finished_at = now() WHERE position % 2 = 0;

INSERT INTO attempts (
    job_id, number, fence, host, started_at, ended_at, outcome, runner_pid, runner_start_ticks, worker, simulated, effective_hash
)
SELECT id, 1, nextval('fence'), host, started_at, finished_at, 'succeeded', 1, id, 'gpu@' || host, true, cell_hash
FROM jobs
WHERE state = 'succeeded';

INSERT INTO phases (attempt_id, seq, name, started_at, duration_s, detail)
SELECT a.id, p.seq, p.name, a.started_at + make_interval(secs => p.at), p.lasts, ''
FROM attempts AS a
CROSS JOIN (
    VALUES (1, 'launch', 0, 1), (2, 'ready', 1, 180), (3, 'measure', 190, 900), (4, 'stop', 1100, 10), (5, 'release', 1110, 2)
) AS p (seq, name, at, lasts);

INSERT INTO measurements (
    attempt_id, concurrency, context_tokens, output_tokens_asked, repeat, started_at, wall_s, requests_completed, requests_failed,
    prompt_tokens, output_tokens, output_throughput_tok_s, total_throughput_tok_s, ttft_mean_ms, itl_mean_ms, tpot_mean_ms,
    acceptance_length, step_time_ms, verifies, correct_drafts, draft_histogram, valid, reasons, marks, client, simulated
)
SELECT
    a.id, p.concurrency, p.context_tokens, 32, r.repeat, a.started_at + make_interval(mins => 3, secs => r.repeat), 14,
    4 * p.concurrency, 0, 4 * p.concurrency * p.context_tokens, 4 * p.concurrency * 32, v.tok_s, 2 * v.tok_s, 200,
    1000 * p.concurrency / v.tok_s, 1000 * p.concurrency / v.tok_s,
    CASE WHEN NOT c.baseline THEN 3 END, 3000 * p.concurrency / v.tok_s,
    CASE WHEN NOT c.baseline THEN 100 END, CASE WHEN NOT c.baseline THEN 200 END,
    CASE WHEN NOT c.baseline THEN '{10, 20, 40, 20, 10, 0, 0, 0}'::bigint[] END, true, '{}', '{}', '{}', true
FROM attempts AS a
JOIN jobs AS j ON j.id = a.job_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
CROSS JOIN (VALUES (1, 60), (32, 4096)) AS p (concurrency, context_tokens)
CROSS JOIN generate_series(1, 10) AS r (repeat)
CROSS JOIN LATERAL (
    SELECT p.concurrency * (100 + c.position % 37 + (hashint8(a.id * 64 + r.repeat)::double precision / 2147483648)) AS tok_s
) AS v;
