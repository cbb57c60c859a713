-- The closed list of failure classes with what ddqueue does about each, from domain/failures.py; a test compares the two.
CREATE VIEW failure_classes (failure, scope, tries, remedy) AS
VALUES
    ('BAD_ARGS', 'configuration', 1, 'The engine refused an argument: correct it in the sweep or in the engine profile.'),
    ('UNSUPPORTED', 'configuration', 1, 'This build cannot run this combination: take it out of the sweep, or use another build.'),
    ('MODEL_NOT_FOUND', 'configuration', 1, 'Check the model''s and the drafter''s path for this host in the inventory.'),
    ('OOM_LOAD', 'configuration', 1, 'The weights do not fit: use more GPUs per server or a smaller quantisation.'),
    ('KV_TOO_SMALL', 'configuration', 1, 'No room is left for the KV cache: raise args.mem-fraction-static.'),
    ('OOM_CAPTURE', 'configuration', 1, 'CUDA graph capture ran out of memory: lower args.mem-fraction-static or the batch sizes.'),
    ('CAPTURE_FAILED', 'configuration', 1, 'CUDA graph capture failed: the deciding log line names the kernel; try another backend.'),
    ('CAPTURE_HANG', 'configuration', 1, 'CUDA graph capture made no progress: look at the last step in the log.'),
    ('OOM_RUN', 'configuration', 1, 'The server ran out of memory under load: lower args.mem-fraction-static or concurrency.'),
    ('UNSUPPORTED_ARCH', 'configuration', 1, 'A kernel does not exist for this kind of GPU: use another backend or build there.'),
    ('NCCL_HANG', 'transient', 2, 'The ranks did not find each other: check NCCL variables, the topology and the driver.'),
    ('JIT_TIMEOUT', 'transient', 2, 'Kernels were still compiling: keep the compile caches on a disk that lasts.'),
    ('READY_TIMEOUT', 'transient', 2, 'The server did not become ready in time: look at its log.'),
    ('SERVER_CRASHED', 'transient', 2, 'The server died: the evidence holds its last phase, exit code and log tail.'),
    ('SERVER_STALLED', 'transient', 2, 'The server stopped answering under load: look at the last lines of its log.'),
    ('CONFIG_OVERRIDDEN', 'configuration', 1, 'The engine silently changed a setting: ask for what it can do, or use another build.'),
    ('PORT_BUSY', 'transient', 3, 'Another process took the port: nothing to do, it is tried again.'),
    ('GPU_BUSY', 'host', 1, 'Another process uses the GPUs: end it there yourself, then `ddqueue release HOST`.'),
    ('GPU_NOT_RELEASED', 'host', 1, 'GPU memory did not come back after the server ended: look at the box, then `ddqueue release HOST`.'),
    ('GPU_LOST', 'host', 1, 'A GPU is missing or sick: look at the driver''s messages, then `ddqueue release HOST`.'),
    ('SHM_FULL', 'host', 1, '/dev/shm is full: free it on the box, then `ddqueue release HOST`.'),
    ('SHORT_OUTPUT', 'configuration', 1, 'Answers were shorter than forced: the numbers would not be comparable.'),
    ('CLIENT_BOUND', 'transient', 2, 'The load client was the limit, not the server: give the host''s CPU some room.'),
    ('CORRECTNESS_DROP', 'configuration', 1, 'Answers are worse than the same host''s baseline: the cell is kept and not ranked.'),
    ('LEASE_LOST', 'transient', 3, 'Another attempt owns the job now; nothing this one wrote afterwards counts.'),
    ('CANCELLED', 'person', 1, '`ddqueue retry` puts it back into the queue.'),
    ('INFRA', 'transient', 3, 'ddqueue itself or a server it needs failed: the evidence says which.');

COMMENT ON VIEW failure_classes IS 'One row a class of failure: what is to blame, and what a person can do.';
COMMENT ON COLUMN failure_classes.scope IS 'configuration: fails again; host: the box, which is quarantined; transient: may pass; person: somebody asked for it';
COMMENT ON COLUMN failure_classes.tries IS 'attempts that a job gets at this class in all; 1 = never again';
