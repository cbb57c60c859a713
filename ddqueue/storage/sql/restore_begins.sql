-- For psql. No dispatcher may lead meanwhile: it would wake hosts for jobs that are about to be others.
BEGIN;
SET LOCAL lock_timeout = '10s';
SELECT pg_catalog.pg_try_advisory_xact_lock(:leader_lock) AS free \gset
\if :free
\else
DO $$ BEGIN RAISE 'a dispatcher is at work: stop it'; END $$;
\endif
