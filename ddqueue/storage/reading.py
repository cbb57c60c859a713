"""The reading side: what `status`, `show` and `results` print. Rows are plain mappings, ready for JSON."""

from __future__ import annotations

from typing import Any

from ddqueue.errors import UsageError
from ddqueue.storage.reads import Reads, Row
from ddqueue.storage.references import SweepReference, find_sweep, no_such_job
from ddqueue.storage.sql_files import sql


class PostgresReader:
    """Reads, and changes nothing. Every method raises NotReachable when Postgres does not answer."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def sweep(self, reference: str) -> SweepReference:
        """The sweep named `name` or `name@2`. Raises UsageError naming near names."""
        return find_sweep(self._reads, reference)

    def sweeps(self) -> list[Row]:
        """Every sweep, newest first, with its number of jobs in each state: `queued`, `running`, ..."""
        return self._rows("read_sweeps")

    def hosts(self) -> list[Row]:
        """Every host: quarantine and hold, the running job (`job_id`, `sweep`, `label`, `parallel`, `worker`, `phase`,
        `running_s`, `lease_expired`; null when idle), `queued`, the number of jobs that wait for it, its worker's
        `worker_version`, and for a borrowed box `borrow` (`hours`, `idle_s`), `loan_state` and `borrowed_since`."""
        return self._rows("read_hosts")

    def dispatchers(self) -> list[Row]:
        """Every dispatcher that was ever seen, the one seen last first: `name`, `version`, `seen_at`, `seen_s`, the
        seconds since then."""
        return self._rows("read_dispatchers")

    def host_failures(self, limit: int = 3) -> list[Row]:
        """Each host's newest failed and lost attempts, newest first, at most `limit` a host: `host`, `at`, `job_id`,
        `sweep`, `label`, `outcome`, `failure`, `evidence`."""
        return self._rows("host_failures", limit=limit)

    def queue(self, sweep_id: int | None = None, limit: int = 100) -> list[Row]:
        """Running and queued jobs, host by host, in the order in which they will run; `waits_for` says why a job cannot
        be next: `paused`, `backoff`, `quarantine`, `hold`, or null."""
        return self._rows("read_queue", sweep_id=sweep_id, limit=limit)

    def jobs(self, sweep_id: int) -> list[Row]:
        """Every job of a sweep, one a visit of a cell, in the order in which a host runs them; without numbers."""
        return self._rows("read_jobs", sweep_id=sweep_id)

    def results(self, sweep_id: int) -> list[Row]:
        """The rows of the view `results` for one sweep, one a visit, in the order in which a host runs them."""
        with self._reads.reading() as fetch:
            return fetch("SELECT * FROM results WHERE sweep_id = :sweep_id ORDER BY position", sweep_id=sweep_id)

    def repeats(self, sweep_id: int) -> list[Row]:
        """Every repeat of the sweep's accepted attempts, valid or not, in the order taken: `job_id` is its visit's, and
        `start` names the start of the server that it was measured on."""
        return self._rows("read_repeats", sweep_id=sweep_id)

    def cells(self, sweep_id: int) -> list[Row]:
        """The sweep's configurations, in the order asked: `cell_hash`, `label`, and `canonical` in full."""
        return self._rows("read_cells", sweep_id=sweep_id)

    def job_names(self, job_id: int) -> Row:
        """What a job's number stands for: `sweep_id`, `sweep` (name@revision), `host`, `parallel` and `cell_hash`.

        Raises:
            UsageError: there is no such job.
        """
        with self._reads.reading() as fetch:
            found = fetch(_JOB_NAMES, job_id=job_id)
        if not found:
            raise UsageError(no_such_job(job_id))
        return found[0]

    def measure(self, sweep_id: int) -> dict[str, Any]:
        """What the sweep asked to be measured: the form that domain.sweep.Measure.from_json reads."""
        with self._reads.reading() as fetch:
            row = fetch("SELECT measure FROM sweeps WHERE id = :sweep_id", sweep_id=sweep_id)
        return dict(row[0]["measure"])

    def job(self, job_id: int) -> Row:
        """One job, with `attempts`, each with its `phases` and `measurements`, and `events`, in one consistent view.

        Raises:
            UsageError: there is no such job.
        """
        with self._reads.reading(consistent=True) as fetch:
            found = fetch(_JOB, job_id=job_id)
            if not found:
                raise UsageError(no_such_job(job_id))
            attempts = fetch("SELECT * FROM attempts WHERE job_id = :job_id ORDER BY number", job_id=job_id)
            phases = fetch(_PHASES, job_id=job_id)
            measurements = fetch(_MEASUREMENTS, job_id=job_id)
            events = fetch("SELECT * FROM events WHERE job_id = :job_id ORDER BY id", job_id=job_id)
        for attempt in attempts:
            attempt["phases"] = [row for row in phases if row["attempt_id"] == attempt["id"]]
            attempt["measurements"] = [row for row in measurements if row["attempt_id"] == attempt["id"]]
        return {**found[0], "attempts": attempts, "events": events}

    def _rows(self, name: str, **parameters: Any) -> list[Row]:
        with self._reads.reading() as fetch:
            return fetch(sql(name), **parameters)


_JOB = """
SELECT j.*, s.name AS sweep, s.revision, s.model, s.engine, c.label, c.canonical, c.baseline, c.out_of_distribution
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
WHERE j.id = :job_id
"""

_JOB_NAMES = """
SELECT j.sweep_id, s.name || '@' || s.revision AS sweep, j.host, j.parallel, j.cell_hash
FROM jobs AS j
JOIN sweeps AS s ON s.id = j.sweep_id
WHERE j.id = :job_id
"""

_PHASES = """
SELECT p.*
FROM phases AS p
JOIN attempts AS a ON a.id = p.attempt_id
WHERE a.job_id = :job_id
ORDER BY p.attempt_id, p.seq
"""

_MEASUREMENTS = """
SELECT m.*
FROM measurements AS m
JOIN attempts AS a ON a.id = m.attempt_id
WHERE a.job_id = :job_id
ORDER BY m.attempt_id, m.started_at, m.id
"""
