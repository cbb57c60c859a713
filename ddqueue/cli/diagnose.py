"""`ddqueue diagnose LOGFILE`: why did this server die? Needs no database and no inventory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from ddqueue.cli.output import duration, print_json, print_table
from ddqueue.domain.failures import POLICIES, FailurePolicy, Scope
from ddqueue.engine.diagnosis import Diagnosis, diagnose, from_lines, of_silence, was_asked_to_stop
from ddqueue.engine.logs import LogReader, LogText, Progress
from ddqueue.engine.phases import SERVING, PhaseBegin
from ddqueue.errors import UsageError

_CHUNK_BYTES = 1 << 16
_LONG_MIB = 32
"""Takes seconds to read."""

_SCOPES: dict[Scope, str] = {
    Scope.CONFIGURATION: "the configuration is to blame: the same one fails again",
    Scope.HOST: "the box is to blame, not the configuration",
    Scope.TRANSIENT: "may pass by itself",
    Scope.PERSON: "somebody asked for it",
}


class Verdict(StrEnum):
    """What a log shows."""

    HEALTHY = "healthy"
    """It reached serving, and nothing failed."""
    FAILED = "failed"
    UNFINISHED = "unfinished"
    """It ends before the server was ready, and nothing in it failed: killed without a word, or hanging still."""


@dataclass(frozen=True)
class _Case:
    """One explained log. `line` is the deciding line's number. For an unfinished one, `found` says what its silence
    is called if the server still lives."""

    verdict: Verdict
    progress: Progress
    phases: list[PhaseBegin]
    ended_at: datetime | None
    warnings: list[str]
    found: Diagnosis | None = None
    line: int | None = None


@click.command("diagnose")
@click.argument("logfile", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--exit-code", type=int, help="How the server's process ended: 1, or -9 or 137 for a signal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diagnose_command(logfile: Path, exit_code: int | None, as_json: bool) -> None:
    """Say why the SGLang server died that wrote LOGFILE (- for standard input).

    Exit code 0: it reached serving and nothing failed; 1: it failed, or did not get that far; 2: no such file.
    """
    case = _explain(_read(logfile), exit_code)
    if as_json:
        print_json(_to_json(case, logfile, exit_code))
    else:
        _print(case, logfile)
    if case.verdict is not Verdict.HEALTHY:
        sys.exit(1)


def _read(logfile: Path) -> LogText:
    if str(logfile) == "-":
        text = LogText()
        while data := sys.stdin.buffer.read(_CHUNK_BYTES):
            text.feed(data)
        return text
    if not logfile.exists():
        raise UsageError(f"{logfile}: no such file; `ddqueue show JOB` says where a job's log is")
    if not logfile.is_file():
        raise UsageError(f"{logfile}: not a file; name the log itself")
    reader = LogReader(logfile)
    try:
        size_mib = logfile.stat().st_size >> 20
        if size_mib >= _LONG_MIB:
            click.echo(f"reading {size_mib} MiB ...", err=True)
        reader.read()
    except OSError as error:
        raise UsageError(f"{logfile}: cannot be read: {error.strerror or error}") from error
    return reader


def _explain(text: LogText, exit_code: int | None) -> _Case:
    lines, progress = text.telling_lines, text.progress
    telling = [line.text for line in lines]
    phase = progress.phase
    is_bad_end = exit_code not in (None, 0) and not was_asked_to_stop(telling)
    found = diagnose(telling, phase, exit_code) if is_bad_end else from_lines(telling, phase)
    verdict = Verdict.FAILED
    if found is None and phase == SERVING:
        verdict = Verdict.HEALTHY
    elif found is None:
        # A traceback of a server that never got ready is its end, even if only the log's own end says so.
        ended = diagnose(telling, phase, exit_code)
        verdict = Verdict.UNFINISHED if ended.index is None else Verdict.FAILED
        found = ended if ended.index is not None else Diagnosis(of_silence(progress), telling[-1] if telling else "")
    place = found.index if found is not None else None
    return _Case(
        verdict,
        progress,
        text.phases,
        text.last_at,
        text.notable,
        found,
        lines[place].number if place is not None else None,
    )


def _print(case: _Case, logfile: Path) -> None:
    found = case.found
    if found is None:
        click.echo(click.style("healthy: ", fg="green", bold=True) + "reached serving, nothing failed")
    elif case.verdict is Verdict.UNFINISHED:
        where = f"{case.progress.phase} {case.progress.text}".strip()
        click.echo(click.style("unfinished: ", fg="yellow", bold=True) + f"the log ends in '{where}', nothing failed")
        _print_fields(
            {
                "last line": found.evidence.strip() or "the log is empty",
                "meaning": f"{found.failure} if the server still lives; if it ended, say how with --exit-code",
                "remedy": POLICIES[found.failure].remedy,
            }
        )
    else:
        policy = POLICIES[found.failure]
        click.echo(click.style(found.failure, fg="red", bold=True) + f" ({policy.scope}), in '{case.progress.phase}'")
        _print_fields(
            {
                "because": found.evidence,
                "where": f"{logfile}:{case.line}" if case.line is not None else "the end of the log",
                "meaning": _SCOPES[policy.scope],
                "retry": _retry(found, policy),
                "remedy": policy.remedy,
            }
        )
    click.echo()
    print_table("Phases", ["phase", "began", "took"], _phase_rows(case))
    if case.warnings:
        click.echo(click.style("\nThe engine's own warnings", bold=True))
        for warning in case.warnings:
            click.echo(f"  {warning}")


def _print_fields(fields: dict[str, str]) -> None:
    for name, value in fields.items():
        click.echo(f"  {name:9}  {value}")


def _retry(found: Diagnosis, policy: FailurePolicy) -> str:
    if policy.scope is Scope.HOST:
        return "back into the queue without losing a try; the host is quarantined"
    if found.transient:
        return "never by itself, but a fetch like this may pass: `ddqueue retry` later"
    return "never" if policy.tries == 1 else f"up to {policy.tries} tries in all, with back-off"


def _phase_rows(case: _Case) -> list[list[str]]:
    ends = [one.at for one in case.phases[1:]] + [case.ended_at]
    return [
        [
            one.phase,
            f"{one.at:%Y-%m-%d %H:%M:%S}" if one.at else "-",
            duration((end - one.at).total_seconds()) if one.at and end else "-",
        ]
        for one, end in zip(case.phases, ends, strict=True)
    ]


def _to_json(case: _Case, logfile: Path, exit_code: int | None) -> dict[str, Any]:
    found = case.found
    policy = POLICIES[found.failure] if found is not None else None
    failed = case.verdict is Verdict.FAILED
    return {
        "log": str(logfile),
        "exit_code": exit_code,
        "verdict": case.verdict,
        "failure": found.failure if found is not None and failed else None,
        "failure_if_alive": found.failure if found is not None and not failed else None,
        "scope": policy.scope if policy else None,
        "meaning": _SCOPES[policy.scope] if policy else None,
        "evidence": found.evidence if found is not None else None,
        "line": case.line,
        "transient": found.transient if found is not None else False,
        "tries": policy.tries if policy else None,
        "remedy": policy.remedy if policy else None,
        "phase": case.progress.phase,
        "progress": case.progress.text,
        "phases": [{"phase": one.phase, "began": one.at} for one in case.phases],
        "ended": case.ended_at,
        "warnings": case.warnings,
    }
