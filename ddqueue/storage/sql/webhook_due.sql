-- Take one message to send. It is pushed on first, and the push committed, so that nobody else sends it meanwhile and a
-- sender that dies between sending and saying so costs a repeat, never a loss. SKIP LOCKED: two dispatchers share the work.
UPDATE webhook_messages AS m
SET tries = m.tries + 1, next_try_at = clock_timestamp() + make_interval(secs => :held_s)
FROM webhooks AS w
WHERE m.id = (
    SELECT due.id
    FROM webhook_messages AS due
    WHERE due.next_try_at <= clock_timestamp()
    ORDER BY due.next_try_at, due.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
  AND w.sweep_id = m.sweep_id
RETURNING m.id, w.url, m.payload, m.tries
