"""The report as Markdown, for a place where a page cannot go. Plots become what they show in words and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddqueue.report.grid import Grid, as_markdown, visible
from ddqueue.report.html.blocks import Block, Cell, Document, Figure, Folded, Items, Listing, Section, Table, Words

_SPECIAL = re.compile(r"([\\`*_\[\]<>])")


def markdown(document: Document) -> str:
    """The whole document. Sections that hold nothing but plots say that the page has them."""
    parts = [f"# {_plain(document.title)}", f"**{_plain(document.mark)}**"]
    if document.hypothesis:
        parts.append(f"Hypothesis: {_plain(document.hypothesis)}")
    parts.append("\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in document.facts))
    for section in document.sections:
        parts += _section(section)
    return "\n\n".join([*parts, _plain(document.footer)]) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {_plain(section.title)}"
    if section.lead:
        yield _plain(section.lead)
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Words():
            yield _plain(block.text)
        case Items():
            yield "\n".join(f"- {_plain(item)}" for item in block.items)
        case Table():
            yield f"**{_plain(block.caption)}**"
            rows = tuple(tuple(_plain(_text(cell)) for cell in row) for row in block.rows)
            yield as_markdown(Grid(tuple(map(_plain, block.heads)), rows, block.right))
            if block.notes:
                yield "\n".join(f"- {_plain(note)}" for note in block.notes)
        case Figure():
            titles = "\n".join(f"- {_plain(chart.title)}" for chart in block.charts)
            yield f"Plots, in the HTML report:\n\n{titles}"
            if block.notes:
                yield "\n".join(f"- {_plain(note)}" for note in block.notes)
        case Listing():
            yield f"**{_plain(block.caption)}**"
            yield _fenced(block.text)
        case Folded():
            yield f"### {_plain(block.summary)}"
            for inner in block.blocks:
                yield from _block(inner)


def _text(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else " ".join((cell.text, *(f"({tag})" for tag in cell.tags)))


def _plain(text: str) -> str:
    """In one line, with what Markdown or HTML would read as markup escaped."""
    return _SPECIAL.sub(r"\\\1", visible(text))


def _fenced(text: str) -> str:
    """A fence longer than any in the text, so that nothing in it ends the block."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    lines = "\n".join(visible(line) for line in text.rstrip("\n").split("\n"))
    return f"{fence}\n{lines}\n{fence}"
