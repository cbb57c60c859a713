"""`python -m chaos.probe`: writes with fences that are not good any more, through the product's own store.

A process of its own, so that it runs the build under test. Prints one StaleWrite as JSON a line; prints nothing and
ends with 0 while Postgres is away.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from sqlalchemy import text

from ddqueue.bootstrap import sql_engine
from ddqueue.domain.configuration import Cell, Parallelism
from ddqueue.domain.failures import Failure
from ddqueue.domain.measurement import Measurement, PointRun, RequestRecord
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.queueing import Claim, Lease, PhaseRecord
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.domain.sweep import Measure
from ddqueue.errors import NotReachable, StaleFence
from ddqueue.storage.attempts import PostgresAttemptStore
from ddqueue.storage.engine import transaction

from .history import StaleWrite

_ATTEMPTS = 3
"""How many ended attempts are tried: the newest ones of jobs that run again, then of any."""

_ENDED = """
SELECT
    a.id AS attempt_id, a.number, a.fence, a.outcome, j.id AS job_id, j.host, j.tp, j.ep, j.pp, j.dp, j.tries,
    s.id AS sweep_id, s.name, s.revision, s.measure, c.canonical, c.label, c.out_of_distribution
FROM attempts AS a
JOIN jobs AS j ON j.id = a.job_id
JOIN sweeps AS s ON s.id = j.sweep_id
JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
WHERE a.outcome IS NOT NULL
ORDER BY j.state = 'running' DESC, a.outcome = 'lost' DESC, a.ended_at DESC
LIMIT :limit
"""

_REPEAT = 99
"""No honest attempt measures so many."""


def main() -> None:
    engine = sql_engine("chaos probe")
    store = PostgresAttemptStore(engine)
    try:
        with transaction(engine) as connection:
            rows = connection.execute(text(_ENDED), {"limit": _ATTEMPTS}).all()
        for row in rows:
            for what, write in _writes(store, _claim(row), AttemptOutcome(row.outcome)):
                stale = StaleWrite(what, row.attempt_id, time.time(), _answer(write))
                print(json.dumps(asdict(stale)), flush=True)
    except NotReachable:
        return


def _claim(row: object) -> Claim:
    """The claim that the ended attempt once had."""
    it = row._mapping  # type: ignore[attr-defined]
    return Claim(
        job_id=it["job_id"],
        attempt_id=it["attempt_id"],
        attempt_number=it["number"],
        tries_used=it["tries"],
        fence=it["fence"],
        host=it["host"],
        sweep_id=it["sweep_id"],
        sweep=f"{it['name']}@{it['revision']}",
        cell=Cell.from_canonical(it["canonical"]),
        cell_label=it["label"],
        out_of_distribution=it["out_of_distribution"],
        parallelism=Parallelism(tp=it["tp"], ep=it["ep"], pp=it["pp"], dp=it["dp"]),
        measure=Measure.from_json(it["measure"]),
    )


def _writes(
    store: PostgresAttemptStore, claim: Claim, outcome: AttemptOutcome
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Everything that an attempt may write, each with its name."""
    yield "heartbeat", lambda: store.heartbeat(claim, 60.0, "stale")
    yield "record_phase", lambda: store.record_phase(claim, PhaseRecord("stale", datetime.now(UTC), 0.0))
    yield "record_provenance", lambda: store.record_provenance(claim, {"stale": True})
    yield "record_configuration", lambda: store.record_configuration(claim, {"stale": 1}, {}, {})
    yield "record_measurement", lambda: store.record_measurement(claim, _measurement(claim))
    # A repetition of the very finish that was stored is answered kindly, so that another is tried.
    if outcome is AttemptOutcome.SUCCEEDED:
        stop = Decision(JobState.QUEUED, counts=False)
        yield "finish", lambda: store.finish(claim, AttemptOutcome.CANCELLED, stop, Failure.CANCELLED, "stale")
    else:
        yield "finish", lambda: store.finish(claim, AttemptOutcome.SUCCEEDED, Decision(JobState.SUCCEEDED))


def _measurement(claim: Claim) -> Measurement:
    request = RequestRecord(0, 0.0, 1.0, prompt_tokens=60, output_tokens=16, arrivals=((0.5, 1), (1.0, 16)))
    run = PointRun(claim.measure.points[0], _REPEAT, datetime.now(UTC), 1.0, (request,))
    return measure(run, claim.tag)


def _answer(write: Callable[[], object]) -> str:
    try:
        answer = write()
    except StaleFence:
        return "StaleFence"
    except NotReachable:
        raise
    except Exception as error:  # whatever else stopped it, it was not the fence
        return f"{type(error).__name__}: {error}"
    return "lost" if answer is Lease.LOST else "accepted"


if __name__ == "__main__":
    main()
    sys.exit(0)
