"""Taking a box from production and giving it back, with real records, locks and processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from datetime import time as clock_time
from pathlib import Path

import pytest
from production import Production
from storage_world import RTX, RUNNER, World

from ddqueue.domain.borrowing import Borrow, Hours, Loan, LoanState, RunningCommand
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.gpu.host_commands import ProcessCommands
from ddqueue.gpu.loan_file import LoanFile
from ddqueue.processes import is_alive
from ddqueue.services.borrowing import Borrowing
from ddqueue.services.stopping import AttemptStopped, StopReason, StopSignal

PATIENCE_S = 60.0
NIGHT = Hours(clock_time(22), clock_time(6))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Silent:
    def tell(self, phase: str, text: str) -> None: ...


class Clock:
    """A box's clock that a test moves."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 15, 23, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def production(tmp_path: Path) -> Production:
    return Production(tmp_path / "production")


@pytest.fixture
def record(tmp_path: Path) -> LoanFile:
    return LoanFile(tmp_path / "borrowed" / "b300.json")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def box(production: Production, record: LoanFile, clock: Clock) -> Borrowing:
    terms = Borrow(production.take, production.give_back, limit_s=PATIENCE_S)
    return Borrowing(terms, record, ProcessCommands(), clock, Silent())


def stop_signal() -> StopSignal:
    return StopSignal(PATIENCE_S)


def state(record: LoanFile) -> LoanState | None:
    loan = record.read()
    return None if loan is None else loan.state


def test_a_box_is_taken_once_for_many_attempts_and_given_back_once(
    box: Borrowing, production: Production, record: LoanFile
) -> None:
    assert box.must_take()
    for _ in range(3):
        with box.taken(stop_signal()):
            assert not production.serves
            assert state(record) is LoanState.TAKEN
        assert not box.must_take()
    assert box.give_back()
    assert production.serves
    assert record.read() is None
    assert not box.give_back(), "there is nothing to give back any more"
    assert production.log == ["begin take", "end take", "begin give_back", "end give_back"]


def test_a_host_of_our_own_is_neither_taken_nor_given_back(box: Borrowing, production: Production) -> None:
    ours = replace(box, terms=None)
    assert not ours.must_take()
    with ours.taken(stop_signal()):
        pass
    assert not ours.give_back()
    assert production.log == []


def test_a_box_that_was_booted_meanwhile_is_taken_again(box: Borrowing, production: Production) -> None:
    class NextBoot(ProcessCommands):
        def boot(self) -> str:
            return "another"

    with box.taken(stop_signal()):
        pass
    after = replace(box, commands=NextBoot())
    with after.taken(stop_signal()):
        pass
    assert production.log == ["begin take", "end take"] * 2
    assert after.give_back()


def test_a_take_that_fails_is_the_hosts_fault_and_the_box_goes_back(
    box: Borrowing, production: Production, record: LoanFile
) -> None:
    production.breaks("take", "fails")
    with pytest.raises(AttemptFailure) as caught, box.taken(stop_signal()):
        raise AssertionError("nothing runs on a box that was not taken")
    assert caught.value.failure is Failure.GPU_BUSY
    assert caught.value.evidence == (
        f"the box could not be taken from production: `{' '.join(production.take)}` ended with 3: cannot take now; "
        "it has been given back"
    )
    assert production.log == ["begin take", "begin give_back", "end give_back"]
    assert record.read() is None


def test_when_both_fail_the_evidence_names_both_and_the_loan_stays(
    box: Borrowing, production: Production, record: LoanFile
) -> None:
    production.breaks("take", "fails")
    production.breaks("give_back", "fails")
    with pytest.raises(AttemptFailure, match="ended with 3: cannot take now; ") as caught, box.taken(stop_signal()):
        raise AssertionError("nothing runs on a box that was not taken")
    assert "could not be given back" in caught.value.evidence
    assert "ended with 3: cannot give_back now" in caught.value.evidence
    assert state(record) is LoanState.GIVING_BACK
    production.mend()
    with box.taken(stop_signal()):
        assert production.log[-2:] == ["begin take", "end take"], "half given back, it has to be taken again"
    assert box.give_back()


def test_a_give_back_that_fails_is_remembered_until_it_works(
    box: Borrowing, production: Production, record: LoanFile
) -> None:
    with box.taken(stop_signal()):
        pass
    production.breaks("give_back", "fails")
    for _ in range(2):
        with pytest.raises(AttemptFailure, match="could not be given back") as caught:
            box.give_back()
        assert caught.value.failure is Failure.INFRA
        assert state(record) is LoanState.GIVING_BACK
    production.mend()
    assert box.give_back()
    assert production.serves


def test_nothing_is_taken_that_cannot_be_remembered(box: Borrowing, production: Production, tmp_path: Path) -> None:
    (tmp_path / "borrowed").write_text("a file where the folder should be")
    with pytest.raises(AttemptFailure, match="cannot be noted"), box.taken(stop_signal()):
        raise AssertionError("nothing runs on a box that was not taken")
    assert production.log == []


def test_the_inventorys_newest_command_gives_back_else_the_one_of_the_record(
    box: Borrowing, production: Production, record: LoanFile, tmp_path: Path
) -> None:
    assert box.terms is not None
    with box.taken(stop_signal()):
        pass
    mended = replace(box, terms=replace(box.terms, give_back=("touch", str(tmp_path / "mended"))))
    assert mended.give_back()
    assert (tmp_path / "mended").exists()
    with box.taken(stop_signal()):
        pass
    assert replace(box, terms=None).give_back(), "no longer in the inventory, and still given back"
    assert production.serves


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"state": "eaten"}', '{"state": "taken", "terms": {}}', "\xff"])
def test_a_damaged_record_is_still_a_loan(
    box: Borrowing, production: Production, record: LoanFile, damage: str
) -> None:
    with box.taken(stop_signal()):
        pass
    record.path.write_bytes(damage.encode("latin-1"))
    assert record.read() is not None
    with pytest.raises(AttemptFailure, match="neither the inventory nor its record"):
        replace(box, terms=None).give_back()
    assert box.must_take()
    assert box.give_back()
    assert production.serves


def test_a_record_comes_back_whole(record: LoanFile) -> None:
    terms = Borrow(("a", "b c"), ("d",), 1.5, 2.5, NIGHT)
    for command in (None, RunningCommand(7, 8)):
        loan = Loan(terms, LoanState.TAKING, datetime(2025, 1, 15, 23, tzinfo=UTC), "boot", command)
        record.write(loan)
        assert record.read() == loan
    assert [path.name for path in record.path.parent.iterdir()] == ["b300.json"]


TAKE_AND_WAIT = """
import sys
from datetime import datetime
from pathlib import Path
from ddqueue.domain.borrowing import Borrow
from ddqueue.gpu.host_commands import ProcessCommands
from ddqueue.gpu.loan_file import LoanFile
from ddqueue.services.borrowing import Borrowing
from ddqueue.services.stopping import StopSignal

class Silent:
    def tell(self, phase, text): ...

terms = Borrow.from_json(__import__("json").loads(sys.argv[2]))
box = Borrowing(terms, LoanFile(Path(sys.argv[1])), ProcessCommands(), lambda: datetime.now().astimezone(), Silent())
with box.taken(StopSignal(600.0)):
    print("taken", flush=True)
    sys.stdin.read()
"""


def test_a_take_whose_runner_was_killed_never_ends_after_the_box_went_back(
    box: Borrowing, production: Production, record: LoanFile
) -> None:
    assert box.terms is not None
    production.breaks("take", "hangs")
    runner = subprocess.Popen(
        [sys.executable, "-c", TAKE_AND_WAIT, str(record.path), json.dumps(box.terms.to_json())],
        stdin=subprocess.PIPE,
    )
    wait_until(lambda: production.log == ["begin take"])
    runner.kill()
    runner.wait()
    left = record.read()
    assert left is not None
    assert left.state is LoanState.TAKING
    assert left.command is not None
    assert is_alive(left.command.pid, left.command.start_ticks), "an orphan that would stop production one day"
    assert box.give_back()
    assert not is_alive(left.command.pid, left.command.start_ticks)
    production.mend()
    time.sleep(0.3)
    assert production.log == ["begin take", "begin give_back", "end give_back"]
    assert production.serves


def test_outside_its_hours_a_box_is_not_taken(box: Borrowing, production: Production, clock: Clock) -> None:
    assert box.terms is not None
    by_night = replace(box, terms=replace(box.terms, hours=NIGHT))
    clock.now = clock.now.replace(hour=12)
    with pytest.raises(AttemptStopped, match="hours"), by_night.taken(stop_signal()):
        raise AssertionError("nothing runs by day")
    assert production.log == []


def test_when_the_hours_end_the_attempt_is_told_to_stop(box: Borrowing, clock: Clock) -> None:
    assert box.terms is not None
    by_night = replace(box, terms=replace(box.terms, hours=NIGHT))
    stop = stop_signal()
    with by_night.taken(stop):
        assert stop.reason is None
        clock.now = clock.now.replace(hour=6)
        wait_until(lambda: stop.reason is not None)
    assert stop.reason is StopReason.HOURS
    assert by_night.give_back()


def test_when_the_hours_end_in_the_middle_of_a_take_it_ends(
    box: Borrowing, production: Production, record: LoanFile, clock: Clock
) -> None:
    assert box.terms is not None
    by_night = replace(box, terms=replace(box.terms, hours=NIGHT))
    production.breaks("take", "hangs")

    class Told:
        def tell(self, phase: str, text: str) -> None:
            clock.now = clock.now.replace(hour=6)

    with pytest.raises(AttemptStopped, match="hours"), replace(by_night, progress=Told()).taken(stop_signal()):
        raise AssertionError("the hours were over")
    assert state(record) is LoanState.TAKING, "so that the worker gives it back"
    assert by_night.give_back()
    assert production.serves


# The database's side


def test_could_claim_says_what_claim_does_and_changes_nothing(database_url: str) -> None:
    world = World(database_url)
    submitted = world.submit()
    jobs = [job["job_id"] for job in world.reader.jobs(submitted.sweep_id) if job["host"] == RTX.name]

    def agree(job_id: int, host: str = RTX.name) -> bool:
        asked = world.attempts.could_claim(host, job_id)
        assert asked is world.attempts.could_claim(host, job_id)
        return asked

    assert agree(jobs[0])
    assert not agree(jobs[0], "b300")
    assert not agree(10**6)
    assert world.reader.job(jobs[0])["state"] == "queued"
    world.control.pause(submitted.sweep_id)
    assert not agree(jobs[0])
    world.control.resume(submitted.sweep_id)
    assert world.attempts.claim(RTX.name, jobs[0], RUNNER, 60.0) is not None
    assert not agree(jobs[0]), "it runs"
    assert not agree(jobs[1]), "another job runs there"
    world.sql_engine.dispose()
