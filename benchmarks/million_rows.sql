-- A year of sweeps for million_rows.py, as numbers that look like measurements: 102 sweeps x 2 hosts x 100 jobs x 50 repeats.
-- Each host runs a baseline as control (10 visits) and 45 trees (2 visits); one job in 50 has failed for good, one in 20 had
-- a failed attempt before the one that succeeded. Every number comes from an integer hash, so that two runs are equal.

-- Foreign keys are not checked row by row: that would take half the time.
SET session_replication_role = replica;

CREATE FUNCTION pg_temp.noise(key bigint) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (hashint8(key)::double precision + 2147483648) / 4294967296 - 0.5;

INSERT INTO hosts (name, gpus, gpu_kind, interconnect, simulated)
VALUES ('b300', 8, 'B300', 'nvlink', false), ('rtx6000', 8, 'RTX PRO 6000', 'pcie', false);

INSERT INTO sweeps (name, revision, submitted_at, model, engine, hypothesis, out_of_distribution, simulated, file_name, file_text, measure)
SELECT
    CASE n WHEN 50 THEN 'ddtree-block8' ELSE 'sweep-' || n END,
    1,
    timestamptz '2025-01-01' + n * interval '3 days',
    'kimi-k2.6',
    'sglang-ddtree',
    'small budgets win at C=32',
    'refuse',
    false,
    'sweep.yaml',
    repeat('# a sweep file' || chr(10), 40),
    '{"points": [[1, 60, 256], [1, 1024, 256], [1, 4096, 256], [1, 16384, 256], [8, 60, 256], [8, 4096, 256],
      [32, 60, 256], [32, 1024, 256], [32, 4096, 256], [32, 16384, 256]],
      "repeats": {"min": 3, "max": 10, "within": 0.03}, "prompts": null, "visits": 2, "control": null, "prune": false,
      "goodput": {"ttft_ms": 2000, "tpot_ms": 50, "e2e_ms": null},
      "coding": {"suite": "core5", "concurrency": [1, 8]}}'
FROM generate_series(1, 102) AS n;

INSERT INTO cells (sweep_id, hash, position, label, canonical, baseline, out_of_distribution, block_size, budget, topk, draft_window)
SELECT
    s.id,
    substr(md5(c.label), 1, 12),
    c.position,
    c.label,
    jsonb_build_object('model', 'kimi-k2.6', 'engine', 'sglang-ddtree', 'args', '{}'::jsonb, 'env', '{}'::jsonb),
    c.position = 0,
    coalesce(c.block_size > 8, false),
    c.block_size,
    c.budget,
    c.topk,
    CASE WHEN c.position > 0 THEN 2048 END
FROM sweeps AS s
CROSS JOIN (
    SELECT 0 AS position, 'baseline' AS label, NULL::integer AS block_size, NULL::integer AS budget, NULL::integer AS topk
    UNION ALL
    SELECT n, format('b%s t4 w2048', 3 + n), 8, 3 + n, 4 FROM generate_series(1, 40) AS n
    UNION ALL
    SELECT n, format('bs16 b%s t4 w2048', 4 * (n - 39)), 16, 4 * (n - 39), 4 FROM generate_series(41, 45) AS n
) AS c;

-- In the order of running: baseline first and after every nine trees.
INSERT INTO jobs (sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, visit, control, position, state, finished_at, failure, evidence)
SELECT
    s.id, c.hash, h.name, CASE h.name WHEN 'b300' THEN 'TP8' ELSE 'EP8' END, 8, CASE h.name WHEN 'b300' THEN 1 ELSE 8 END, 1, 1,
    v.visit, c.baseline,
    row_number() OVER (PARTITION BY s.id ORDER BY h.name, turn.turn) - 1,
    CASE WHEN bad.job THEN 'failed' ELSE 'succeeded' END,
    s.submitted_at + make_interval(mins => 20 * turn.turn::integer + 20),
    CASE WHEN bad.job THEN 'OOM_CAPTURE' END,
    CASE WHEN bad.job THEN 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB' END
FROM sweeps AS s
JOIN cells AS c ON c.sweep_id = s.id
CROSS JOIN hosts AS h
CROSS JOIN LATERAL generate_series(1, CASE WHEN c.baseline THEN 10 ELSE 2 END) AS v (visit)
CROSS JOIN LATERAL (
    SELECT CASE WHEN c.baseline THEN 10 * (v.visit - 1) ELSE (45 * (v.visit - 1) + c.position - 1) / 9 * 10 + (45 * (v.visit - 1) + c.position - 1) % 9 + 1 END AS turn
) AS turn
CROSS JOIN LATERAL (SELECT NOT c.baseline AND (c.position * 7 + s.id * 3 + v.visit) % 50 = 0 AS job) AS bad
ORDER BY s.id, h.name, turn.turn;

-- Attempts in the order of time, the failed one first where there are two.
INSERT INTO attempts (
    job_id, number, fence, host, started_at, ended_at, outcome, failure, evidence, runner_pid, runner_start_ticks, worker,
    simulated, provenance, requested, effective, difference, effective_hash
)
SELECT
    j.id,
    a.number,
    nextval('fence'),
    j.host,
    j.finished_at - make_interval(mins => 18 * a.left + 1),
    j.finished_at - make_interval(mins => 18 * a.left - CASE WHEN a.left = 1 THEN 17 ELSE 3 END),
    CASE WHEN a.fails THEN 'failed' ELSE 'succeeded' END,
    CASE WHEN a.fails THEN coalesce(j.failure, CASE WHEN j.id % 3 = 0 THEN 'NCCL_HANG' ELSE 'SERVER_CRASHED' END) END,
    CASE WHEN a.fails THEN 'exit code -9 in capture graphs; the log ends: Capturing batches (bs=24)' END,
    1000 + j.id % 1000,
    j.id * 100,
    'gpu@' || j.host,
    false,
    padding.value || jsonb_build_object('driver', '580.95.05', 'job', j.id),
    padding.value,
    padding.value || jsonb_build_object('job', j.id),
    '{}',
    j.cell_hash
FROM jobs AS j
CROSS JOIN LATERAL (
    SELECT 1 AS number, j.state = 'failed' AS fails, 1 AS left
    WHERE j.id % 20 <> 0
    UNION ALL
    SELECT n, n = 1 OR j.state = 'failed', 3 - n FROM generate_series(1, 2) AS n WHERE j.id % 20 = 0
) AS a
CROSS JOIN (
    SELECT jsonb_object_agg('server_argument_' || n, md5(n::text)) AS value FROM generate_series(1, 60) AS n
) AS padding
ORDER BY j.id, a.number;

INSERT INTO phases (attempt_id, seq, name, started_at, duration_s, detail)
SELECT
    a.id,
    row_number() OVER (PARTITION BY a.id ORDER BY p.at, p.name),
    p.name,
    a.started_at + make_interval(secs => p.at),
    p.lasts * (1 + 0.1 * pg_temp.noise(a.id * 100 + p.at::integer)),
    p.detail
FROM attempts AS a
CROSS JOIN LATERAL (
    VALUES ('provenance', 1, 0.3, ''), ('preflight', 2, 0.2, ''), ('launch', 3, 0.5, ''), ('ready', 4, 180, ''),
        ('init distributed', 5, 20, ''), ('load weights', 25, 90, ''), ('allocate KV cache', 115, 5, ''),
        ('capture graphs', 120, 40, ''), ('start HTTP', 160, 5, ''), ('confirm', 185, 0.1, ''),
        ('stop', 1010, 10, 'SIGTERM'), ('release', 1020, 2, '')
    UNION ALL
    SELECT 'warm up', 190 + 5 * n, 4, 'C=1 60' FROM generate_series(1, 10) AS n
    WHERE a.outcome = 'succeeded'
    UNION ALL
    SELECT 'measure', 250 + 15 * n, 14, 'C=1 60 repeat 1' FROM generate_series(1, 50) AS n
    WHERE a.outcome = 'succeeded'
) AS p (name, at, lasts, detail)
ORDER BY a.id, p.at;

INSERT INTO events (at, sweep_id, job_id, attempt_id, host, kind, detail)
SELECT e.at, j.sweep_id, j.id, a.id, a.host, e.kind, '{"number": 1}'
FROM attempts AS a
JOIN jobs AS j ON j.id = a.job_id
CROSS JOIN LATERAL (VALUES (a.started_at, 'claimed'), (a.ended_at, 'finished')) AS e (at, kind)
ORDER BY a.id, e.at;

INSERT INTO measurements (
    attempt_id, concurrency, context_tokens, output_tokens_asked, repeat, started_at, wall_s, requests_completed, requests_failed,
    prompt_tokens, output_tokens, output_throughput_tok_s, total_throughput_tok_s,
    ttft_mean_ms, ttft_p50_ms, ttft_p90_ms, ttft_p99_ms, itl_mean_ms, itl_p50_ms, itl_p90_ms, itl_p99_ms,
    tpot_mean_ms, tpot_p50_ms, tpot_p90_ms, tpot_p99_ms, e2e_mean_ms, e2e_p50_ms, e2e_p90_ms, e2e_p99_ms,
    acceptance_length, step_time_ms, cached_share, energy_per_token_j, verifies, correct_drafts, draft_histogram,
    valid, reasons, marks, client, simulated
)
SELECT
    a.id, p.concurrency, p.context_tokens, 256, p.repeat,
    a.started_at + make_interval(secs => 250 + 15 * p.n),
    14, 4 * p.concurrency, 0, 4 * p.concurrency * p.context_tokens, 4 * p.concurrency * 256,
    v.tok_s, v.tok_s * (1 + p.context_tokens / 256.0),
    v.ttft_ms, v.ttft_ms, v.ttft_ms * 1.3, v.ttft_ms * 1.5, v.itl_ms, v.itl_ms, v.itl_ms * 1.3, v.itl_ms * 1.5,
    v.itl_ms, v.itl_ms, v.itl_ms * 1.3, v.itl_ms * 1.5, v.itl_ms * 256, v.itl_ms * 256, v.itl_ms * 260, v.itl_ms * 280,
    CASE WHEN NOT c.baseline THEN v.acceptance END, v.acceptance * v.itl_ms, 0, 2000 / v.tok_s,
    CASE WHEN NOT c.baseline THEN h.verifies END,
    CASE WHEN NOT c.baseline THEN h.drafts END,
    CASE WHEN NOT c.baseline THEN h.histogram END,
    v.valid,
    CASE WHEN v.valid THEN '{}'::text[] ELSE '{SHORT_OUTPUT}' END,
    CASE WHEN p.key % 17 = 0 THEN '{POWER_CAPPED}'::text[] ELSE '{}' END,
    '{"cpu_s": 1.25, "chunks": 812, "prompts": "phrases", "run_queue_s": 0.01, "in_flight_mean": 31.2, "peak_rss_mib": 88.5,
      "loop_lag_max_ms": 3.1, "run_queue_mean_ms": 0.02}',
    false
FROM attempts AS a
JOIN jobs AS j ON j.id = a.job_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
CROSS JOIN LATERAL (
    SELECT
        w.concurrency, w.context_tokens, r.repeat, w.n * 5 + r.repeat AS n, (a.id * 64 + w.n * 5 + r.repeat) AS key
    FROM (
        VALUES (0, 1, 60), (1, 1, 1024), (2, 1, 4096), (3, 1, 16384), (4, 8, 60), (5, 8, 4096), (6, 32, 60), (7, 32, 1024),
            (8, 32, 4096), (9, 32, 16384)
    ) AS w (n, concurrency, context_tokens)
    CROSS JOIN generate_series(1, 5) AS r (repeat)
) AS p
CROSS JOIN LATERAL (
    SELECT
        1 + ln(1 + c.budget) * CASE WHEN c.block_size > 8 THEN 1.1 ELSE 1.3 END AS speculated,
        (1 + 0.02 * pg_temp.noise(p.key) + 0.01 * pg_temp.noise(a.id)) AS steadiness
) AS u
CROSS JOIN LATERAL (
    SELECT coalesce(u.speculated, 1.0) AS acceptance,
        (12 + coalesce(c.budget, 0) * 0.02 * p.concurrency + p.context_tokens / 1024.0)
            * CASE j.host WHEN 'b300' THEN 0.7 ELSE 1 END / u.steadiness AS step_ms
) AS s
CROSS JOIN LATERAL (
    SELECT
        s.acceptance,
        s.step_ms / s.acceptance AS itl_ms,
        1000 * p.concurrency / (s.step_ms / s.acceptance) AS tok_s,
        20 + p.context_tokens * 0.1 AS ttft_ms,
        p.key % 101 <> 0 AS valid
    OFFSET 0 -- worked out once a row, not once a column
) AS v
CROSS JOIN LATERAL (
    SELECT
        array_agg(b.count ORDER BY b.k) AS histogram,
        sum(b.count)::bigint AS verifies,
        sum(b.count * b.k)::bigint AS drafts
    FROM (SELECT k, (1000 * 0.7 ^ k)::bigint + p.repeat AS count FROM generate_series(0, coalesce(c.block_size, 8) - 1) AS k) AS b
) AS h
WHERE a.outcome = 'succeeded'
ORDER BY a.id, p.n;

-- Requests and GPUs of one sweep: nothing that is timed here reads those of another.
INSERT INTO samples (measurement_id, request_index, started_s, finished_s, ttft_ms, tpot_ms, prompt_tokens, output_tokens, not_finite)
SELECT m.id, r - 1, 0, 1.7, 200, 6, m.context_tokens, 256, '{}'
FROM measurements AS m
JOIN attempts AS a ON a.id = m.attempt_id
JOIN jobs AS j ON j.id = a.job_id
CROSS JOIN generate_series(1, 16) AS r
WHERE j.sweep_id = (SELECT id FROM sweeps WHERE name = 'ddtree-block8');

INSERT INTO telemetry (measurement_id, gpu_index, gpu_uuid, readings, power_mean_w, energy_j, throttle_reasons)
SELECT m.id, g, 'GPU-' || g, 140, 410, 410 * m.wall_s, '{}'
FROM measurements AS m
JOIN attempts AS a ON a.id = m.attempt_id
JOIN jobs AS j ON j.id = a.job_id
CROSS JOIN generate_series(0, 7) AS g
WHERE j.sweep_id = (SELECT id FROM sweeps WHERE name = 'ddtree-block8');

INSERT INTO answers (
    attempt_id, suite, suite_digest, problem, concurrency, sample, asked_at, duration_s, content, finish_reason, prompt_tokens,
    output_tokens, simulated
)
SELECT
    a.id, 'core5', md5('core5'), 'problem-' || p, q.concurrency, q.sample, a.ended_at, 4.5,
    repeat('def solve(values): ', 30), 'stop', 120, 300, false
FROM attempts AS a
CROSS JOIN generate_series(1, 5) AS p
CROSS JOIN (VALUES (1, 0), (8, 0)) AS q (concurrency, sample)
WHERE a.outcome = 'succeeded'
ORDER BY a.id, q.concurrency, p;

INSERT INTO scores (answer_id, revision, scored_at, scorer, outcome, rule, detail, code)
SELECT id, 1, asked_at, 'ddqueue 0.1.0', CASE WHEN id % 23 = 0 THEN 'failed' ELSE 'passed' END, 'the only block', 'ran', 'def solve(): ...'
FROM answers;
