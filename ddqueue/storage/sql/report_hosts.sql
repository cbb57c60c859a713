-- The hosts that the sweep's jobs name, in the order of its file.
SELECT h.name, h.gpus, h.gpu_kind, h.interconnect, h.simulated
FROM hosts AS h
JOIN jobs AS j ON j.host = h.name
WHERE j.sweep_id = :sweep_id
GROUP BY h.name
ORDER BY min(j.position), min(j.id)
