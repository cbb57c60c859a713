-- Which programs may work with these tables, and which dispatchers do.

CREATE TABLE schema_compatibility (
    only_row BOOLEAN DEFAULT true NOT NULL,
    oldest_supported TEXT NOT NULL,
    CONSTRAINT schema_compatibility_pkey PRIMARY KEY (only_row),
    CONSTRAINT schema_compatibility_is_one_row CHECK (only_row),
    CONSTRAINT schema_compatibility_revision_is_four_digits CHECK (oldest_supported ~ '^[0-9]{4}$')
);

COMMENT ON TABLE schema_compatibility IS 'How old a program may be that works with these tables.';
COMMENT ON COLUMN schema_compatibility.oldest_supported IS 'the oldest revision whose programs still work; only a contracting migration raises it';

INSERT INTO schema_compatibility (oldest_supported) VALUES ('0001');

CREATE TABLE dispatchers (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT dispatchers_pkey PRIMARY KEY (name)
);

COMMENT ON TABLE dispatchers IS 'The dispatchers that have worked with this database.';
COMMENT ON COLUMN dispatchers.name IS 'the machine it runs on';
COMMENT ON COLUMN dispatchers.version IS 'its ddqueue';
COMMENT ON COLUMN dispatchers.seen_at IS 'its newest sign of life: every few seconds while it leads or stands by';
