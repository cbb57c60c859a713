"""What an attempt measured is kept on its host until Postgres has it."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from storage_world import POINTS, RTX, RUNNER, SUCCESS, World, a_measurement

from ddqueue.domain.queueing import Claim, PhaseRecord
from ddqueue.domain.states import AttemptOutcome
from ddqueue.errors import NotReachable, StaleFence
from ddqueue.storage import journal
from ddqueue.storage.attempts import PostgresAttemptStore
from ddqueue.storage.entries import Entry, Term
from ddqueue.storage.journalled import JournalledStore

HASH = "5f1c"
PHASE = PhaseRecord("measure", datetime(2026, 1, 2, tzinfo=UTC), 1.5)


class CutOff(PostgresAttemptStore):
    """Postgres, as an attempt sees it that is cut off now and then."""

    away = False

    def write(self, term: Term, entry: Entry) -> None:
        if self.away:
            raise NotReachable("Postgres did not answer")
        super().write(term, entry)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    found = World(database_url)
    yield found
    found.sql_engine.dispose()


@pytest.fixture
def cut_off(world: World) -> CutOff:
    return CutOff(world.sql_engine)


@pytest.fixture
def store(cut_off: CutOff, tmp_path: Path) -> JournalledStore:
    return JournalledStore(cut_off, tmp_path, away_limit_s=30, ask_limit_s=1)


@pytest.fixture
def claim(world: World, store: JournalledStore) -> Claim:
    world.submit()
    found = store.claim(RTX.name, world.jobs()[0], RUNNER, 15)
    assert found is not None
    return found


@pytest.fixture
def small_files() -> Iterator[None]:
    """Every file that grows past a few bytes is refused, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


def count(world: World, table: str) -> int:
    with world.sql_engine.connect() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def test_measuring_goes_on_while_postgres_is_away(
    world: World, store: JournalledStore, cut_off: CutOff, claim: Claim, tmp_path: Path
) -> None:
    cut_off.away = True
    store.record_phase(claim, PHASE)
    store.record_configuration(claim, {"a": 1}, {"a": 1}, {}, HASH)
    store.record_measurement(claim, a_measurement())
    assert (count(world, "measurements"), count(world, "phases")) == (0, 0)
    (path,) = journal.left_in(tmp_path)
    found = journal.read(path)
    assert found is not None
    assert [entry.kind for entry in found[1]] == ["phase", "configuration", "measurement"]
    cut_off.away = False
    store.finish(claim, AttemptOutcome.SUCCEEDED, SUCCESS)
    assert (count(world, "measurements"), count(world, "samples"), count(world, "phases")) == (1, 2, 1)
    assert world.state(claim.job_id) == "succeeded"
    assert journal.left_in(tmp_path) == []


def test_what_a_dead_attempt_left_is_stored_by_the_next_before_its_job_is_requeued(
    world: World, store: JournalledStore, cut_off: CutOff, claim: Claim, tmp_path: Path
) -> None:
    cut_off.away = True
    store.record_configuration(claim, {}, {}, {}, HASH)
    store.record_measurement(claim, a_measurement())
    following = JournalledStore(PostgresAttemptStore(world.sql_engine), tmp_path, 30)
    assert following.deliver_left_over(RTX.name) == 2
    assert following.requeue_dead(RTX.name, "its attempt died") == [claim.job_id]
    assert count(world, "measurements") == 1
    assert journal.left_in(tmp_path) == []
    again = following.claim(RTX.name, claim.job_id, RUNNER, 15)
    assert again is not None
    (carried,) = following.carry_over(again, HASH)
    assert (carried.point, carried.repeat, carried.output_throughput_tok_s) == (POINTS[0], 1, 145.0)


def test_a_finish_that_could_not_be_stored_is_stored_by_the_next(world: World, cut_off: CutOff, tmp_path: Path) -> None:
    world.submit()
    store = JournalledStore(cut_off, tmp_path, away_limit_s=0.2)
    claim = store.claim(RTX.name, world.jobs()[0], RUNNER, 15)
    assert claim is not None
    cut_off.away = True
    with pytest.raises(NotReachable):
        store.finish(claim, AttemptOutcome.SUCCEEDED, SUCCESS)
    assert world.state(claim.job_id) == "running"
    following = JournalledStore(PostgresAttemptStore(world.sql_engine), tmp_path, 30)
    assert following.deliver_left_over(RTX.name) == 1
    assert following.requeue_dead(RTX.name, "its attempt died") == []
    assert world.state(claim.job_id) == "succeeded"


def test_a_journal_whose_fence_was_taken_is_kept_and_not_stored(
    world: World, store: JournalledStore, cut_off: CutOff, claim: Claim, tmp_path: Path
) -> None:
    cut_off.away = True
    store.record_measurement(claim, a_measurement())
    plain = PostgresAttemptStore(world.sql_engine)
    plain.requeue_dead(RTX.name, "taken")
    cut_off.away = False
    with pytest.raises(StaleFence):
        store.finish(claim, AttemptOutcome.SUCCEEDED, SUCCESS)
    following = JournalledStore(plain, tmp_path, 30)
    assert following.deliver_left_over(RTX.name) == 0
    assert count(world, "measurements") == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"attempt-{claim.attempt_id}.refused"]
    assert following.deliver_left_over(RTX.name) == 0


def test_a_line_that_a_crash_cut_off_is_passed_over(
    store: JournalledStore, cut_off: CutOff, claim: Claim, tmp_path: Path
) -> None:
    cut_off.away = True
    store.record_phase(claim, PHASE)
    store.record_measurement(claim, a_measurement())
    (path,) = journal.left_in(tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    found = journal.read(path)
    assert found is not None
    assert [entry.kind for entry in found[1]] == ["phase"]


def test_a_journal_without_a_term_is_nobodys(store: JournalledStore, tmp_path: Path) -> None:
    (tmp_path / "attempt-9.jsonl").write_text('{"job_id"')
    assert store.deliver_left_over(RTX.name) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_sends_everything_to_postgres_at_once(
    world: World, store: JournalledStore, claim: Claim, tmp_path: Path, small_files: None
) -> None:
    store.record_measurement(claim, a_measurement())
    assert count(world, "measurements") == 1, "stored when the call returned"
    (path,) = journal.left_in(tmp_path)
    assert path.read_bytes().count(b"\n") == 1, "and no half line is in the file"


def test_carrying_over_copies_once_and_only_from_an_equal_server(world: World, tmp_path: Path) -> None:
    world.submit()
    store = PostgresAttemptStore(world.sql_engine)
    job = world.jobs()[0]
    first = store.claim(RTX.name, job, RUNNER, 15)
    assert first is not None
    store.record_configuration(first, {}, {}, {}, HASH)
    store.record_measurement(first, a_measurement(POINTS[0], 1))
    store.record_measurement(first, a_measurement(POINTS[0], 2, 150.0))
    store.requeue_dead(RTX.name, "died")
    second = store.claim(RTX.name, job, RUNNER, 15)
    assert second is not None
    assert store.carry_over(second, "another hash") == []
    carried = store.carry_over(second, HASH)
    assert [(one.repeat, one.output_throughput_tok_s) for one in carried] == [(1, 145.0), (2, 150.0)]
    assert store.carry_over(second, HASH) == carried
    store.record_configuration(second, {}, {}, {}, HASH)
    store.record_measurement(second, a_measurement(POINTS[0], 3, 155.0))
    store.requeue_dead(RTX.name, "died again")
    third = store.claim(RTX.name, job, RUNNER, 15)
    assert third is not None
    assert [one.repeat for one in store.carry_over(third, HASH)] == [1, 2, 3]
    with world.sql_engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT m.repeat, m.carried_from, count(s.request_index) FROM measurements AS m"
                " JOIN samples AS s ON s.measurement_id = m.id WHERE m.attempt_id = :id GROUP BY m.id ORDER BY m.repeat"
            ),
            {"id": third.attempt_id},
        ).all()
    assert rows == [(1, first.attempt_id, 2), (2, first.attempt_id, 2), (3, second.attempt_id, 2)]
    with pytest.raises(StaleFence):
        store.carry_over(second, HASH)


def test_a_journal_whose_finish_was_stored_is_no_news(
    world: World, store: JournalledStore, claim: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.record_measurement(claim, a_measurement())
    monkeypatch.setattr(journal.Journal, "remove", journal.Journal.close)  # killed just before it
    store.finish(claim, AttemptOutcome.SUCCEEDED, SUCCESS)
    following = JournalledStore(PostgresAttemptStore(world.sql_engine), tmp_path, 30)
    assert following.deliver_left_over(RTX.name) == 0
    assert list(tmp_path.iterdir()) == []
