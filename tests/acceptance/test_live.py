"""Watching a sweep: on a terminal, in a log, until it ends; and being told of its end by a webhook."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hook_server import hook_server
from installation import PATIENCE_S, Installation, sweep_text

HOST = "sim-rtx6000"
CELLS = ["{block_size: 8, budget: 4}", "{block_size: 8, budget: 8}"]
LONG = ["{concurrency: 1, context: 4096, output: 256}"]


def test_a_log_gets_plain_lines_until_the_sweep_has_ended(installation: Installation) -> None:
    sweep = installation.submit(sweep_text("watched", cells=CELLS))
    installation.start_all(HOST)
    done = installation.run("status", sweep, "--watch")
    text = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert "\x1b" not in done.stdout
    assert re.fullmatch(r"watched@1 \(simulated\): 0/2 done, about .* left \(assumed\)", text[0])
    assert any(re.fullmatch(r"watched@1 \(simulated\): 1/2 done, about .* left \(from 1 job\)", line) for line in text)
    assert any(
        re.match(rf"{HOST} \(simulated\): \d+ watched@1 TP8 b\d+ none, (ready|measure|warm up)", line) for line in text
    )
    assert "watched@1 (simulated): 2/2 done, ended" in text[-2:]


def test_a_terminal_is_painted_over_and_interrupt_ends_the_watching_only(installation: Installation) -> None:
    sweep = installation.submit(sweep_text("painted", points=LONG))
    installation.start_all(HOST)
    installation.wait_measuring(HOST)
    shown, code = _on_terminal(installation, ["status", "--watch"], f"{HOST} (simulated)")
    assert code == 0
    assert "measure: C=1 4k" in shown
    assert re.search(r"running, (\d+%, .* left|longer than expected: .*) \(assumed\), 0 waiting", shown)
    assert "painted@1" in shown
    assert [job["state"] for job in installation.wait_final(sweep)] == ["succeeded"]


def _on_terminal(installation: Installation, arguments: list[str], until: str) -> tuple[str, int]:
    """Run on a terminal, interrupt it once `until` has been painted twice; what was painted, and the exit code."""
    ours, theirs = pty.openpty()
    environment = installation.environment | {"TERM": "xterm", "COLUMNS": "180", "LINES": "40"}
    process = subprocess.Popen(
        [sys.executable, "-m", "ddqueue", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    text, deadline, interrupted = "", time.monotonic() + PATIENCE_S, False
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([ours], [], [], 1.0)
            try:
                got = os.read(ours, 65536) if ready else b""
            except OSError:  # the other end is closed
                break
            text += got.decode()
            if text.count(until) >= 2 and not interrupted:
                process.send_signal(signal.SIGINT)
                interrupted = True
    finally:
        os.close(ours)
    return text, process.wait(60)


def test_submit_waits_and_says_how_it_ended(installation: Installation) -> None:
    installation.start_all(HOST)
    path = installation.home / "good.yaml"
    path.write_text(sweep_text("good"))
    done = installation.run("submit", str(path), "--wait", "--json")
    assert json.loads(done.stdout) == {
        "sweep": "good",
        "revision": 1,
        "sweep_id": 1,
        "jobs": 1,
        "states": {"succeeded": 1},
    }
    assert done.stderr.splitlines()[-1] == "good@1 has ended: 1 succeeded"
    path.write_text(sweep_text("bad", cells=["{block_size: 8, budget: 8, args.sim-fault: oom-load}"]))
    failed = installation.run("submit", str(path), "--wait", code=1)
    assert failed.stderr.splitlines()[-1] == "bad@1 has ended: 1 failed"


def test_interrupt_leaves_the_sweep_queued_and_says_so(installation: Installation) -> None:
    path = installation.home / "left.yaml"
    path.write_text(sweep_text("left"))
    process = installation.start("submit", path.name, "--wait")
    (log,) = installation.home.glob("submit-*.log")
    _until(lambda: "left@1 (simulated): 0/1 done" in log.read_text(), log)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "left@1 stays queued and goes on without you: ddqueue status left@1 --watch" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert [job["state"] for job in installation.jobs("left@1")] == ["queued"]


def _until(holds: Callable[[], Any], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def test_the_dispatcher_tells_the_webhook_also_one_that_fails_twice_first(installation: Installation) -> None:
    with hook_server([503, 500]) as receiver:
        sweep = installation.submit(sweep_text("told"), "--webhook", f"{receiver.url}/T0PS3CRET")
        installation.start_all(HOST)
        installation.wait_final(sweep)
        log = installation.home / "dispatcher-0.log"
        _until(lambda: len(receiver.got) >= 3 and "was taken by" in log.read_text(), log)
    assert [body["id"] for body in receiver.got] == [1, 1, 1]
    assert receiver.got[0]["text"] == "told@1 (simulated) has ended: 1 of 1 jobs succeeded"
    assert "T0PS3CRET" not in log.read_text()


def test_a_webhook_that_hangs_holds_up_no_job(installation: Installation) -> None:
    with hook_server() as receiver:
        receiver.hang.set()
        first = installation.submit(sweep_text("first"), "--webhook", receiver.url)
        installation.start_all(HOST)
        installation.wait_final(first)
        log = installation.home / "dispatcher-0.log"
        _until(lambda: receiver.got, log)
        # The receiver holds the message now, and the queue goes on.
        second = installation.submit(sweep_text("second"))
        assert [job["state"] for job in installation.wait_final(second)] == ["succeeded"]


def test_a_wrong_webhook_stores_nothing(installation: Installation) -> None:
    path = installation.home / "sweep.yaml"
    path.write_text(sweep_text("wrong"))
    refused = installation.run("submit", str(path), "--webhook", "ftp://example.org/x", code=2)
    assert refused.stderr == "ddqueue: a webhook is https or http, not ftp; write --webhook https://HOST/PATH\n"
    assert installation.json("status")["sweeps"] == []
