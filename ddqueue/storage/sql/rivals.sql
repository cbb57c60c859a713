-- The cells for which a job may be given up, with their valid repeats by point: of the same sweep, host and parallelism, and
-- such as could win. So not one with too few repeats, nor one beyond its drafter's training, nor one that has passed fewer
-- coding problems than the baseline there.
-- Nothing where the job is to be measured whole: others are compared with the baseline and the control cell, and what a person
-- has queued again is wanted.
-- Each job's coding is looked up by itself, which OFFSET 0 keeps so: joined, the view would be worked out for every job there
-- is, each time.
SELECT
    min(other.id) AS job_id,
    c.label,
    m.concurrency,
    m.context_tokens,
    m.output_tokens_asked,
    array_agg(m.output_throughput_tok_s ORDER BY other.visit, m.repeat) AS values_tok_s
FROM jobs AS mine
JOIN sweeps AS s ON s.id = mine.sweep_id
JOIN cells AS own ON own.sweep_id = mine.sweep_id AND own.hash = mine.cell_hash
JOIN jobs AS other
    ON other.sweep_id = mine.sweep_id
    AND other.host = mine.host
    AND other.parallel = mine.parallel
    AND other.cell_hash <> mine.cell_hash
    AND other.state = 'succeeded'
JOIN cells AS c ON c.sweep_id = other.sweep_id AND c.hash = other.cell_hash AND NOT c.out_of_distribution
JOIN attempts AS a ON a.job_id = other.id AND a.outcome = 'succeeded'
JOIN measurements AS m ON m.attempt_id = a.id AND m.valid
WHERE mine.id = :job_id
  AND NOT mine.control
  AND NOT own.baseline
  AND NOT EXISTS (SELECT FROM events AS e WHERE e.job_id = mine.id AND e.kind = 'retried')
  AND NOT EXISTS (
      SELECT
      FROM cells AS base
      JOIN jobs AS b
          ON b.sweep_id = base.sweep_id
          AND b.cell_hash = base.hash
          AND b.host = mine.host
          AND b.parallel = mine.parallel
      CROSS JOIN LATERAL (SELECT * FROM coding WHERE job_id = b.id AND accepted OFFSET 0) AS reference
      CROSS JOIN LATERAL (SELECT * FROM coding WHERE job_id = other.id OFFSET 0) AS theirs
      WHERE base.sweep_id = mine.sweep_id
        AND base.baseline
        AND reference.suite_digest = theirs.suite_digest
        AND reference.concurrency = theirs.concurrency
        AND theirs.passed < reference.passed
  )
GROUP BY c.hash, c.label, c.position, m.concurrency, m.context_tokens, m.output_tokens_asked, s.measure
HAVING count(*) >= (s.measure -> 'repeats' ->> 'min')::integer
ORDER BY c.position, m.concurrency, m.context_tokens, m.output_tokens_asked
