"""The commands that take a box from production and give it back: how they end, and what is kept of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ddqueue.domain.borrowing import RunningCommand
from ddqueue.gpu.host_commands import ProcessCommands
from ddqueue.processes import is_alive, start_ticks
from ddqueue.services.stopping import AttemptStopped, StopReason

PATIENCE_S = 60.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def run(*words: str, limit_s: float = PATIENCE_S, **more: Callable[..., None]) -> tuple[str, str]:
    calls: dict[str, Callable[..., None]] = {"should_stop": lambda: None, "started": lambda command: None, **more}
    end = ProcessCommands().run(words, limit_s, **calls)
    return end.problem, end.said


@pytest.mark.parametrize(
    ("words", "problem", "said"),
    [
        (("echo", "a  b", "$HOME"), "", "a  b $HOME\n"),
        (("bash", "-c", "echo out; echo err >&2; exit 7"), "ended with 7", "out\nerr\n"),
        (("no-such-command",), "ended with 127", "no-such-command: No such file or directory"),
        (("bash", "-c", "kill -9 $$"), "was killed by SIGKILL", ""),
        (("cat",), "", ""),
    ],
)
def test_how_a_command_ends_and_what_it_said(words: tuple[str, ...], problem: str, said: str) -> None:
    assert run(*words) == (problem, said)


def test_a_command_gets_neither_our_secrets_nor_what_we_ignore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDQUEUE_DATABASE_URL", "postgresql://u:secret@h/d")
    monkeypatch.setenv("SERVING_UNIT", "kimi")
    earlier = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        problem, said = run(
            "bash", "-c", 'echo "${DDQUEUE_DATABASE_URL-none} $SERVING_UNIT"; grep SigIgn /proc/$$/status'
        )
    finally:
        signal.signal(signal.SIGHUP, earlier)
    assert problem == ""
    assert said.splitlines()[0] == "none kimi"
    assert int(said.split()[-1], 16) & 1 == 0, "SIGHUP ends it, as it would in a shell"


def test_of_endless_output_the_end_is_kept() -> None:
    problem, said = run("bash", "-c", "for i in $(seq 100000); do echo line $i; done; exit 1")
    assert problem == "ended with 1"
    assert said.endswith("line 99999\nline 100000\n")
    assert len(said) == 2000


def test_past_its_limit_a_command_is_ended() -> None:
    pids: list[RunningCommand] = []
    problem, _ = run("sleep", "1000", limit_s=0.2, started=pids.append)
    assert problem == "did not end within 0.2 s and was killed"
    assert not is_alive(pids[0].pid, pids[0].start_ticks)


def test_whoever_wants_to_stop_ends_a_command_that_ignores_it_and_its_children(tmp_path: Path) -> None:
    pids: list[RunningCommand] = []
    note = tmp_path / "child"
    child: list[tuple[int, int]] = []

    def stop_once_it_has_a_child() -> None:
        if note.exists() and note.read_text().endswith("\n"):
            pid = int(note.read_text())
            child.append((pid, start_ticks(pid) or 0))
            raise AttemptStopped(StopReason.WORKER)

    script = f"trap '' TERM; sleep 1000 & echo $! > {note}; wait"
    with pytest.raises(AttemptStopped):
        run("bash", "-c", script, should_stop=stop_once_it_has_a_child, started=pids.append)
    assert not is_alive(pids[0].pid, pids[0].start_ticks)
    wait_until(lambda: not is_alive(*child[0]))


def test_what_a_command_leaves_behind_lives_on_and_is_not_waited_for(tmp_path: Path) -> None:
    problem, said = run("bash", "-c", "sleep 1000 & echo $!")
    child = int(said)
    try:
        assert problem == ""
        assert start_ticks(child) is not None, "it may be production"
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_command_that_cannot_be_noted_does_not_run(tmp_path: Path) -> None:
    def full(command: RunningCommand) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        run("touch", str(tmp_path / "ran"), started=full)
    assert not (tmp_path / "ran").exists()
