"""The page: what it says, that it needs nothing else, and that nothing stored becomes markup."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from report_data import BEYOND, FAILING, POINTS, WRONG, SweepRows

from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.report.html.blocks import Document, Figure, Items, Table, Words
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.document import document
from ddqueue.report.html.elements import element, escaped
from ddqueue.report.html.page import page
from ddqueue.report.judgement import judge_sweep

VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})


class _Parsed(HTMLParser):
    """Every element with its attributes, and the texts; fails on a tag that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"<{tag}/> means nothing in HTML")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture(scope="module")
def whole() -> Document:
    return document(SweepRows().data())


def _table(made: Document, key: str, caption: str) -> dict[str, list[str]]:
    """A section's table by its first column."""
    blocks = next(section.blocks for section in made.sections if section.key == key)
    found = next(block for block in blocks if isinstance(block, Table) and caption in block.caption)
    rows = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in found.rows]
    return {row[0]: row[1:] for row in rows}


def _sentences(made: Document, key: str) -> list[str]:
    blocks = next(section.blocks for section in made.sections if section.key == key)
    items = [item for block in blocks if isinstance(block, Items) for item in block.items]
    return [*items, *(block.text for block in blocks if isinstance(block, Words))]


def test_sections_stand_in_the_order_in_which_they_are_asked_for(whole: Document) -> None:
    assert [section.key for section in whole.sections] == [
        "answers",
        "outcome",
        "table",
        "pareto",
        "pairs",
        "budget",
        "depth",
        "break-even",
        "coding",
        "failures",
        "noise",
        "timeline",
        "telemetry",
        "provenance",
        "sweep-file",
    ]


def test_the_page_needs_nothing_else_and_is_well_formed(whole: Document) -> None:
    text = page(whole)
    parsed = _Parsed(text)
    tags = Counter(tag for tag, _ in parsed.elements)
    assert not {"script", "link", "img", "iframe", "object", "image", "use"} & set(tags)
    assert not re.search(r"https?:|url\(|@import|javascript:", text)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [attributes["href"] for tag, attributes in parsed.elements if tag == "a"]
    assert targets
    assert {target and target.removeprefix("#") for target in targets} <= set(ids)
    assert ("meta", {"charset": "utf-8"}) in parsed.elements
    assert tags["h1"] == 1
    policies = [one["content"] for tag, one in parsed.elements if one.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_every_plot_has_title_axes_with_units_and_the_simulated_mark(whole: Document) -> None:
    figures = [block for section in whole.sections for block in section.blocks if isinstance(block, Figure)]
    charts = [chart for figure in figures for chart in figure.charts]
    assert len(charts) > 15
    for chart in charts:
        assert chart.title
        assert chart.simulated
        for axis in (chart.x, chart.y):
            assert axis.ticks or "(" in axis.label, f"{chart.title}: {axis.label} has neither a unit nor names"
    for figure in figures:
        assert figure.legend
    text = page(whole)
    assert text.count('class="simulated"') == len(charts) == text.count('class="plot"')


def test_a_real_sweep_says_so_and_has_no_simulated_mark_anywhere() -> None:
    made = document(SweepRows(simulated=False).data())
    assert (made.mark, made.is_real) == ("REAL: measured on hardware", True)
    body = page(made).partition("</head>")[2]
    assert "imulated" not in body


def test_what_came_of_the_hypothesis_is_drawn_from_the_comparisons(whole: Document) -> None:
    said = _sentences(whole, "outcome")
    # The formula: trees double the speed, small ones win under load, large ones alone, and the window does nothing.
    assert sum("the best tree is faster than no speculation at C=1 60 (+1" in one for one in said) == 2
    sizes = [one for one in said if "b4 t4 w2048 is faster than b16 t4 w2048" in one]
    assert len(sizes) == 2
    for one in sizes:
        smaller, larger = one.split("; ")
        assert "C=32 60" in smaller
        assert "C=32 4k" in smaller
        assert larger.startswith("b16 t4 w2048 is faster than b4 t4 w2048 at C=1 60")
    windows = "b8 t4 w2048 against b8 t4 none is within noise at C=1 60, C=1 4k, C=32 60 and C=32 4k"
    assert said.count(windows) == 2
    assert (
        sum(f"{BEYOND}: out of distribution: it ran, and acceptance collapses at depth 8" in one for one in said) == 2
    )
    assert "Simulated: this shows what ddqueue does, and says nothing about any GPU." in said


def test_without_a_second_visit_nothing_is_called_beyond_noise() -> None:
    made = document(SweepRows(control_visits=1).data())
    said = _sentences(made, "outcome")
    assert any(one.startswith("No cell was visited twice") for one in said)
    for row in _rows(made, "answers"):
        assert "beyond noise" not in row[-1]
    assert any("noise floor is unknown" in one for one in _sentences(made, "noise"))


def test_noise_is_said_to_be_noise() -> None:
    made = document(SweepRows(noise=0.6).data())
    verdicts = [row[-1] for row in _rows(made, "answers")]
    assert sum(verdict.startswith(("within noise", "too few")) for verdict in verdicts) >= 6, verdicts


def _rows(made: Document, key: str) -> list[list[str]]:
    blocks = next(section.blocks for section in made.sections if section.key == key)
    tables = [block for block in blocks if isinstance(block, Table)]
    return [[cell if isinstance(cell, str) else cell.text for cell in row] for table in tables for row in table.rows]


def test_goodput_has_a_section_where_the_sweep_sets_limits(whole: Document) -> None:
    assert "goodput" not in [section.key for section in whole.sections]
    rows = SweepRows()
    data = rows.data()
    for point in (point for row in rows.results for point in row["points"] or ()):
        point |= {"goodput_requests_s": 0.5, "goodput_output_tok_s": point["mean_tok_s"] / 4}
    limited = replace(data.judgement.measure, goodput=LatencyLimits(ttft_ms=2000, tpot_ms=50))
    judged = replace(data.judged, judgement=judge_sweep(rows.results, rows.repeats, limited))
    made = document(replace(data, judged=judged))
    section = next(section for section in made.sections if section.key == "goodput")
    assert section.title == "Goodput: TTFT ≤ 2000 ms and TPOT ≤ 50 ms"
    table = _table(made, "goodput", "Goodput on rtx")
    assert table["b8 t4 w2048"] == ["0.50/s (25%)"] * len(POINTS)
    assert FAILING not in table


def test_the_answer_is_said_in_a_sentence_first(whole: Document) -> None:
    first, *_ = next(section.blocks for section in whole.sections if section.key == "answers")
    assert isinstance(first, Items)
    takes = "take b16 t4 w2048 for one user; b4 t4 w2048 for 32 users. Every lead is more than noise."
    assert first.items == (f"rtx: {takes}", f"b300: {takes}")
    assert any(text.startswith("Names: b16 t4 w2048 is a draft tree") for text in _sentences(whole, "answers"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (SweepRows(noise=0.6), "the runner-up may be as fast."),
        (SweepRows(control_visits=1), "No lead is shown to be more than noise: the runner-up may be as fast."),
    ],
)
def test_a_lead_that_is_not_shown_is_not_called_one(rows: SweepRows, said: str) -> None:
    items = _sentences(document(rows.data()), "answers")
    assert all(one.endswith(said) for one in items[: len(rows.hosts)])


def test_the_answer_names_winner_runner_up_margin_and_what_to_make_of_it(whole: Document) -> None:
    answers = _table(whole, "answers", "fastest on rtx, of the 5 configurations ranked out of 8")
    point, winner, speed, against, runner_up, margin, real = answers["32 users, long context"]
    assert (point, winner) == ("C=32 4k", "b4 t4 w2048")
    assert runner_up.startswith("b8 t4")
    assert margin.startswith("+2")
    assert "±" in margin
    assert real.startswith("beyond noise, floor ")
    assert against == "1.75x"
    assert answers["one user, short"][1] == "b16 t4 w2048"
    # The same figure as in the table of all configurations.
    assert _table(whole, "table", "rtx, EP8")["b4 t4 w2048"][4] == speed


def test_the_table_says_why_a_configuration_is_not_ranked(whole: Document) -> None:
    table = _table(whole, "table", "rtx, EP8")
    assert {name: row[0][:3].strip() for name, row in table.items()} == {
        "baseline": "yes",
        "b4 t4 w2048": "yes",
        "b8 t4 w2048": "yes",
        "b8 t4 none": "yes",
        "b16 t4 w2048": "yes",
        BEYOND: "no",
        WRONG: "no",
        FAILING: "no",
    }
    assert table[FAILING][1] == "failed: OOM_CAPTURE"
    assert table[WRONG][-2] == "0/8 at C=8 *"
    text = _Parsed(page(whole)).text
    assert "not ranked (CORRECTNESS_DROP): coding under C=8: 0 of 8" in text


def test_pairs_break_even_coding_failures_and_time(whole: Document) -> None:
    # The second box is twice as fast, and accepts the same.
    ratios = _table(whole, "pairs", "b300 TP8 / rtx EP8")
    assert float(ratios["b4 t4 w2048"][0].split(" ")[0]) == pytest.approx(2.0, abs=0.05)
    assert ratios["b4 t4 w2048"][-1] == "yes"
    assert "Acceptance agrees between the boxes, within chance, for all 6 configurations that speculate." in _sentences(
        whole, "pairs"
    )
    margins = _table(whole, "break-even", "Margin on rtx EP8")
    assert margins["b4 t4 w2048"][0].startswith("+")
    assert margins[BEYOND][2].startswith("-")
    assert _table(whole, "coding", "rtx EP8 at C=8, problem by problem")[WRONG] == ["0/4", "0/4"]
    (failed, *_) = _rows(whole, "failures")
    assert failed[:4] == [FAILING, "OOM_CAPTURE", "configuration", "CUDA out of memory at capture"]
    assert "lower args.mem-fraction-static" in failed[-1]
    assert "rank 3: tried to allocate 448 MiB" in _Parsed(page(whole)).text
    spent = _table(whole, "timeline", "Time by phase")
    # 12 attempts of 10 minutes, the failed one but a minute, and half a minute between any two.
    assert spent["in all"] == ["1 h 56 min"] * 2
    assert spent["measure"] == ["1 h 13 min (63%)"] * 2
    assert spent["idle between jobs"] == ["5 min 30 s (5%)"] * 2


def _judged_anew(rows: SweepRows, data: ReportData, results: list[dict[str, Any]]) -> ReportData:
    """The report of other rows than those it was made with."""
    judgement = judge_sweep(results, rows.repeats, data.judgement.measure)
    return replace(data, judged=replace(data.judged, judgement=judgement))


def test_acceptance_that_differs_between_boxes_is_an_alarm() -> None:
    rows = SweepRows()
    data = rows.data()
    for number, repeat in enumerate(rows.repeats):
        if repeat["acceptance_length"] is not None:
            off = repeat["host"] == "b300" and repeat["cell_hash"] == "hash-b8 t4 w2048"
            repeat["acceptance_length"] += 0.001 * (number % 7) - (0.8 if off else 0.0)
    made = document(_judged_anew(rows, data, rows.results))
    alarms = [one for one in _sentences(made, "pairs") if one.startswith("ALARM")]
    assert len(alarms) == len(POINTS)
    assert all("b8 t4 w2048 accepts" in one for one in alarms)
    agreement = {name: row[-1] for name, row in _table(made, "pairs", "b300 TP8 / rtx EP8").items()}
    assert agreement["b8 t4 w2048"].startswith("no, at C=1 60")
    assert agreement["b4 t4 w2048"] == "yes"


def test_sections_without_data_are_left_out_and_one_host_has_no_pairs() -> None:
    rows = SweepRows(hosts=["rtx"])
    rows.cells = rows.cells[:1]
    made = document(rows.data())
    keys = [section.key for section in made.sections]
    assert "pairs" not in keys
    assert "budget" not in keys
    assert "depth" not in keys
    assert "break-even" not in keys
    assert "failures" not in keys
    _Parsed(page(made))


def test_a_sweep_that_waits_has_a_page() -> None:
    rows = SweepRows()
    data = rows.data()
    waiting = [
        {**row, "state": "queued", "failure": None, "evidence": None, "points": None, "coding": None}
        for row in rows.results
    ]
    rows.repeats = []
    sweep = {**data.sweep, "began_at": None, "ended_at": None, "hypothesis": None}
    data = replace(_judged_anew(rows, data, waiting), attempts=[], telemetry=[], sweep=sweep)
    text = _Parsed(page(document(data))).text
    assert "no configuration has been ranked yet" in text
    assert "24 queued" in text


PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style></svg><svg onload=alert(1)>",
    "'; </pre><iframe src=javascript:alert(1)>",
    "`<b onmouseover=alert(1)>`",
)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_that_came_from_outside_becomes_markup(payload: str) -> None:
    rows = SweepRows()
    rows.hypothesis = rows.evidence = rows.file_text = payload
    for cell in rows.cells:
        cell["label"] = f"{cell['label']} {payload}" if cell["label"] != FAILING else FAILING
    data = rows.data()
    named = dict.fromkeys(("name", "gpu_kind", "interconnect"), payload)
    data = replace(
        data,
        judged=replace(data.judged, reference=payload),
        sweep={**data.sweep, "file_name": payload, "model": payload, "engine": payload},
        hosts=[{**host, **named} for host in data.hosts],
        attempts=[
            {
                **one,
                "provenance": {"driver": payload, payload: payload, "argv": [payload], "environment": {"A": payload}},
            }
            for one in data.attempts
        ],
        version=payload,
    )
    parsed, clean = _Parsed(page(document(data))), _Parsed(page(document(SweepRows().data())))
    assert {tag for tag, _ in parsed.elements} <= {tag for tag, _ in clean.elements} | {"code"}
    names = {name for _, attributes in parsed.elements for name in attributes}
    assert names == {name for _, attributes in clean.elements for name in attributes}
    # It is there to be read, in many places.
    bare = payload.strip("`")
    assert parsed.text.count(bare) > 20


def test_characters_that_steer_a_reader_are_made_visible() -> None:
    assert escaped("a\x00b\u202ec\x1b[31m") == "a\\x00b\\u202ec\\x1b[31m"
    assert escaped("two\r\nlines\tand a tab") == "two\nlines   and a tab"
    assert element("p", "a < b & c", title='say "x"') == '<p title="say &quot;x&quot;">a &lt; b &amp; c</p>'


def test_results_measured_by_hand_say_so() -> None:
    data = SweepRows(simulated=False).data()
    imported = {"file": "night.csv", "by": "somebody", "measured_on": "one evening", "note": None}
    data = replace(data, sweep={**data.sweep, "imported": imported, "began_at": None}, attempts=[], telemetry=[])
    made = document(data)
    assert (made.mark, made.is_real) == ("BY HAND: measured outside ddqueue and imported", False)
    assert ("imported", "file night.csv, by somebody, measured on one evening") in made.facts
    assert not {"timeline", "telemetry", "provenance", "failures"} & {section.key for section in made.sections}


def test_an_interval_wider_than_its_gain_is_given_by_its_ends() -> None:
    """A ± around it would reach below nothing, beside words that say it is faster."""
    said = [one for noise in (0.05, 0.2, 0.4) for one in _sentences(document(SweepRows(noise=noise).data()), "outcome")]
    gains = [re.findall(r"\+([\d.]+)% ±([\d.]+)%", one) for one in said]
    assert sum(map(len, gains)) > 10
    assert all(float(gain) > float(half) for found in gains for gain, half in found)
