SELECT name, version, seen_at, extract(epoch FROM clock_timestamp() - seen_at)::double precision AS seen_s
FROM dispatchers
ORDER BY seen_at DESC, name
