"""What failed, with the line that decided and what a person can do."""

from __future__ import annotations

from collections.abc import Mapping

from ddqueue.domain.failures import POLICIES, Failure
from ddqueue.domain.states import AttemptOutcome
from ddqueue.report.html.blocks import Block, Cell, Folded, Listing, Section, Table, Tone
from ddqueue.report.html.data import ReportData, Row

_LEAD = (
    "A failure is a result: its class, the line that decided, and the remedy. Numbers of a failed attempt do not count."
)
_SHORT = 160


def failures(data: ReportData) -> Section | None:
    """None when every attempt so far went well."""
    ended_badly = [one for one in data.attempts if one["outcome"] not in (None, AttemptOutcome.SUCCEEDED)]
    if not ended_badly:
        return None
    states = {row["job_id"]: str(row["state"]) for row in data.judgement.rows}
    latest: dict[int, int] = {}
    for one in data.attempts:
        latest[one["job_id"]] = max(one["number"], latest.get(one["job_id"], 0))
    rows = tuple(_row(one, _fate(one, latest, states)) for one in ended_badly)
    table = Table(
        f"{len(ended_badly)} of {len(data.attempts)} attempts did not succeed",
        ("configuration", "class", "to blame", "evidence", "became", "what to do"),
        rows,
    )
    long = [one for one in ended_badly if len(one["evidence"] or "") > _SHORT or "\n" in (one["evidence"] or "")]
    blocks: list[Block] = [table]
    if long:
        listings = tuple(Listing(f"{_name(one)} on {one['host']}: {_class(one)}", one["evidence"]) for one in long)
        blocks.append(Folded("The evidence in full", listings))
    return Section("failures", "Failures", _LEAD, tuple(blocks))


def _row(attempt: Row, fate: str) -> tuple[Cell | str, ...]:
    policy = POLICIES[Failure(attempt["failure"])] if attempt["failure"] else None
    first_line = (attempt["evidence"] or "").strip().split("\n")[0]
    return (
        Cell(_name(attempt), Tone.STRONG, (f"{attempt['host']} {attempt['parallel']}",)),
        Cell(_class(attempt), Tone.BAD),
        str(policy.scope) if policy else "",
        first_line if len(first_line) <= _SHORT else f"{first_line[: _SHORT - 3]}...",
        fate,
        policy.remedy if policy else "",
    )


def _name(attempt: Row) -> str:
    attempts = f", attempt {attempt['number']}" if attempt["number"] > 1 else ""
    visit = f", start {attempt['visit']}" if attempt["visit"] > 1 else ""
    return f"{attempt['label']}{visit}{attempts}"


def _class(attempt: Row) -> str:
    return str(attempt["failure"] or attempt["outcome"])


def _fate(attempt: Row, latest: Mapping[int, int], states: Mapping[int, str]) -> str:
    """How its job ended, or that it was tried again; `latest` is each job's last attempt, by number."""
    job_id = attempt["job_id"]
    return f"tried again, then {states[job_id]}" if attempt["number"] < latest[job_id] else states[job_id]
