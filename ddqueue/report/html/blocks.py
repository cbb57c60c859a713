"""What a report is made of before it becomes HTML, Markdown or JSON: sections of words, tables, figures, listings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ddqueue.report.html.plots.chart import Chart
from ddqueue.report.html.plots.style import Style


class Tone(StrEnum):
    """What a word or a cell of a table says beyond its text; never said by colour alone."""

    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"
    QUIET = "quiet"
    STRONG = "strong"


@dataclass(frozen=True)
class Cell:
    """One field of a table; `tags` are short marks behind its text."""

    text: str
    tone: Tone | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str
    tone: Tone | None = None


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: tuple[str, ...]
    tone: Tone | None = None


@dataclass(frozen=True)
class Table:
    """Columns named in `right` are aligned right. `notes` stand below it."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    right: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One line of a figure's legend: what is drawn for `name`."""

    name: str
    style: Style
    line: bool = False
    bar: bool = False
    hollow: bool = False
    mark: bool = True


@dataclass(frozen=True)
class Figure:
    """Charts that share a legend. `notes` say in words what they show, for those who do not see them.

    Where there is room they stand in so many `columns`, or in as many as there is room for.
    """

    charts: tuple[Chart, ...]
    legend: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()
    columns: int | None = None


@dataclass(frozen=True)
class Listing:
    """Text as it is, line by line."""

    caption: str
    text: str


@dataclass(frozen=True)
class Folded:
    """Details that open on demand, and are open in print."""

    summary: str
    blocks: tuple[Words | Items | Table | Figure | Listing, ...]


Block = Words | Items | Table | Figure | Listing | Folded


@dataclass(frozen=True)
class Section:
    """`key` is its anchor; `lead` says in a sentence or two how to read it."""

    key: str
    title: str
    lead: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report. `mark` says whether it was measured or simulated; `facts` are (name, value)."""

    title: str
    mark: str
    is_real: bool
    hypothesis: str | None
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    footer: str
