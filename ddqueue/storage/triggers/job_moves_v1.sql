-- The schema's own copy of the table of states: whoever writes, and by whatever statement, a job moves only as the domain
-- allows. A test compares every pair of states with the domain's table.
CREATE FUNCTION job_may_move(before text, after text) RETURNS boolean
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (before, after) IN (
        ('queued', 'running'),
        ('queued', 'cancelled'),
        ('queued', 'pruned'),
        ('running', 'queued'),
        ('running', 'succeeded'),
        ('running', 'failed'),
        ('running', 'unsupported'),
        ('running', 'cancelled'),
        ('running', 'pruned'),
        ('failed', 'queued'),
        ('unsupported', 'queued'),
        ('cancelled', 'queued'),
        ('pruned', 'queued')
    );

CREATE FUNCTION refuse_impossible_job_move() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT job_may_move(old.state, new.state) THEN
        RAISE EXCEPTION 'job % cannot move from % to %', old.id, old.state, new.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'jobs_moves';
    END IF;
    RETURN new;
END
$$;

CREATE TRIGGER jobs_moves
    BEFORE UPDATE OF state ON jobs
    FOR EACH ROW
    WHEN (old.state IS DISTINCT FROM new.state)
    EXECUTE FUNCTION refuse_impossible_job_move();
