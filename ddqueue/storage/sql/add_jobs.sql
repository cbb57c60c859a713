-- All jobs of a sweep in one statement, in the order in which they are to run: one statement a job takes Postgres several
-- times as long.
INSERT INTO jobs (sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, visit, control, position)
SELECT sweep_id, cell_hash, host, parallel, tp, ep, pp, dp, visit, control, position
FROM jsonb_to_recordset(CAST(:jobs AS jsonb)) AS job (
    sweep_id bigint,
    cell_hash text,
    host text,
    parallel text,
    tp integer,
    ep integer,
    pp integer,
    dp integer,
    visit integer,
    control boolean,
    position integer
)
ORDER BY position
