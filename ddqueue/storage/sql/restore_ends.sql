-- For psql. A box may still hold the journal or the log of an attempt that the backup does not know: the fence and the id of a
-- new attempt must not be the same.
SELECT pg_catalog.setval('public.fence', (SELECT last_value FROM public.fence) + :left_behind);
SELECT pg_catalog.setval('public.attempts_id_seq', (SELECT last_value FROM public.attempts_id_seq) + :left_behind);
COMMIT;
