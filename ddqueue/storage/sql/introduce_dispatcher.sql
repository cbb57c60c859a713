-- A dispatcher's sign of life: who leads or stands by, in which version.
INSERT INTO dispatchers (name, version, seen_at)
VALUES (:name, :version, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET version = excluded.version, seen_at = excluded.seen_at
