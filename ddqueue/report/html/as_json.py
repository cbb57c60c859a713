"""The report for programs: the results' own document, and each section with its tables and its plots' numbers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ddqueue.report.html.blocks import Block, Document, Figure, Folded, Items, Listing, Table, Words
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.plots.chart import Chart
from ddqueue.report.results_document import results_document


def as_json(data: ReportData, document: Document) -> dict[str, Any]:
    """`results` is what `ddqueue results --format json` prints: numbers unrounded, with units in their names. The
    sections hold tables as texts, plots as numbers in the unit that their axis names."""
    return {
        "report": document.title,
        "mark": document.mark,
        "hypothesis": document.hypothesis,
        "facts": dict(document.facts),
        "made_at": data.made_at.isoformat(),
        "ddqueue": data.version,
        "results": results_document(data.judged.reference, data.judgement),
        "sections": [
            {
                "key": section.key,
                "title": section.title,
                "lead": section.lead,
                "blocks": [_block(block) for block in section.blocks],
            }
            for section in document.sections
        ],
    }


def _block(block: Block) -> dict[str, Any]:
    match block:
        case Words():
            return {"kind": "words", "text": block.text}
        case Items():
            return {"kind": "items", "items": list(block.items)}
        case Table():
            rows = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in block.rows]
            return {
                "kind": "table",
                "caption": block.caption,
                "heads": list(block.heads),
                "rows": rows,
                "notes": list(block.notes),
            }
        case Figure():
            return {"kind": "plots", "plots": [_chart(chart) for chart in block.charts], "notes": list(block.notes)}
        case Listing():
            return {"kind": "listing", "caption": block.caption, "text": block.text}
        case Folded():
            return {"kind": "details", "summary": block.summary, "blocks": [_block(inner) for inner in block.blocks]}


def _chart(chart: Chart) -> dict[str, Any]:
    return {
        "title": chart.title,
        "simulated": chart.simulated,
        "x": chart.x.label,
        "y": chart.y.label,
        "categories": [tick.text for tick in chart.y.ticks],
        "series": [
            {"name": one.name, "marks": [{"x": mark.x, "y": mark.y, **_bounds(asdict(mark))} for mark in one.marks]}
            for one in chart.series
        ],
        "bars": [{"start": bar.start, "end": bar.end, "lane": bar.lane, "text": bar.tip} for bar in chart.bars],
    }


def _bounds(mark: dict[str, Any]) -> dict[str, Any]:
    return {name: list(mark[name]) for name in ("x_bounds", "y_bounds") if mark[name] is not None} | {
        "text": mark["tip"]
    }
