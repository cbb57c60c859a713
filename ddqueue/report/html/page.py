"""The report as one HTML page that needs nothing else: no network, no script, no font."""

from __future__ import annotations

import re
from importlib.resources import files

from ddqueue.report.html.blocks import (
    Block,
    Cell,
    Document,
    Entry,
    Figure,
    Folded,
    Items,
    Listing,
    Section,
    Table,
    Words,
)
from ddqueue.report.html.elements import Markup, element, joined
from ddqueue.report.html.plots.draw import svg
from ddqueue.report.html.plots.shapes import swatch

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Should markup ever get past the escaping, the browser itself runs and fetches nothing."""


_WIDE_PX = 600
"""A chart wider than this keeps its size and scrolls in its own box on a narrow screen."""


_UNBROKEN = re.compile(r"(?<=\bC=\d) (?=\d)|(?<=\bC=\d\d) (?=\d)|(?<=\bC=\d{3}) (?=\d)| (?=±)")
"""The space within a point's name, as in `C=32 4k`, and before a ±: neither says anything when torn apart."""


def page(document: Document) -> str:
    """The whole page, in UTF-8."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{document.title}: ddqueue report"),
        element("style", _style_sheet()),
    )
    body = element(
        "body",
        element("a", "to the answer", href="#answers", class_="skip"),
        element("header", *_header(document)),
        element("nav", *_contents(document), aria_label="contents"),
        element("main", *(_section(section) for section in document.sections)),
        element("footer", element("p", document.footer)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _style_sheet() -> Markup:
    return Markup(files("ddqueue.report.html").joinpath("page.css").read_text(encoding="utf-8"))


def _header(document: Document) -> list[Markup]:
    parts = [
        element("p", document.mark, class_=f"mark-line {'real' if document.is_real else 'simulated-line'}"),
        element("h1", document.title),
    ]
    if document.hypothesis:
        words = element("span", document.hypothesis)
        parts.append(element("p", element("b", "Hypothesis: "), words, class_="hypothesis"))
    facts = [element("div", element("dt", name), element("dd", value)) for name, value in document.facts]
    return [*parts, element("dl", *facts, class_="facts")]


def _contents(document: Document) -> list[Markup]:
    return [element("a", section.title, href=f"#{section.key}") for section in document.sections]


def _section(section: Section) -> Markup:
    lead = element("p", section.lead, class_="lead") if section.lead else None
    blocks = [_block(block) for block in section.blocks]
    return element("section", element("h2", section.title), lead, *blocks, id=section.key)


def _block(block: Block) -> Markup:
    match block:
        case Words():
            return element("p", _prose(block.text), class_=block.tone)
        case Items():
            return element("ul", *(element("li", _prose(item)) for item in block.items), class_=block.tone)
        case Table():
            return _table(block)
        case Figure():
            return _figure(block)
        case Listing():
            caption = element("figcaption", block.caption)
            return element("figure", caption, element("pre", block.text, tabindex=0), class_="listing")
        case Folded():
            inner = [_block(one) for one in block.blocks]
            return element("details", element("summary", block.summary), *inner)


def _prose(text: str) -> Markup:
    """Words in which what stands between backticks is something to type."""
    parts = re.split(r"`([^`\n]+)`", _UNBROKEN.sub("\N{NO-BREAK SPACE}", text))
    return joined(*(element("code", part) if number % 2 else part for number, part in enumerate(parts)))


def _table(table: Table) -> Markup:
    head = element("tr", *(_head(table, number) for number in range(len(table.heads))))
    rows = [element("tr", *(_cell(table, number, cell) for number, cell in enumerate(row))) for row in table.rows]
    grid = element("table", element("thead", head), element("tbody", *rows))
    notes = (
        element("ul", *(element("li", _prose(note)) for note in table.notes), class_="notes") if table.notes else None
    )
    # A wide table scrolls in its own box; focus lets the keyboard scroll it.
    box = element("div", grid, class_="scroll", tabindex=0, role="region", aria_label=table.caption)
    return element("figure", element("figcaption", table.caption), box, notes, class_="table")


def _head(table: Table, number: int) -> Markup:
    return element("th", table.heads[number], scope="col", class_="right" if number in table.right else None)


def _cell(table: Table, number: int, cell: Cell | str) -> Markup:
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    look = " ".join(word for word in ("right" if number in table.right else None, cell.tone) if word)
    tags = [element("span", tag, class_="tag") for tag in cell.tags]
    if number == 0:
        return element("th", cell.text, *tags, scope="row", class_=look or None)
    return element("td", _prose(cell.text), *tags, class_=look or None)


def _figure(figure: Figure) -> Markup:
    legend = element("ul", *(_entry(entry) for entry in figure.legend), class_="legend") if figure.legend else None
    is_wide = any(chart.width > _WIDE_PX for chart in figure.charts)
    charts = [element("div", svg(chart), class_="wide" if is_wide else "chart") for chart in figure.charts]
    # Four in rows of three would leave one alone.
    in_pairs = figure.columns == 2 or (figure.columns is None and len(figure.charts) in (2, 4))
    look = "scroll" if is_wide else "charts two" if in_pairs else "charts"
    focus = 0 if is_wide else None
    box = element("div", *charts, class_=look, tabindex=focus)
    notes = (
        element("ul", *(element("li", _prose(note)) for note in figure.notes), class_="notes") if figure.notes else None
    )
    return element("figure", legend, box, notes, class_="plots")


def _entry(entry: Entry) -> Markup:
    picture = swatch(entry.style, line=entry.line, bar=entry.bar, hollow=entry.hollow, mark=entry.mark)
    return element("li", joined(picture, element("span", entry.name)))
