-- What a worker says of its host when it starts, and each attempt anew: the box that works is the one that knows. The host is
-- made known by it too, so that a box is seen before any sweep names it; quarantine and hold are not the worker's and stay.
INSERT INTO hosts (
    name, gpus, gpu_kind, interconnect, simulated, worker_version, worker_seen_at, borrow, loan_state, borrowed_since
)
VALUES (
    :name, :gpus, :gpu_kind, :interconnect, :simulated, :worker_version, clock_timestamp(), :borrow, :loan_state, :borrowed_since
)
ON CONFLICT (name) DO UPDATE SET
    gpus = excluded.gpus,
    gpu_kind = excluded.gpu_kind,
    interconnect = excluded.interconnect,
    simulated = excluded.simulated,
    worker_version = excluded.worker_version,
    worker_seen_at = excluded.worker_seen_at,
    borrow = excluded.borrow,
    loan_state = excluded.loan_state,
    borrowed_since = excluded.borrowed_since
