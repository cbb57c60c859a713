-- What the GPUs did, for each configuration and point: each measured window over its GPUs first, then the windows of
-- accepted attempts and valid repeats together.
WITH windows AS (
    SELECT
        m.id,
        j.host,
        j.parallel,
        j.cell_hash,
        m.concurrency,
        m.context_tokens,
        m.output_tokens_asked,
        m.energy_per_token_j,
        count(*) AS gpus,
        -- A sum over some of the GPUs would pass for the whole box.
        CASE WHEN count(*) = count(t.power_mean_w) THEN sum(t.power_mean_w) END AS power_w,
        avg(t.sm_clock_mean_mhz) AS sm_clock_mhz,
        min(t.sm_clock_min_mhz) AS sm_clock_min_mhz,
        max(t.sm_clock_max_mhz) AS sm_clock_max_mhz,
        max(t.temperature_max_c) AS temperature_max_c,
        max(t.memory_used_max_mib) AS memory_used_max_mib
    FROM measurements AS m
    JOIN attempts AS a ON a.id = m.attempt_id AND a.outcome = 'succeeded'
    JOIN jobs AS j ON j.id = a.job_id
    JOIN telemetry AS t ON t.measurement_id = m.id
    WHERE j.sweep_id = :sweep_id AND m.valid
    GROUP BY m.id, j.id
)
SELECT
    host,
    parallel,
    cell_hash,
    concurrency,
    context_tokens,
    output_tokens_asked,
    max(gpus) AS gpus,
    avg(power_w) AS power_w,
    avg(sm_clock_mhz) AS sm_clock_mhz,
    min(sm_clock_min_mhz) AS sm_clock_min_mhz,
    max(sm_clock_max_mhz) AS sm_clock_max_mhz,
    max(temperature_max_c) AS temperature_max_c,
    max(memory_used_max_mib) AS memory_used_max_mib,
    avg(energy_per_token_j) AS energy_per_token_j
FROM windows
GROUP BY host, parallel, cell_hash, concurrency, context_tokens, output_tokens_asked
ORDER BY host, parallel, cell_hash, concurrency, context_tokens, output_tokens_asked
