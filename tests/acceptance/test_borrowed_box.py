"""A box that serves production by day, borrowed by a whole installation: taken late, always given back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from installation import Installation, sweep_text
from production import Production

from ddqueue import bootstrap
from ddqueue.domain.queueing import Runner
from ddqueue.files.examples import example
from ddqueue.gpu.loan_file import LoanFile
from ddqueue.gpu.ownership import KernelOwnership
from ddqueue.processes import start_ticks
from ddqueue.services.give_back import GaveBack
from ddqueue.services.stopping import StopSignal

HOST = "sim-rtx6000"
TAKEN_ONCE = ["begin take", "end take"]
GIVEN_BACK = ["begin give_back", "end give_back"]
LONG = ["{concurrency: 1, context: 4096, output: 128}"]
_BOX = "simulated: pcie}"


@pytest.fixture
def production(tmp_path: Path) -> Production:
    return Production(tmp_path / "production")


@pytest.fixture
def borrowed(tmp_path: Path, database_url: str, redis_url: str, production: Production) -> Iterator[Installation]:
    """An installation whose one host is borrowed, at any hour, and goes back after a second without work."""
    made = Installation(tmp_path / "home", database_url, redis_url, inventory_with(production.borrow(idle="1s")))
    yield made
    production.mend()
    made.stop()


def inventory_with(borrow: str | None) -> str:
    text = example("inventory-sim.yaml")
    assert text.count(_BOX) == 1
    return text if borrow is None else text.replace(_BOX, f"simulated: pcie, borrow: {borrow}}}")


def rewrite_inventory(installation: Installation, borrow: str | None) -> None:
    draft = installation.home / "inventory.new"
    draft.write_text(inventory_with(borrow))
    draft.replace(installation.home / "inventory.yaml")


def hours_around(now: datetime, begin_h: int, end_h: int) -> str:
    begins, ends = now + timedelta(hours=begin_h), now + timedelta(hours=end_h)
    return f"{begins:%H:%M}-{ends:%H:%M}"


def wait_until(installation: Installation, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + installation.patience_s
    while not condition():
        assert time.monotonic() < deadline, installation.logs()
        time.sleep(0.1)


def wait_given_back(installation: Installation, production: Production) -> None:
    wait_until(installation, lambda: production.serves and loan(installation).read() is None)


def wait_quarantined(installation: Installation) -> dict[str, object]:
    wait_until(installation, lambda: installation.host(HOST)["quarantined_at"] is not None)
    return installation.host(HOST)


def loan(installation: Installation) -> LoanFile:
    return LoanFile(installation.home / "borrowed" / f"{HOST}.json")


def give_back_process(installation: Installation, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the worker runs, and a person may."""
    command = [sys.executable, "-m", "workers.give_back", HOST]
    variables = installation.environment | environment
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)


def test_one_loan_for_two_jobs_and_production_serves_before_and_after(
    borrowed: Installation, production: Production
) -> None:
    borrowed.start_all(HOST)
    cells = ["{block_size: 8, budget: 8}", "{block_size: 8, budget: 4}"]
    points = ("{concurrency: 1, context: 60, output: 600}",)  # long enough to be seen on a busy machine
    sweep = borrowed.submit(sweep_text("two", cells=cells, points=points))
    seen = borrowed.wait_measuring(HOST)
    assert (seen["loan_state"], seen["borrow"]) == ("taken", {"hours": None, "idle_s": 1.0})
    assert f"{HOST} is borrowed at any hour: taken, out of production since " in borrowed.run("hosts").stdout
    assert not production.serves
    assert production.log == TAKEN_ONCE
    assert [job["state"] for job in borrowed.wait_final(sweep)] == ["succeeded", "succeeded"]
    wait_given_back(borrowed, production)
    assert production.log == TAKEN_ONCE + GIVEN_BACK
    again = borrowed.submit(sweep_text("again"))
    assert [job["state"] for job in borrowed.wait_final(again)] == ["succeeded"]
    wait_given_back(borrowed, production)
    assert production.log == (TAKEN_ONCE + GIVEN_BACK) * 2
    assert borrowed.host(HOST)["quarantined_at"] is None
    wait_until(borrowed, lambda: borrowed.host(HOST)["loan_state"] is None)
    assert f"{HOST} is borrowed at any hour: production has it now" in borrowed.run("hosts").stdout


def test_a_take_that_fails_costs_no_try_and_shuts_the_host(borrowed: Installation, production: Production) -> None:
    production.breaks("take", "fails")
    borrowed.start_all(HOST)
    sweep = borrowed.submit(sweep_text("untaken"))
    host = wait_quarantined(borrowed)
    assert host["quarantine_class"] == "GPU_BUSY"
    assert "take` ended with 3: cannot take now; it has been given back" in str(host["quarantine_reason"])
    (job,) = borrowed.jobs(sweep)
    assert (job["state"], job["tries"]) == ("queued", 0)
    assert production.serves
    assert "cannot take now" in borrowed.run("hosts").stdout
    production.mend()
    borrowed.run("release", HOST)
    assert [job["state"] for job in borrowed.wait_final(sweep)] == ["succeeded"]


def test_a_worker_told_to_stop_gives_back_after_its_attempt(borrowed: Installation, production: Production) -> None:
    sweep = borrowed.submit(sweep_text("stopped", points=LONG))
    _, worker = borrowed.start_all(HOST)
    borrowed.wait_measuring(HOST)
    worker.terminate()
    assert worker.wait(120) == 0
    assert production.serves
    assert production.log == TAKEN_ONCE + GIVEN_BACK
    assert borrowed.jobs(sweep)[0]["state"] == "queued"
    assert borrowed.servers(HOST) == []


def test_a_killed_workers_box_is_given_back_by_the_next_one(borrowed: Installation, production: Production) -> None:
    sweep = borrowed.submit(sweep_text("killed", points=LONG))
    dispatcher, worker = borrowed.start_all(HOST)
    row = borrowed.wait_measuring(HOST)
    dispatcher.terminate()
    dispatcher.wait()
    (attempt,) = borrowed.show(row["job_id"])["attempts"]
    worker.kill()
    os.kill(attempt["runner_pid"], signal.SIGKILL)
    worker.wait()
    assert not production.serves, "nobody is there to give it back yet"
    borrowed.start("worker", "--host", HOST)
    wait_given_back(borrowed, production)
    assert production.log == TAKEN_ONCE + GIVEN_BACK
    assert borrowed.servers(HOST) == [], "production does not start on GPUs that an orphan still uses"
    # The dead attempt is recovered on the way; where a wake-up still waited in Redis, its job has even been done since.
    borrowed.wait(sweep, lambda jobs: jobs[0]["state"] in ("queued", "succeeded"))
    borrowed.start("dispatcher")
    assert [job["state"] for job in borrowed.wait_final(sweep)] == ["succeeded"]


def test_a_worker_killed_in_the_middle_of_a_take(borrowed: Installation, production: Production) -> None:
    production.breaks("take", "hangs")
    borrowed.submit(sweep_text("half-taken"))
    dispatcher, worker = borrowed.start_all(HOST)
    wait_until(borrowed, lambda: production.log == ["begin take"])
    dispatcher.terminate()
    dispatcher.wait()
    worker.kill()
    worker.wait()
    borrowed.start("worker", "--host", HOST)
    wait_given_back(borrowed, production)
    production.mend()
    time.sleep(0.3)
    assert production.log == ["begin take", *GIVEN_BACK], "what took it has ended with its attempt"
    assert production.serves


def test_a_give_back_that_fails_is_seen_and_tried_again_by_the_next_worker_too(
    borrowed: Installation, production: Production
) -> None:
    production.breaks("give_back", "fails")
    _, worker = borrowed.start_all(HOST)
    sweep = borrowed.submit(sweep_text("kept"))
    assert [job["state"] for job in borrowed.wait_final(sweep)] == ["succeeded"]
    host = wait_quarantined(borrowed)
    assert host["quarantine_class"] == "INFRA"
    assert "the box is borrowed and could not be given back" in str(host["quarantine_reason"])
    assert "cannot give_back now" in str(host["quarantine_reason"])
    worker.terminate()
    assert worker.wait(120) == 1, "whoever stops it is told that production is still without its box"
    tries = production.log.count("begin give_back")
    assert tries >= 2, "it tried again before it left"
    borrowed.start("worker", "--host", HOST)
    wait_until(borrowed, lambda: production.log.count("begin give_back") > tries)
    production.mend()
    wait_given_back(borrowed, production)
    assert borrowed.host(HOST)["quarantined_at"] is not None, "until a person has looked"


def test_outside_its_hours_a_host_takes_no_job_and_says_so_once(borrowed: Installation, production: Production) -> None:
    borrowed.set("DDQUEUE_WAKE_AGAIN_AFTER_S", "0.5")
    now = datetime.now().astimezone()
    rewrite_inventory(borrowed, production.borrow(idle="1s", hours=hours_around(now, 2, 3)))
    borrowed.start_all(HOST)
    sweep = borrowed.submit(sweep_text("by-night"))
    wait_until(borrowed, lambda: borrowed.logs().count(f"woke {HOST} for job") >= 4)
    worker_log = (borrowed.home / f"worker-host-{HOST}-1.log").read_text()
    assert worker_log.count("takes no job: outside its hours") == 1
    (job,) = borrowed.jobs(sweep)
    assert (job["state"], borrowed.show(job["job_id"])["attempts"]) == ("queued", [])
    assert production.log == []
    rewrite_inventory(borrowed, production.borrow(idle="1s", hours=hours_around(now, -2, 3)))
    assert [job["state"] for job in borrowed.wait_final(sweep)] == ["succeeded"]
    wait_given_back(borrowed, production)


def test_an_attempt_ends_with_the_hours_and_what_it_measured_is_not_measured_again(
    borrowed: Installation, production: Production, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now().astimezone()
    rewrite_inventory(borrowed, production.borrow(idle="1h", hours=hours_around(now, -2, 3)))
    for variable, value in borrowed.environment.items():
        if variable.startswith("DDQUEUE_"):
            monkeypatch.setenv(variable, value)
    sweep = borrowed.submit(sweep_text("over", points=LONG))
    (job,) = borrowed.jobs(sweep)
    clock = [now]

    class Watching:
        def tell(self, phase: str, text: str) -> None:
            if phase == "measure" and text.endswith("repeat 2"):
                clock[0] = now + timedelta(hours=4)

    with bootstrap.attempt(HOST, Watching(), StopSignal(600.0)) as execute:
        on_time = replace(execute, borrowing=replace(execute.borrowing, now=lambda: clock[0]))
        report = on_time.run(HOST, job["job_id"], Runner(os.getpid(), start_ticks(os.getpid()) or 0, "test"))
    assert report.text == "cancelled: CANCELLED: the hours in which its host may be borrowed are over"
    (job,) = borrowed.jobs(sweep)
    assert (job["state"], job["tries"]) == ("queued", 0)
    assert borrowed.servers(HOST) == []
    assert loan(borrowed).read() is not None
    rewrite_inventory(borrowed, production.borrow(idle="1h", hours=hours_around(now, 2, 3)))
    worker = borrowed.start("worker", "--host", HOST)
    wait_given_back(borrowed, production)
    rewrite_inventory(borrowed, production.borrow(idle="1s"))
    worker.terminate()
    worker.wait(120)
    borrowed.start_all(HOST)
    assert [job["state"] for job in borrowed.wait_final(sweep)] == ["succeeded"]
    first, second = borrowed.show(job["job_id"])["attempts"]
    assert [row["repeat"] for row in first["measurements"]] == [1]
    assert {row["repeat"] for row in second["measurements"]} >= {2, 3}


def test_an_attempt_that_does_not_end_with_the_hours_is_killed(borrowed: Installation, production: Production) -> None:
    borrowed.set("DDQUEUE_PAST_HOURS_S", "1")
    sweep = borrowed.submit(sweep_text("frozen", points=LONG))
    borrowed.start_all(HOST)
    row = borrowed.wait_measuring(HOST)
    (attempt,) = borrowed.show(row["job_id"])["attempts"]
    os.kill(attempt["runner_pid"], signal.SIGSTOP)
    now = datetime.now().astimezone()
    rewrite_inventory(borrowed, production.borrow(idle="1h", hours=hours_around(now, 2, 3)))
    wait_given_back(borrowed, production)
    assert borrowed.servers(HOST) == []
    borrowed.wait(sweep, lambda jobs: jobs[0]["state"] == "queued")
    assert [one["outcome"] for one in borrowed.show(row["job_id"])["attempts"]] == ["lost"]


def test_production_does_not_stop_for_a_job_that_was_cancelled(borrowed: Installation, production: Production) -> None:
    sweep = borrowed.submit(sweep_text("cancelled"))
    (job,) = borrowed.jobs(sweep)
    borrowed.run("cancel", str(job["job_id"]))
    borrowed.start_all(HOST)
    code = (
        "from ddqueue import bootstrap; from ddqueue.queue.wakeups import CeleryWakeups;"
        "from ddqueue.domain.queueing import NextJob;"
        f"CeleryWakeups(bootstrap.celery_app()).wake(NextJob({job['job_id']}, '{HOST}', 's', 'm', 'c', 'TP8'))"
    )
    subprocess.run([sys.executable, "-c", code], env=borrowed.environment, check=True)
    wait_until(borrowed, lambda: f"job {job['job_id']} cannot be claimed now" in borrowed.logs())
    assert production.log == []


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DDQUEUE_DATABASE_URL", "postgresql://no@127.0.0.1:1/no"),
        ("DDQUEUE_INVENTORY", "/nowhere/inventory.yaml"),
    ],
)
def test_a_worker_that_cannot_start_gives_back_what_the_last_one_left(
    borrowed: Installation, production: Production, variable: str, value: str
) -> None:
    _take(borrowed, production)
    refused = borrowed.run("worker", "--host", HOST, code=None, **{variable: value})
    assert refused.returncode in (2, 3)
    assert production.serves
    assert loan(borrowed).read() is None


def test_giving_back_waits_for_whoever_owns_the_host_and_ignores_a_stop(
    borrowed: Installation, production: Production
) -> None:
    _take(borrowed, production)
    with KernelOwnership(borrowed.home / "locks").own(HOST) as lock:
        assert lock is not None
        assert give_back_process(borrowed).returncode == GaveBack.BUSY
        assert not production.serves
    production.breaks("give_back", "hangs")
    process = subprocess.Popen([sys.executable, "-m", "workers.give_back", HOST], env=borrowed.environment)
    wait_until(borrowed, lambda: production.log[-1] == "begin give_back")
    process.terminate()
    time.sleep(0.2)
    production.mend()
    assert process.wait(60) == GaveBack.DONE
    assert production.serves
    assert give_back_process(borrowed).returncode == GaveBack.DONE, "nothing is left to be done"
    assert production.log.count("begin give_back") == 1


def test_a_host_that_is_not_borrowed_is_left_as_it_is(borrowed: Installation, production: Production) -> None:
    rewrite_inventory(borrowed, None)
    _, worker = borrowed.start_all(HOST)
    sweep = borrowed.submit(sweep_text("ours"))
    assert [job["state"] for job in borrowed.wait_final(sweep)] == ["succeeded"]
    worker.terminate()
    assert worker.wait(60) == 0
    assert production.log == []
    assert not (borrowed.home / "borrowed").exists()


def _take(installation: Installation, production: Production) -> None:
    """As an attempt would leave the box between two jobs."""
    code = (
        "from ddqueue import bootstrap; from ddqueue.services.stopping import StopSignal;"
        "from workers.give_back import LogProgress;"
        f"terms = bootstrap.borrow_terms('{HOST}');"
        f"box = bootstrap.borrowing('{HOST}', terms, LogProgress(), lambda: bootstrap.sql_engine('test'));"
        "box.taken(StopSignal(60.0)).__enter__()"
    )
    subprocess.run([sys.executable, "-c", code], env=installation.environment, check=True)
    assert not production.serves
