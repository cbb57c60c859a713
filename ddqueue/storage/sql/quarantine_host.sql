-- The first reason stays: a second fault found on a host already out of work is most often a consequence of it.
UPDATE hosts
SET quarantined_at = clock_timestamp(), quarantine_class = :failure, quarantine_reason = :reason
WHERE name = :host AND quarantined_at IS NULL
RETURNING name
