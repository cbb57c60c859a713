"""Goodput, where the sweep says how long its users wait."""

from __future__ import annotations

from ddqueue.report.goodput import NOTE, goodput_of
from ddqueue.report.html.blocks import Block, Cell, Section, Table, Tone
from ddqueue.report.html.data import ReportData


def goodput(data: ReportData) -> Section | None:
    """One table a host; None without limits or numbers."""
    limits = data.judgement.measure.goodput
    found = [found for host in data.judgement.hosts if (found := goodput_of(data.judgement, host)) is not None]
    if limits is None or not found:
        return None
    tables: list[Block] = [
        Table(
            one.title[:1].upper() + one.title[1:],
            one.grid.heads,
            tuple((Cell(name, Tone.STRONG), *texts) for name, *texts in one.grid.rows),
            right=one.grid.right,
        )
        for one in found
    ]
    return Section("goodput", f"Goodput: {limits.words}", f"In {NOTE}.", tuple(tables))
