"""The report as a document: its head, and its sections in the order in which they are read."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from ddqueue.domain.states import JobState
from ddqueue.report.html.blocks import Document, Section
from ddqueue.report.html.cell_styles import cell_styles
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.numbers import duration
from ddqueue.report.html.sections.answers import answers
from ddqueue.report.html.sections.break_even import break_even
from ddqueue.report.html.sections.budget import budget
from ddqueue.report.html.sections.coding import coding
from ddqueue.report.html.sections.depth import depth
from ddqueue.report.html.sections.failures import failures
from ddqueue.report.html.sections.goodput import goodput
from ddqueue.report.html.sections.noise import noise
from ddqueue.report.html.sections.outcome import outcome
from ddqueue.report.html.sections.pairs import pairs
from ddqueue.report.html.sections.pareto import pareto
from ddqueue.report.html.sections.provenance import provenance, source
from ddqueue.report.html.sections.table import table
from ddqueue.report.html.sections.telemetry import telemetry
from ddqueue.report.html.sections.timeline import timeline


def document(data: ReportData) -> Document:
    """Answers first, then the evidence, then what it was measured on. A section without data is left out."""
    styles = cell_styles(data)
    sections: tuple[Section | None, ...] = (
        answers(data),
        outcome(data),
        table(data),
        goodput(data),
        pareto(data, styles),
        pairs(data),
        budget(data),
        depth(data, styles),
        break_even(data),
        coding(data),
        failures(data),
        noise(data),
        timeline(data),
        telemetry(data),
        provenance(data),
        source(data),
    )
    mark, is_real = _mark(data)
    return Document(
        title=data.judged.reference,
        mark=mark,
        is_real=is_real,
        hypothesis=data.sweep["hypothesis"],
        facts=_facts(data),
        sections=tuple(section for section in sections if section is not None),
        footer=f"Made by ddqueue {data.version} at {_moment(data.made_at)}.",
    )


def _mark(data: ReportData) -> tuple[str, bool]:
    if data.sweep["imported"]:
        return "BY HAND: measured outside ddqueue and imported", False
    simulated = [row["simulated"] for row in data.judgement.rows]
    if all(simulated):
        return "SIMULATED: software GPUs, no measurement of hardware", False
    if any(simulated):
        return "PARTLY SIMULATED: some rows are no measurement of hardware", False
    return "REAL: measured on hardware", True


def _facts(data: ReportData) -> tuple[tuple[str, str], ...]:
    sweep, rows = data.sweep, data.judgement.rows
    states = Counter(row["state"] for row in rows)
    jobs = ", ".join(f"{states[state]} {state}" for state in JobState if states[state])
    hosts = ", ".join(f"{host['name']} ({host['gpus']} x {host['gpu_kind']})" for host in data.hosts)
    facts = [("model", sweep["model"]), ("engine", sweep["engine"]), ("hosts", hosts), ("jobs", jobs)]
    if sweep["imported"]:
        said = (f"{name.replace('_', ' ')} {value}" for name, value in sweep["imported"].items() if value)
        facts.append(("imported", ", ".join(said)))
    if sweep["began_at"] is not None:
        is_over = all(row["state"] not in (JobState.QUEUED, JobState.RUNNING) for row in rows)
        until = sweep["ended_at"] if is_over and sweep["ended_at"] else data.made_at
        took = duration((until - sweep["began_at"]).total_seconds())
        facts.append(("when", f"{_moment(sweep['began_at'])}, {took}{'' if is_over else ' so far'}"))
    return tuple(facts)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M %Z}".strip()
