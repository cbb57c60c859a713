"""Where the night went: the phases of each attempt, host by host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ddqueue.domain.states import AttemptOutcome
from ddqueue.report.html.blocks import Entry, Figure, Section, Table
from ddqueue.report.html.data import ReportData, Row
from ddqueue.report.html.numbers import duration
from ddqueue.report.html.plots.chart import Axis, Bar, Chart, Mark, Series, Tick
from ddqueue.report.html.plots.style import FAILED, Style

_LEAD = (
    "Every attempt from its claim to the release of its GPUs. What is not measuring is the price of a fresh server for "
    "each configuration."
)


class Kind(StrEnum):
    """What an attempt's time goes to."""

    START = "start and check the server"
    LOAD = "load weights"
    CAPTURE = "capture graphs"
    WARM_UP = "warm up"
    MEASURE = "measure"
    CODING = "coding checks"
    STOP = "stop and release"
    REST = "not recorded"
    IDLE = "idle between jobs"


_STYLES = {
    Kind.START: Style("c5"),
    Kind.LOAD: Style("c3"),
    Kind.CAPTURE: Style("c6"),
    Kind.WARM_UP: Style("c1"),
    Kind.MEASURE: Style("c0"),
    Kind.CODING: Style("c4"),
    Kind.STOP: Style("c7"),
    Kind.REST: Style("c-other"),
}
_KINDS = {
    "load weights": Kind.LOAD,
    "capture graphs": Kind.CAPTURE,
    "warm up": Kind.WARM_UP,
    "measure": Kind.MEASURE,
    "coding": Kind.CODING,
    "grade": Kind.CODING,
    "stop": Kind.STOP,
    "release": Kind.STOP,
}
_READY = "ready"
_JOINED_S = 0.5
"""Stretches of one kind with less than this between them are drawn as one."""


@dataclass(frozen=True)
class _Stretch:
    kind: Kind
    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


def timeline(data: ReportData) -> Section | None:
    """None before anything ran."""
    if not data.attempts:
        return None
    began: datetime = min(attempt["started_at"] for attempt in data.attempts)
    hosts = [host for host in data.judgement.hosts if any(attempt["host"] == host for attempt in data.attempts)]
    by_attempt = [(attempt, _stretches(attempt, began, data.made_at)) for attempt in data.attempts]
    unit_s, unit = _unit(max(stretches[-1].end_s for _, stretches in by_attempt))
    used = dict.fromkeys(stretch.kind for _, stretches in by_attempt for stretch in stretches)
    legend = [Entry(kind, _STYLES[kind], bar=True) for kind in Kind if kind in used and kind in _STYLES]
    if any(_failed(attempt) for attempt in data.attempts):
        legend.append(Entry("ended without success", FAILED))
    chart = Chart(
        title="Phases of each attempt",
        x=Axis(f"since the first attempt began ({unit})", low=0.0),
        y=Axis(
            "host",
            ticks=tuple(Tick(n, host) for n, host in enumerate(hosts)),
            low=-0.8,
            high=len(hosts) - 0.2,
            downwards=True,
        ),
        series=(Series("ended without success", FAILED, tuple(_crosses(by_attempt, hosts, unit_s))),),
        bars=tuple(_bars(by_attempt, hosts, unit_s)),
        simulated=data.simulated,
        width=1120,
        height=90 + 56 * len(hosts),
    )
    return Section(
        "timeline", "Where the time went", _LEAD, (Figure((chart,), tuple(legend)), _table(by_attempt, hosts))
    )


def _unit(longest_s: float) -> tuple[float, str]:
    return (3600.0, "hours") if longest_s > 3 * 3600 else (60.0, "minutes")


def _stretches(attempt: Row, began: datetime, now: datetime) -> list[_Stretch]:
    """The attempt's phases in order, those of one kind joined, and what no phase covers as REST."""
    start_s = (attempt["started_at"] - began).total_seconds()
    end_s = ((attempt["ended_at"] or now) - began).total_seconds()
    found: list[_Stretch] = []
    at_s = start_s
    for phase in _inner(attempt["phases"]):
        phase_start_s = max(at_s, (phase["started_at"] - began).total_seconds())
        phase_end_s = min(
            end_s, max(phase_start_s, (phase["started_at"] - began).total_seconds() + phase["duration_s"])
        )
        if phase_start_s > at_s:
            _add(found, _Stretch(Kind.REST, at_s, phase_start_s))
        _add(found, _Stretch(_KINDS.get(phase["name"], Kind.START), phase_start_s, phase_end_s))
        at_s = max(at_s, phase_end_s)
    if end_s > at_s or not found:
        _add(found, _Stretch(Kind.REST, at_s, end_s))
    return found


def _inner(phases: Iterable[Any]) -> list[Any]:
    """By time. `ready` holds the server's own start-up phases: where they are told, they stand for it."""
    ordered = sorted(phases, key=lambda phase: phase["started_at"])
    ready = [phase for phase in ordered if phase["name"] == _READY]
    inside = [
        phase
        for phase in ordered
        for outer in ready
        if phase is not outer and 0 <= (phase["started_at"] - outer["started_at"]).total_seconds() < outer["duration_s"]
    ]
    return [phase for phase in ordered if phase["name"] != _READY or not inside]


def _add(found: list[_Stretch], new: _Stretch) -> None:
    short_gap = new.kind is Kind.REST and new.length_s < _JOINED_S
    if found and (found[-1].kind is new.kind or short_gap):
        found[-1] = _Stretch(found[-1].kind, found[-1].start_s, new.end_s)
    elif new.length_s > 0 or not found:
        found.append(new)


def _bars(by_attempt: Sequence[tuple[Row, list[_Stretch]]], hosts: list[str], unit_s: float) -> Iterable[Bar]:
    for attempt, stretches in by_attempt:
        for stretch in stretches:
            tip = f"{attempt['label']} on {attempt['host']}: {stretch.kind}, {duration(stretch.length_s)}"
            lane = hosts.index(attempt["host"])
            yield Bar(stretch.start_s / unit_s, stretch.end_s / unit_s, lane, _STYLES[stretch.kind], tip)


def _crosses(by_attempt: Sequence[tuple[Row, list[_Stretch]]], hosts: list[str], unit_s: float) -> Iterable[Mark]:
    for attempt, stretches in by_attempt:
        if _failed(attempt):
            what = attempt["failure"] or attempt["outcome"]
            tip = f"{attempt['label']} on {attempt['host']}: {what}"
            yield Mark(stretches[-1].end_s / unit_s, hosts.index(attempt["host"]) - 0.42, tip)


def _failed(attempt: Row) -> bool:
    return attempt["outcome"] not in (None, AttemptOutcome.SUCCEEDED)


def _table(by_attempt: Sequence[tuple[Row, list[_Stretch]]], hosts: list[str]) -> Table:
    """One column a host."""
    spent = [_spent([stretches for attempt, stretches in by_attempt if attempt["host"] == host]) for host in hosts]
    whole_s = [sum(own.values()) for own in spent]
    rows = [
        (str(kind), *(_share(own[kind], all_s) for own, all_s in zip(spent, whole_s, strict=True)))
        for kind in Kind
        if any(own[kind] for own in spent)
    ]
    total = ("in all", *(duration(all_s) for all_s in whole_s))
    return Table("Time by phase", ("", *hosts), (*rows, total), right=frozenset(range(1, len(hosts) + 1)))


def _spent(own: list[list[_Stretch]]) -> dict[Kind, float]:
    """Seconds of each kind; what lies between attempts is idle."""
    spent = {kind: sum(one.length_s for stretches in own for one in stretches if one.kind is kind) for kind in Kind}
    whole_s = max(stretches[-1].end_s for stretches in own) - min(stretches[0].start_s for stretches in own)
    return spent | {Kind.IDLE: max(0.0, whole_s - sum(spent.values()))}


def _share(spent_s: float, whole_s: float) -> str:
    return f"{duration(spent_s)} ({spent_s / whole_s:.0%})" if spent_s and whole_s else "-"
