-- The first statement of every write of an attempt: no row means that the fence is stale, and nothing may be written.
-- FOR SHARE, because a plain read could be true and the write after it no longer: whoever wants to take the job away waits
-- until this transaction has ended, and two writes of the same attempt do not wait for each other.
SELECT id
FROM jobs
WHERE id = :job_id AND fence = :fence AND state = 'running'
FOR SHARE
