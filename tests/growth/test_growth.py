"""A short run of the whole program finds that nothing grew, and grown looks are noticed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .look import (
    CACHES,
    DISPATCHER,
    LOGS,
    OTHERS_SHARED_MEMORY,
    PROCESSES,
    SESSIONS,
    SHARED_MEMORY,
    SPARE,
    TEMPORARY,
    WORKER,
    Look,
    Size,
    size,
)
from .run import Finished
from .verdict import grown

CHECKOUT = Path(__file__).parents[2]
JUDGED = ("processes", "temporary", "sessions", "redis keys", "home: journal", "home: locks", "home: sim", LOGS)


LEAKING = Path(__file__).parent / "leaking"


def run_program(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program itself has a /dev/shm of its own where it may: tests beside this one do not count."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DDQUEUE_")}
    return subprocess.run(
        [sys.executable, "-m", "tests.growth", *options],
        cwd=CHECKOUT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_twelve_jobs_and_some_idle_seconds_leave_nothing(tmp_path: Path) -> None:
    told = tmp_path / "looks.json"
    done = run_program("--jobs", "12", "--warm-up", "4", "--every", "4", "--idle-s", "5", "--json", str(told))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    seen: dict[str, Any] = json.loads(told.read_text())
    warm, *later = seen["looks"]
    assert [look["jobs"] for look in seen["looks"]] == [4, 8, 12, 12]
    assert warm["counts"][PROCESSES] == 3, "the worker, its spare attempt and the dispatcher"
    assert warm["sizes"].keys() == {WORKER, SPARE, DISPATCHER}
    for look in later:
        assert {name: look["counts"][name] for name in JUDGED} == {name: warm["counts"][name] for name in JUDGED}
        for name, first in warm["sizes"].items():
            assert look["sizes"][name]["descriptors"] == first["descriptors"]
            assert look["sizes"][name]["threads"] == first["threads"]
            assert look["sizes"][name]["rss_kib"] <= 1.1 * first["rss_kib"]
    assert {seen["ended"]["counts"][name] for name in (PROCESSES, TEMPORARY, SESSIONS)} == {0}
    if os.geteuid() == 0:
        assert seen["ended"]["counts"][SHARED_MEMORY] == 0


def test_a_worker_that_leaks_is_found() -> None:
    path = os.pathsep.join([str(LEAKING), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run_program("--jobs", "4", "--warm-up", "2", "--every", "2", "--idle-s", "0", PYTHONPATH=path)
    assert done.returncode == 1, f"{done.stdout}\n{done.stderr[-4000:]}"
    grew = re.findall(r"^  4 jobs: (.+) from (\d+) to (\d+)$", done.stdout, re.MULTILINE)
    more = {name: int(last) - int(first) for name, first, last in grew}
    assert more == {"worker descriptors": 2, "temporary": 2}, "one process a job: the spare that takes the next order"
    assert re.search(r"^  ended: temporary 0 before and \d+ after$", done.stdout, re.MULTILINE)


WARM = Look(
    label="10 jobs: warm",
    jobs=10,
    at_s=30.0,
    sizes={WORKER: Size(80_000, 60_000, 20, 4), DISPATCHER: Size(70_000, 55_000, 5, 2)},
    counts={PROCESSES: 2, TEMPORARY: 0, SHARED_MEMORY: 1, SESSIONS: 2, LOGS: 0, CACHES: 3},
    redis_kib=1600,
)
NOTHING = replace(WARM, label="nothing runs", sizes={}, counts=dict.fromkeys(WARM.counts, 0))
LATER = replace(WARM, label="30 jobs", jobs=30)
ENDED = replace(NOTHING, label="ended")


def judged(look: Look = LATER, ended: Look = ENDED) -> list[str]:
    return grown(Finished(NOTHING, NOTHING, (WARM, look), ended))


def resized(name: str, **changes: int) -> Look:
    return replace(LATER, sizes={**LATER.sizes, name: replace(LATER.sizes[name], **changes)})


def counted(look: Look, **changes: int) -> Look:
    return replace(look, counts={**look.counts, **changes})


def test_equal_and_shrinking_looks_have_not_grown() -> None:
    assert judged() == []
    assert judged(resized(WORKER, rss_kib=88_000, pss_kib=90_000, descriptors=19, threads=3)) == []
    assert judged(counted(LATER, **{PROCESSES: 1, CACHES: 9, OTHERS_SHARED_MEMORY: 7})) == []


@pytest.mark.parametrize(
    ("look", "line"),
    [
        (resized(WORKER, rss_kib=88_800), "30 jobs: worker RSS from 80000 to 88800 KiB, +11.0%"),
        (resized(DISPATCHER, descriptors=6), "30 jobs: dispatcher descriptors from 5 to 6"),
        (resized(WORKER, threads=5), "30 jobs: worker threads from 4 to 5"),
        (counted(LATER, **{PROCESSES: 3}), "30 jobs: processes from 2 to 3"),
        (counted(LATER, **{TEMPORARY: 1}), "30 jobs: temporary from 0 to 1"),
        (counted(LATER, **{LOGS: 1}), "30 jobs: logs - jobs from 0 to 1"),
        (replace(LATER, sizes={WORKER: LATER.sizes[WORKER]}), "30 jobs: the dispatcher has ended"),
        (
            replace(LATER, sizes={**LATER.sizes, SPARE: Size(1, 1, 1, 1)}),
            "30 jobs: a spare attempt that was not there after the warm-up",
        ),
    ],
)
def test_what_is_more_than_after_the_warm_up_is_named(look: Look, line: str) -> None:
    assert judged(look) == [line]


@pytest.mark.parametrize("name", [PROCESSES, TEMPORARY, SHARED_MEMORY, SESSIONS])
def test_what_the_end_leaves_is_named(name: str) -> None:
    assert judged(ended=counted(ENDED, **{name: 1})) == [f"ended: {name} 0 before and 1 after"]


def own_size() -> Size:
    found = size(os.getpid())
    assert found is not None
    return found


def test_the_kernel_shows_memory_descriptors_and_threads_of_a_process(tmp_path: Path) -> None:
    before = own_size()
    ballast = b"x" * (64 * 2**20)
    after = own_size()
    assert after.rss_kib - before.rss_kib > 48 * 1024
    assert after.pss_kib - before.pss_kib > 48 * 1024
    assert len(ballast) == 64 * 2**20

    before = own_size()
    with (tmp_path / "first").open("w"), (tmp_path / "second").open("w"):
        after = own_size()
    assert after.descriptors - before.descriptors == 2

    enough = threading.Event()
    thread = threading.Thread(target=enough.wait)
    before = own_size()
    thread.start()
    after = own_size()
    enough.set()
    thread.join()
    assert after.threads - before.threads == 1


def test_a_process_that_has_ended_has_no_size() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert size(process.pid) is None
