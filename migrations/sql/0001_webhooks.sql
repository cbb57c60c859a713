-- Webhooks given with sweeps, and the messages for them.

CREATE TABLE webhooks (
    sweep_id BIGINT NOT NULL,
    url TEXT NOT NULL,
    told_end BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT webhooks_pkey PRIMARY KEY (sweep_id),
    CONSTRAINT webhooks_sweep_id_fkey FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE
);

COMMENT ON TABLE webhooks IS 'Where the end of a sweep is told, and the quarantine of its hosts.';
COMMENT ON COLUMN webhooks.url IS 'may hold the receiver''s secret';
COMMENT ON COLUMN webhooks.told_end IS 'a message says that the sweep has ended; false again once a job of it is retried';

CREATE TABLE webhook_messages (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    sweep_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    payload JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
    tries INTEGER DEFAULT 0 NOT NULL,
    next_try_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp(),
    delivered_at TIMESTAMP WITH TIME ZONE,
    error TEXT,
    CONSTRAINT webhook_messages_pkey PRIMARY KEY (id),
    CONSTRAINT webhook_messages_kind_known CHECK (kind IN ('sweep_ended', 'host_quarantined')),
    CONSTRAINT webhook_messages_delivered_once CHECK (delivered_at IS NULL OR next_try_at IS NULL),
    CONSTRAINT webhook_messages_tries_positive CHECK (tries >= 0),
    CONSTRAINT webhook_messages_sweep_id_fkey FOREIGN KEY(sweep_id) REFERENCES webhooks (sweep_id) ON DELETE CASCADE
);

CREATE INDEX webhook_messages_due ON webhook_messages (next_try_at) WHERE next_try_at IS NOT NULL;

CREATE INDEX webhook_messages_sweep_id_idx ON webhook_messages (sweep_id);

COMMENT ON TABLE webhook_messages IS 'One message to a webhook. Delivered at least once: a receiver knows a repeated one by its id.';
COMMENT ON COLUMN webhook_messages.kind IS 'sweep_ended or host_quarantined';
COMMENT ON COLUMN webhook_messages.payload IS 'what is sent, as it was when it happened';
COMMENT ON COLUMN webhook_messages.next_try_at IS 'not before; pushed on while a try is under way; null once delivered or given up';
COMMENT ON COLUMN webhook_messages.delivered_at IS 'when the receiver answered with 2xx';
COMMENT ON COLUMN webhook_messages.error IS 'what became of the last try that failed';
