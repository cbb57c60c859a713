-- One row a cell and point on a host with one parallelism, over all its visits: what is ranked and compared. Repeats of one
-- visit share a start of the server, so from three visits on means and intervals are over the visits' means; with fewer
-- they are over all repeats together, which leaves the noise between starts out (domain/pooling.py has the same rule).
CREATE VIEW cell_points AS
SELECT
    sweep_id,
    sweep,
    revision,
    host,
    parallel,
    cell_hash,
    label,
    baseline,
    out_of_distribution,
    simulated,
    imported,
    concurrency,
    context_tokens,
    output_tokens_asked,
    visits,
    n,
    n_invalid,
    ARRAY(SELECT DISTINCT mark FROM string_to_table(marks, ' ') AS mark ORDER BY mark) AS marks,
    interval_n,
    mean_tok_s,
    sd_tok_s,
    mean_tok_s - interval_factor * t_975(interval_n - 1) * sd_tok_s / sqrt(interval_n) AS low_tok_s,
    mean_tok_s + interval_factor * t_975(interval_n - 1) * sd_tok_s / sqrt(interval_n) AS high_tok_s,
    ttft_ms,
    itl_ms,
    tpot_ms,
    e2e_ms,
    acceptance_length,
    sd_acceptance_length,
    step_time_ms,
    sd_step_time_ms,
    energy_per_token_j,
    goodput_requests_s,
    goodput_output_tok_s
FROM (
    SELECT
        sweep_id,
        sweep,
        revision,
        host,
        parallel,
        cell_hash,
        label,
        baseline,
        out_of_distribution,
        simulated,
        imported,
        concurrency,
        context_tokens,
        output_tokens_asked,
        count(*) AS visits,
        sum(n)::bigint AS n,
        sum(n_invalid)::bigint AS n_invalid,
        string_agg(array_to_string(marks, ' '), ' ') FILTER (WHERE marks <> '{}') AS marks,
        CASE WHEN count(*) >= 3 THEN count(*) ELSE sum(n)::bigint END AS interval_n,
        -- How many visits there are hangs on nothing that they gave.
        CASE WHEN count(*) >= 3 THEN 1 ELSE max(interval_factor) END AS interval_factor,
        CASE WHEN count(*) >= 3 THEN avg(mean_tok_s) ELSE sum(n * mean_tok_s) / sum(n) END AS mean_tok_s,
        CASE
            WHEN count(*) >= 3 THEN stddev_samp(mean_tok_s)
            ELSE sd_of_sums(sum(n), sum(n * mean_tok_s), sum(n * mean_tok_s ^ 2 + (n - 1) * coalesce(sd_tok_s, 0) ^ 2))
        END AS sd_tok_s,
        avg(ttft_ms) AS ttft_ms,
        avg(itl_ms) AS itl_ms,
        avg(tpot_ms) AS tpot_ms,
        avg(e2e_ms) AS e2e_ms,
        1 + sum(correct_drafts) / nullif(sum(verifies), 0)::double precision AS acceptance_length,
        CASE
            WHEN count(*) >= 3 THEN stddev_samp(acceptance_length)
            ELSE sd_of_sums(
                sum(n),
                sum(n * acceptance_length),
                sum(n * acceptance_length ^ 2 + (n - 1) * coalesce(sd_acceptance_length, 0) ^ 2)
            )
        END AS sd_acceptance_length,
        CASE WHEN count(*) >= 3 THEN avg(step_time_ms) ELSE sum(n * step_time_ms) / sum(n) END AS step_time_ms,
        CASE
            WHEN count(*) >= 3 THEN stddev_samp(step_time_ms)
            ELSE sd_of_sums(
                sum(n), sum(n * step_time_ms), sum(n * step_time_ms ^ 2 + (n - 1) * coalesce(sd_step_time_ms, 0) ^ 2)
            )
        END AS sd_step_time_ms,
        avg(energy_per_token_j) AS energy_per_token_j,
        avg(goodput_requests_s) AS goodput_requests_s,
        avg(goodput_output_tok_s) AS goodput_output_tok_s
    FROM points
    WHERE accepted AND n > 0
    GROUP BY
        sweep_id, sweep, revision, host, parallel, cell_hash, label, baseline, out_of_distribution, simulated, imported,
        concurrency, context_tokens, output_tokens_asked
) AS pooled;

COMMENT ON VIEW cell_points IS 'One row a cell on a host with one parallelism, and point: over all its accepted visits and their valid repeats.';
COMMENT ON COLUMN cell_points.cell_hash IS 'names the configuration, on any host and in any sweep';
COMMENT ON COLUMN cell_points.simulated IS 'ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN cell_points.imported IS 'measured by hand and brought in from a file: sweeps.imported says whence';
COMMENT ON COLUMN cell_points.concurrency IS 'requests in flight';
COMMENT ON COLUMN cell_points.context_tokens IS 'prompt tokens per request';
COMMENT ON COLUMN cell_points.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN cell_points.visits IS 'starts of the server that gave valid repeats';
COMMENT ON COLUMN cell_points.n IS 'valid repeats, over all visits';
COMMENT ON COLUMN cell_points.n_invalid IS 'repeats of the same visits that are not valid';
COMMENT ON COLUMN cell_points.marks IS 'what to know of the valid ones, each mark once: THROTTLED, POWER_CAPPED, ...';
COMMENT ON COLUMN cell_points.interval_n IS 'values behind mean, sd and interval: visits from three on, else repeats';
COMMENT ON COLUMN cell_points.mean_tok_s IS 'output tokens per second of all users together, mean over visits (repeats below three visits)';
COMMENT ON COLUMN cell_points.sd_tok_s IS 'sample standard deviation of the same values, tokens per second';
COMMENT ON COLUMN cell_points.low_tok_s IS 'lower bound of the 95% t interval of the mean, tokens per second; null with one value';
COMMENT ON COLUMN cell_points.high_tok_s IS 'upper bound of the same, tokens per second';
COMMENT ON COLUMN cell_points.ttft_ms IS 'time to first token, milliseconds, mean over visits';
COMMENT ON COLUMN cell_points.itl_ms IS 'time per output token after the first chunk, milliseconds, mean over visits of the mean over tokens';
COMMENT ON COLUMN cell_points.tpot_ms IS 'the same with one value a request, milliseconds, mean over visits';
COMMENT ON COLUMN cell_points.e2e_ms IS 'whole request, milliseconds, mean over visits';
COMMENT ON COLUMN cell_points.acceptance_length IS '1 + sum(correct drafts) / sum(verifies), tokens per verify; null without speculation';
COMMENT ON COLUMN cell_points.sd_acceptance_length IS 'sample standard deviation over interval_n values, tokens per verify';
COMMENT ON COLUMN cell_points.step_time_ms IS 'acceptance length / per-request decode rate, milliseconds: what one draft-and-verify step takes';
COMMENT ON COLUMN cell_points.sd_step_time_ms IS 'sample standard deviation over interval_n values, milliseconds';
COMMENT ON COLUMN cell_points.energy_per_token_j IS 'energy of all GPUs / output tokens, joules, mean over visits';
COMMENT ON COLUMN cell_points.goodput_requests_s IS 'requests per second within every limit of sweeps.measure -> goodput, mean over visits; null without limits';
COMMENT ON COLUMN cell_points.goodput_output_tok_s IS 'output tokens per second of the same requests, mean over visits';
