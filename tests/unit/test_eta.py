"""Known durations give a known estimate; nothing measured gives the plan's assumption, and says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ddqueue.domain.eta import Eta, Expected, RunningJob, WaitingJobs, expected, last, outlook, step_times
from ddqueue.domain.queueing import PhaseRecord

START = datetime(2025, 1, 2, 3, tzinfo=UTC)


def phase(name: str, at_s: float, duration_s: float) -> PhaseRecord:
    return PhaseRecord(name, START + timedelta(seconds=at_s), duration_s)


def test_expected_is_the_mean_of_earlier_jobs_step_by_step() -> None:
    earlier = [{"ready": 100.0, "measure": 200.0}, {"ready": 140.0, "measure": 240.0, "stop": 10.0}]
    found = expected(earlier, [{"ready": 1.0}], False, 999.0)
    assert found == Expected(345.0, {"ready": 120.0, "measure": 220.0, "stop": 5.0}, 2)


def test_nothing_measured_is_the_assumption_and_says_so() -> None:
    found = expected([], [], False, 600.0)
    assert (found.total_s, found.jobs) == (600.0, 0)
    assert outlook(None, [WaitingJobs("a@1", 3, found)]) == {"a@1": Eta(1800.0, 0)}


# One start of 480 or 120 s, and the generating steps of the baseline and the mean of 40 trees, in seconds, as the cost
# models of both boxes have them (benchmarks/shorter_sweeps.py), with and without coding checks.
@pytest.mark.parametrize("start_s", [480.0, 120.0])
@pytest.mark.parametrize(("baseline_s", "others_s"), [(750.0, 452.0), (369.0, 210.0), (216.0, 110.0), (76.0, 41.0)])
def test_after_the_first_cell_the_rest_is_known_within_15_percent(
    start_s: float, baseline_s: float, others_s: float
) -> None:
    first = [{"ready": start_s, "measure": baseline_s}]
    rest = outlook(None, [WaitingJobs("a@1", 40, expected([], first, False, 1.0))])["a@1"]
    assert rest.left_s == pytest.approx(40 * (start_s + others_s), rel=0.15)
    assert rest.measured == 1
    backwards = expected([], [{"ready": start_s, "measure": others_s}], True, 1.0)
    assert backwards.total_s == pytest.approx(start_s + baseline_s, rel=0.15)


def test_a_servers_own_phases_count_inside_ready_only() -> None:
    phases = [
        phase("launch", 0, 2),
        phase("ready", 2, 100),
        phase("load weights", 2, 60),
        # A server's own warm-up has the name of a step of ours; its clock of whole seconds makes it stick out.
        phase("warm up", 92, 10.6),
        phase("warm up", 103, 5),
        phase("measure", 108, 20),
        phase("measure", 128, 30),
    ]
    assert step_times(phases) == {"launch": 2, "ready": 100, "warm up": 5, "measure": 50}


MEASURED = Expected(300.0, {"ready": 100.0, "measure": 180.0, "stop": 20.0}, 4)


@pytest.mark.parametrize(
    ("spent_s", "step", "step_s", "left_s"),
    [
        ({}, "ready", 0.0, 300.0),
        ({}, "ready", 40.0, 260.0),
        ({}, "ready", 150.0, 200.0),
        ({"ready": 90.0}, "measure", 0.0, 200.0),
        ({"ready": 90.0, "measure": 60.0}, "measure", 20.0, 120.0),
        ({"ready": 90.0, "measure": 500.0}, "stop", 5.0, 15.0),
        ({"ready": 90.0, "measure": 200.0, "stop": 30.0}, "release", 1.0, 0.0),
    ],
)
def test_what_is_left_of_a_running_job(spent_s: dict[str, float], step: str, step_s: float, left_s: float) -> None:
    assert RunningJob("a@1", MEASURED, spent_s, step, step_s).left_s == pytest.approx(left_s)


def test_an_assumed_job_that_takes_longer_is_never_late_by_less_than_nothing() -> None:
    job = RunningJob("a@1", Expected(100.0), {"ready": 60.0}, "measure", 15.0)
    assert job.left_s == pytest.approx(25.0)
    assert RunningJob("a@1", Expected(100.0), {"ready": 160.0}, "measure", 15.0).left_s == 0.0


def test_a_hosts_sweeps_end_one_after_the_other() -> None:
    running = RunningJob("a@1", MEASURED, {"ready": 100.0, "measure": 100.0}, "measure", 0.0)
    waiting = [
        WaitingJobs("a@1", 2, MEASURED),
        WaitingJobs("paused@1", 5, MEASURED, "paused"),
        WaitingJobs("b@3", 1, Expected(50.0)),
    ]
    assert outlook(running, waiting) == {
        "a@1": Eta(700.0, 4),
        "paused@1": Eta(None, 0, "paused"),
        "b@3": Eta(750.0, 0),
    }


def test_a_sweep_ends_with_its_last_host() -> None:
    assert last([Eta(10.0, 5), Eta(70.0, 2)]) == Eta(70.0, 2)
    assert last([Eta(10.0, 5), Eta(None, 0, "quarantine")]) == Eta(None, 0, "quarantine")
    with pytest.raises(ValueError, match="no host"):
        last([])
