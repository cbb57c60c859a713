-- Acceptance by depth, from the histograms of accepted drafts: where a drafter stops being any good. Counts, so that points can
-- be added up: sum(accepted) / sum(reached). A tree with a small budget may have no node at a depth; that looks the same.
CREATE VIEW depths AS
SELECT
    sweep_id,
    sweep,
    revision,
    host,
    parallel,
    cell_hash,
    label,
    out_of_distribution,
    simulated,
    concurrency,
    context_tokens,
    output_tokens_asked,
    depth,
    reached,
    accepted,
    accepted / nullif(reached, 0)::double precision AS accepted_share
FROM (
    SELECT
        *,
        sum(verifies) OVER (deeper ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)::bigint AS reached,
        sum(verifies) OVER (deeper ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)::bigint AS accepted
    FROM (
        SELECT
            s.id AS sweep_id,
            s.name AS sweep,
            s.revision,
            j.host,
            j.parallel,
            j.cell_hash,
            c.label,
            c.out_of_distribution,
            m.simulated,
            m.concurrency,
            m.context_tokens,
            m.output_tokens_asked,
            bin.element - 1 AS depth,
            sum(bin.verifies) AS verifies
        FROM jobs AS j
        JOIN sweeps AS s ON s.id = j.sweep_id
        JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
        JOIN attempts AS a ON a.job_id = j.id AND a.outcome = 'succeeded'
        JOIN measurements AS m ON m.attempt_id = a.id AND m.valid
        CROSS JOIN LATERAL unnest(m.draft_histogram) WITH ORDINALITY AS bin (verifies, element)
        GROUP BY
            s.id, j.host, j.parallel, j.cell_hash, c.sweep_id, c.hash, m.simulated,
            m.concurrency, m.context_tokens, m.output_tokens_asked, bin.element
    ) AS bins
    WINDOW deeper AS (
        PARTITION BY
            sweep_id, sweep, revision, host, parallel, cell_hash, label, out_of_distribution, simulated,
            concurrency, context_tokens, output_tokens_asked
        ORDER BY depth DESC
    )
) AS counted
WHERE depth > 0;

COMMENT ON VIEW depths IS 'One row a cell on a host, point and depth: how many drafts were tried there, and how many accepted.';
COMMENT ON COLUMN depths.simulated IS 'ran on software GPUs: no model drafted';
COMMENT ON COLUMN depths.out_of_distribution IS 'block_size differs from the one the drafter was trained for';
COMMENT ON COLUMN depths.concurrency IS 'requests in flight';
COMMENT ON COLUMN depths.context_tokens IS 'prompt tokens per request';
COMMENT ON COLUMN depths.output_tokens_asked IS 'output tokens forced per request';
COMMENT ON COLUMN depths.depth IS 'position of the draft in its branch, from 1';
COMMENT ON COLUMN depths.reached IS 'verifies that accepted every draft above it';
COMMENT ON COLUMN depths.accepted IS 'verifies that accepted the draft there too';
COMMENT ON COLUMN depths.accepted_share IS 'accepted / reached: given that the one above was accepted, 0 to 1';
