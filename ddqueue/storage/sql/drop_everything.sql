-- Everything of ours, whatever version made it: what a backup holds may be older, and what it does not know must not stay
-- behind. What an extension brought is the database's own. The schema itself stays, with its owner and its grants.
DO $$
DECLARE
    drop_one text;
BEGIN
    FOR drop_one IN
        SELECT format('DROP %s IF EXISTS public.%I CASCADE',
                      CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                      c.relname)
        FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = 'public'::regnamespace
          AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')
        -- Sequences last: one that a column owns has gone with its table by then.
        ORDER BY c.relkind DESC
    LOOP
        EXECUTE drop_one;
    END LOOP;
    FOR drop_one IN
        SELECT format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::regprocedure)
        FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'public'::regnamespace
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE d.objid = p.oid AND d.deptype = 'e')
    LOOP
        EXECUTE drop_one;
    END LOOP;
END
$$;
