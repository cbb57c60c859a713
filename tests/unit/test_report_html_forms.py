"""The report as Markdown and as JSON."""

from __future__ import annotations

import json

import pytest
from report_data import FAILING, POINTS, SweepRows

from ddqueue.report.html.as_json import as_json
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.document import document
from ddqueue.report.html.markdown import markdown


@pytest.fixture(scope="module")
def data() -> ReportData:
    return SweepRows().data()


def test_markdown_has_the_same_sections_and_tables(data: ReportData) -> None:
    made = document(data)
    text = markdown(made)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [one.title for one in made.sections]
    assert text.startswith("# trees@1\n\n**SIMULATED: software GPUs, no measurement of hardware**")
    row = next(line for line in text.splitlines() if line.startswith("| 32 users, long context |"))
    assert [cell.strip() for cell in row.strip("|").split("|")][1:3] == ["C=32 4k", "b4 t4 w2048"]
    assert text.rstrip().endswith("Made by ddqueue 0.0 at 2026-11-30 10:00 UTC.")


def test_markdown_lets_nothing_out_of_its_place() -> None:
    rows = SweepRows()
    rows.hypothesis = "<b>bold</b> | *stars* [link](x)\n# head"
    rows.file_text = "name: x\n```\n# not a head\n````\n"
    text = markdown(document(rows.data()))
    assert "\\<b\\>bold\\</b\\> | \\*stars\\* \\[link\\](x)\\\\n# head" in text
    assert "\n`````\nname: x\n```\n# not a head\n````\n`````\n" in text


def test_json_holds_the_numbers_that_the_plots_show(data: ReportData) -> None:
    found = json.loads(json.dumps(as_json(data, document(data)), allow_nan=False))
    assert (found["report"], found["mark"][:9], found["ddqueue"]) == ("trees@1", "SIMULATED", "0.0")
    sections = {section["key"]: section for section in found["sections"]}
    (plots,) = sections["budget"]["blocks"]
    assert len(plots["plots"]) == len(POINTS)
    first = plots["plots"][0]
    assert (first["x"], first["y"], first["simulated"]) == ("tree budget (nodes)", "all users (output tokens/s)", True)
    rtx = next(one for one in first["series"] if one["name"].startswith("rtx EP8, block 8, window 2048"))
    assert [mark["x"] for mark in rtx["marks"]] == [4, 6, 8, 16]
    b4 = next(
        job
        for job in found["results"]["jobs"]
        if (job["host"], job["label"], job["visit"]) == ("rtx", "b4 t4 w2048", 1)
    )
    assert rtx["marks"][0]["y"] == pytest.approx(b4["points"][0]["mean_tok_s"])
    low, high = rtx["marks"][0]["y_bounds"]
    assert low < rtx["marks"][0]["y"] < high
    bars = sections["timeline"]["blocks"][0]["plots"][0]["bars"]
    assert {bar["lane"] for bar in bars} == {0, 1}
    assert all(bar["start"] <= bar["end"] for bar in bars)
    assert sections["failures"]["blocks"][0]["rows"][0][0] == FAILING
