-- Run under the name's advisory lock, so that two submissions of one name do not both read the same maximum.
SELECT 1 + coalesce(max(revision), 0) AS revision
FROM sweeps
WHERE name = :name
