"""HTML and SVG from values. Text is escaped where it enters, so that nothing stored can become markup."""

from __future__ import annotations

from functools import cache
from html import escape

from ddqueue.report.grid import visible

_EMPTY = frozenset({"br", "meta", "link", "col", "hr"})


class Markup(str):
    """Text that is markup already; everything else is escaped."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: str | float | None) -> Markup:
    """`<tag attributes>children</tag>`; None children and None attributes are left out.

    An attribute's trailing underscore is dropped and the others become hyphens: `class_`, `font_size`. Numbers are
    written with at most two decimals, since they are pixels.
    """
    written = "".join(
        [f' {_attribute(name)}="{_value(value)}"' for name, value in attributes.items() if value is not None]
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{joined(*children)}</{tag}>")


def joined(*children: str | None) -> Markup:
    """The children one after the other, each escaped unless it is markup."""
    return Markup("".join([child if isinstance(child, Markup) else escaped(child) for child in children if child]))


def escaped(text: str) -> Markup:
    """`text` as it is to be read: control and direction characters become visible, line breaks stay."""
    if text.isprintable():  # one line with nothing to make visible, as most texts are
        return Markup(escape(text, quote=True))
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return Markup(escape("\n".join(visible(line) for line in lines), quote=True))


@cache  # of the few names that the page writes, each some ten thousand times
def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escaped(value)
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
