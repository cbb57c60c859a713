-- In the order asked for.
SELECT c.hash AS cell_hash, c.label, c.canonical, c.out_of_distribution
FROM cells AS c
WHERE c.sweep_id = :sweep_id
ORDER BY c.position
