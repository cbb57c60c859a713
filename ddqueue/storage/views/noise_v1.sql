-- The noise floor, as domain/noise.py makes it: from the means over each start of the server of every cell that was started
-- more than once, on logarithms, each about its own cell's mean. One row a host, parallelism and point; not pooled over these
-- (docs/decisions/0011). Repeats that were carried over count to the start that measured them.
CREATE VIEW noise AS
SELECT
    sweep_id,
    sweep,
    revision,
    host,
    parallel,
    simulated,
    concurrency,
    context_tokens,
    output_tokens_asked,
    control_visits_tok_s,
    visits,
    cells,
    degrees_of_freedom,
    sqrt(visit_squares / nullif(degrees_of_freedom, 0)) AS visit_sd_fraction,
    sqrt(repeat_squares / nullif(repeats - visits, 0)) AS repeat_sd_fraction,
    exp(t_975(degrees_of_freedom) * sqrt(2 * visit_squares / nullif(degrees_of_freedom, 0))) - 1 AS floor_fraction
FROM (
    SELECT
        sweep_id,
        sweep,
        revision,
        host,
        parallel,
        simulated,
        concurrency,
        context_tokens,
        output_tokens_asked,
        array_agg(mean_tok_s ORDER BY started_at) FILTER (WHERE control) AS control_visits_tok_s,
        count(*) FILTER (WHERE starts > 1) AS visits,
        count(DISTINCT cell_hash) FILTER (WHERE starts > 1) AS cells,
        count(*) FILTER (WHERE starts > 1) - count(DISTINCT cell_hash) FILTER (WHERE starts > 1) AS degrees_of_freedom,
        sum((level - cell_level) ^ 2) FILTER (WHERE starts > 1) AS visit_squares,
        sum(n) FILTER (WHERE starts > 1) AS repeats,
        sum((n - 1) * variance) FILTER (WHERE starts > 1) AS repeat_squares
    FROM (
        SELECT *, avg(level) OVER cell AS cell_level, count(*) OVER cell AS starts
        FROM (
            SELECT
                s.id AS sweep_id,
                s.name AS sweep,
                s.revision,
                j.host,
                j.parallel,
                j.cell_hash,
                bool_or(j.control) AS control,
                m.simulated,
                m.concurrency,
                m.context_tokens,
                m.output_tokens_asked,
                min(m.started_at) AS started_at,
                count(*) AS n,
                avg(m.output_throughput_tok_s) AS mean_tok_s,
                avg(ln(m.output_throughput_tok_s)) AS level,
                coalesce(var_samp(ln(m.output_throughput_tok_s)), 0) AS variance
            FROM jobs AS j
            JOIN sweeps AS s ON s.id = j.sweep_id
            JOIN attempts AS a ON a.job_id = j.id AND a.outcome = 'succeeded'
            JOIN measurements AS m ON m.attempt_id = a.id AND m.valid
            GROUP BY
                s.id, j.host, j.parallel, j.cell_hash, coalesce(m.carried_from, m.attempt_id), m.simulated,
                m.concurrency, m.context_tokens, m.output_tokens_asked
        ) AS starts_of_cells
        WINDOW cell AS (
            PARTITION BY
                sweep_id, sweep, revision, host, parallel, simulated, concurrency, context_tokens, output_tokens_asked, cell_hash
        )
    ) AS deviations
    GROUP BY
        sweep_id, sweep, revision, host, parallel, simulated, concurrency, context_tokens, output_tokens_asked
) AS squares;

COMMENT ON VIEW noise IS 'One row a host, parallelism and point of a sweep: how far the starts of an unchanged cell lie apart.';
COMMENT ON COLUMN noise.simulated IS 'ran on software GPUs: not a measurement of hardware';
COMMENT ON COLUMN noise.concurrency IS 'requests in flight';
COMMENT ON COLUMN noise.context_tokens IS 'prompt tokens per request';
COMMENT ON COLUMN noise.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN noise.control_visits_tok_s IS 'output tokens per second of each visit of the control cell, mean over its repeats, in order of time';
COMMENT ON COLUMN noise.visits IS 'starts that the floor is made from: those of cells started more than once';
COMMENT ON COLUMN noise.cells IS 'the cells that these belong to';
COMMENT ON COLUMN noise.degrees_of_freedom IS 'visits - cells; below 3 most of the floor is doubt about itself';
COMMENT ON COLUMN noise.visit_sd_fraction IS 'standard deviation of visit means about their cell''s mean, as a fraction of it';
COMMENT ON COLUMN noise.repeat_sd_fraction IS 'standard deviation of repeats within one visit, as a fraction of the mean';
COMMENT ON COLUMN noise.floor_fraction IS 'the relative difference that two visits of an unchanged cell exceed only 5% of the time; null = not known';
