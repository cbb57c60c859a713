"""`ddqueue diagnose`, as a person and a program use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ddqueue.cli.diagnose import diagnose_command
from ddqueue.domain.failures import POLICIES, Failure
from ddqueue.errors import UsageError

LOGS = Path(__file__).parents[1] / "data" / "logs"
OOM = LOGS / "sglang-0.5.15" / "oom.log"
HEALTHY = LOGS / "sglang-0.5.15" / "df16.log"

KEYS = {
    *("log", "exit_code", "verdict", "failure", "failure_if_alive", "scope", "meaning", "evidence", "line"),
    *("transient", "tries", "remedy", "phase", "progress", "phases", "ended", "warnings"),
}


def as_json(*arguments: str, stdin: bytes | None = None) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(diagnose_command, [*arguments, "--json"], input=stdin)
    return result.exit_code, json.loads(result.stdout)


def test_a_failed_start_is_explained_to_a_person() -> None:
    result = CliRunner().invoke(diagnose_command, [str(OOM), "--exit-code", "-9"])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "KV_TOO_SMALL (configuration), in 'allocate KV cache'"
    assert lines[1].startswith("  because    ValueError: Loaded weights leave no GPU memory for the KV cache")
    number = next(
        number for number, line in enumerate(OOM.read_text().split("\n"), 1) if line.startswith("ValueError: Loaded")
    )
    assert lines[2] == f"  where      {OOM}:{number}"
    assert lines[3] == "  meaning    the configuration is to blame: the same one fails again"
    assert lines[4] == "  retry      never"
    assert lines[5] == f"  remedy     {POLICIES[Failure.KV_TOO_SMALL].remedy}"
    assert "init distributed   2026-11-29 11:49:48  4.0 s" in lines


@pytest.mark.parametrize("exit_code", [None, "0", "-9", "137"])
def test_a_healthy_log_is_healthy_however_the_stopped_server_ended(exit_code: str | None) -> None:
    arguments = [str(HEALTHY)] if exit_code is None else [str(HEALTHY), "--exit-code", exit_code]
    result = CliRunner().invoke(diagnose_command, arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith("healthy: reached serving, nothing failed\n")
    assert "DFLASH block size mismatch: using speculative_num_draft_tokens=16" in result.stdout


def test_the_keys_for_a_program_are_always_the_same() -> None:
    code, failed = as_json(str(OOM))
    assert (code, failed["verdict"], failed["failure"], failed["scope"]) == (
        1,
        "failed",
        "KV_TOO_SMALL",
        "configuration",
    )
    code, healthy = as_json(str(HEALTHY))
    assert (code, healthy["verdict"], healthy["failure"]) == (0, "healthy", None)
    code, unfinished = as_json(str(LOGS / "cases" / "capture-hang.log"))
    assert (code, unfinished["verdict"], unfinished["failure"]) == (1, "unfinished", None)
    assert unfinished["failure_if_alive"] == "CAPTURE_HANG"
    assert unfinished["progress"] == "4% 1/23 bs=152"
    assert set(failed) == set(healthy) == set(unfinished) == KEYS


def test_an_end_without_a_word_needs_the_exit_code() -> None:
    log = str(LOGS / "sglang-0.5.15" / "busy.log")
    code, known = as_json(log, "--exit-code", "-9")
    assert (code, known["failure"]) == (1, "SERVER_CRASHED")
    assert known["evidence"].startswith("in phase 'capture graphs', exit code -9 (SIGKILL): ")
    result = CliRunner().invoke(diagnose_command, [log])
    assert result.exit_code == 1
    assert result.stdout.startswith("unfinished: the log ends in 'capture graphs', nothing failed")


def test_killed_while_serving_is_a_crash_unless_somebody_asked() -> None:
    data = HEALTHY.read_bytes()
    code, found = as_json("-", "--exit-code", "-9", stdin=data[: data.index(b"SIGTERM received") - 30])
    assert (code, found["failure"], found["phase"]) == (1, "SERVER_CRASHED", "serving")


def test_a_traceback_is_the_end_of_a_server_that_never_got_ready() -> None:
    said = b"Traceback (most recent call last):\n  File x\nRuntimeError: out of pens\n"
    code, found = as_json("-", stdin=said)
    assert (code, found["failure"], found["line"]) == (1, "SERVER_CRASHED", 3)
    assert found["evidence"] == "in phase 'start process': RuntimeError: out of pens"


def test_a_log_from_standard_input_and_an_empty_one() -> None:
    code, found = as_json("-", stdin=OOM.read_bytes())
    assert (code, found["failure"], found["log"]) == (1, "KV_TOO_SMALL", "-")
    code, empty = as_json("-", stdin=b"")
    assert (code, empty["verdict"], empty["phase"]) == (1, "unfinished", "start process")


def test_a_fetch_that_may_pass_says_so() -> None:
    result = CliRunner().invoke(diagnose_command, [str(LOGS / "cases" / "fetch-429.log")])
    assert "never by itself, but a fetch like this may pass" in result.stdout
    assert as_json(str(LOGS / "cases" / "fetch-429.log"))[1]["transient"] is True


@pytest.mark.parametrize("name", ["no-such.log", "."])
def test_a_log_that_is_none_is_the_persons_mistake(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(diagnose_command, [str(tmp_path / name)])
    assert isinstance(result.exception, UsageError)
    assert str(tmp_path) in str(result.exception)


def test_exit_codes_of_the_whole_program(tmp_path: Path) -> None:
    for arguments, code in (([str(HEALTHY)], 0), ([str(OOM)], 1), ([str(tmp_path / "none")], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "ddqueue", "diagnose", *arguments], capture_output=True, check=False
        )
        assert done.returncode == code
        assert b"Traceback" not in done.stderr
