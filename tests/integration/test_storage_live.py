"""What a live view reads: known steps stored give a known time left, and numbers so far come from measurements."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from storage_world import B300, POINTS, RTX, World, a_measurement, a_sweep

from ddqueue.cli.live import drawn
from ddqueue.cli.live_frame import ASSUMED_NOTE, Frame, frame, lines
from ddqueue.domain.eta import SPECULATION_GAIN
from ddqueue.domain.failures import Failure
from ddqueue.domain.planning import SIMULATED, expected_job_s
from ddqueue.domain.queueing import Claim, PhaseRecord
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.storage.live import PostgresLive, SoFar

ASSUMED_S = expected_job_s(a_sweep().measure, 3, SIMULATED)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    yield world
    world.sql_engine.dispose()


def steps(world: World, claim: Claim, **durations_s: float) -> None:
    """Steps one after the other, from now on; `ready` holds a phase of the server's own."""
    at = datetime.now(UTC)
    for name, duration_s in durations_s.items():
        world.attempts.record_phase(claim, PhaseRecord(name, at, duration_s))
        if name == "ready":
            world.attempts.record_phase(claim, PhaseRecord("load weights", at, duration_s / 2))
        at += timedelta(seconds=duration_s)


def look(world: World, only: str | None = None) -> Frame:
    reader = world.reader
    return frame(reader.hosts(), reader.sweeps(), reader.host_failures(), PostgresLive(world.sql_engine).hosts(), only)


def test_nothing_measured_yet_is_assumed_and_said(world: World) -> None:
    world.submit()
    live = PostgresLive(world.sql_engine).hosts()
    assert set(live) == {"rtx6000", "b300"}
    eta = live["rtx6000"].etas["kimi-ddtree@1"]
    assert (eta.left_s, eta.measured) == (pytest.approx(3 * ASSUMED_S), 0)
    now = look(world)
    assert [(one.sweep, one.done, one.jobs) for one in now.sweeps] == [("kimi-ddtree@1 (simulated)", 0, 6)]
    assert now.sweeps[0].left.endswith("left (assumed)")
    assert now.notes == (ASSUMED_NOTE,)


def test_known_steps_of_earlier_jobs_give_a_known_time_left(world: World) -> None:
    world.submit()
    first, second, _ = world.jobs()
    done = world.claim(first)
    # The baseline's: what speculates is expected to measure for 199 s.
    steps(world, done, launch=1.0, ready=100.0, measure=SPECULATION_GAIN * 199.0)
    world.succeed(done)
    claim = world.claim(second)
    # Ends an hour from now, so that the step which runs has taken no time yet, however slow this test is.
    world.attempts.record_phase(claim, PhaseRecord("ready", datetime.now(UTC), 3600.0))
    world.attempts.heartbeat(claim, 60.0, "measure: C=1 60 repeat 2")
    for repeat, tok_s in ((1, 140.0), (2, 150.0)):
        world.attempts.record_measurement(claim, a_measurement(POINTS[0], repeat, tok_s))
    live = PostgresLive(world.sql_engine).hosts()["rtx6000"]
    assert live.running is not None
    # One of launch is still to come by the book: its name has not been seen here.
    assert live.running.left_s == pytest.approx(200.0)
    assert live.etas["kimi-ddtree@1"].left_s == pytest.approx(200.0 + 300.0)
    assert live.etas["kimi-ddtree@1"].measured == 1
    assert live.so_far == (SoFar(POINTS[0], 2, 145.0),)

    (host,) = [one for one in look(world).hosts if one.host.startswith("rtx6000")]
    assert (host.state, host.doing, host.so_far) == ("running", "measure: C=1 60 repeat 2", "C=1 60 145.0 (2)")
    assert host.progress.endswith("%, 3 min 20 s left")
    assert host.waiting == 1


def test_a_sweep_that_waits_says_for_what_and_failures_are_named(world: World) -> None:
    stored = world.submit()
    claim = world.claim(world.jobs()[0])
    world.attempts.finish(
        claim, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.OOM_CAPTURE, "26/58 [red]\x1b[2J"
    )
    world.control.pause(stored.sweep_id)
    now = look(world)
    (sweep,) = now.sweeps
    assert (sweep.failed, sweep.left) == (1, "paused")
    assert now.failures[0].endswith("baseline on rtx6000: failed: OOM_CAPTURE: 26/58 [red]\x1b[2J")
    shown = io.StringIO()
    Console(file=shown, width=160, force_terminal=True, highlight=False, markup=False).print(drawn(now, "a head"))
    assert r"OOM_CAPTURE: 26/58 [red]\x1b[2J" in shown.getvalue()
    assert "\x1b[2J" not in shown.getvalue()
    assert "a head" in shown.getvalue()


def test_one_sweep_is_told_from_others_and_goes_on_being_shown_when_it_has_ended(world: World) -> None:
    only_rtx = world.submit(a_sweep("one", hosts=(RTX,)), hosts=(RTX,))
    world.submit(a_sweep("two", hosts=(B300,)), hosts=(B300,))
    for job_id in world.jobs():
        world.succeed(world.claim(job_id))
    now = look(world, "one@1")
    (sweep,) = now.sweeps
    assert (sweep.ended, sweep.left, sweep.done) == (True, "ended", only_rtx.jobs)
    assert lines(now)[0] == "one@1 (simulated): 3/3 done, ended"
    assert [one.sweep for one in look(world).sweeps] == ["two@1 (simulated)"]
