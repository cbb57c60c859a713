"""Typed access to a YAML tree: every value is what its key asks for, or a problem with its line and remedy.

Each reader returns None after noting a problem, so that reading goes on and finds the next one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ddqueue.files.problems import Problems, suggestion
from ddqueue.files.yaml12 import Entry, ListNode, MapNode, Node, ScalarNode

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
NAME_REMEDY = "Use lower-case letters, digits, dots, dashes and underscores; at most 63, a letter or digit first."

NONE_WORDS = frozenset({"none", "null", "off", "no", "nil", ""})
"""Words for "nothing" beside YAML's own null and false; whatever their case, quoted or not."""


@dataclass(frozen=True)
class Field:
    """A value in its place: `where` is its path of keys, `line` the line to show for it."""

    node: Node
    line: int
    where: str
    problems: Problems

    def refuse(self, problem: str, remedy: str) -> None:
        """Note that this value cannot be used."""
        self.problems.add(self.line, self.where, problem, remedy)

    @property
    def said(self) -> str:
        """The value as the file says it, short enough for a message."""
        if isinstance(self.node, ScalarNode):
            text = self.node.text if len(self.node.text) <= 40 else f"{self.node.text[:37]}..."
            return text if text and text.isprintable() else repr(text)
        return "a list" if isinstance(self.node, ListNode) else "a mapping"

    @property
    def is_none(self) -> bool:
        """Whether a person wrote "nothing" here: none, null, ~, false, off, no, or no value at all."""
        if not isinstance(self.node, ScalarNode):
            return False
        value = self.node.value
        return value is None or value is False or (isinstance(value, str) and value.strip().lower() in NONE_WORDS)

    def text(self, remedy: str) -> str | None:
        """Text that is not blank; a number or bool is refused, since quotes say that it is meant."""
        value = self.node.value if isinstance(self.node, ScalarNode) else None
        if isinstance(value, str) and value.strip():
            return value
        self.refuse("no text" if self.said == "''" else f"{self.said} is not text", remedy)
        return None

    def word(self, remedy: str = "Write one value here.") -> str | None:
        """One scalar as it is written: `010` stays `010`. Null and bools are refused."""
        if isinstance(self.node, ScalarNode) and not isinstance(self.node.value, bool) and self.node.value is not None:
            return self.node.text
        self.refuse("no value" if self.said == "''" else f"{self.said} is no plain value", remedy)
        return None

    def name(self) -> str | None:
        """A name of ours: `NAME`."""
        word = self.word(NAME_REMEDY)
        if word is not None and NAME.fullmatch(word) is None:
            self.refuse(f"{self.said} is not a name", NAME_REMEDY)
            return None
        return word

    def flag(self) -> bool | None:
        """true or false; `yes` and `on` are text in YAML 1.2."""
        value = self.node.value if isinstance(self.node, ScalarNode) else None
        if isinstance(value, bool):
            return value
        self.refuse(f"{self.said} is neither true nor false", "Write true or false.")
        return None

    def whole(self, least: int, most: int, otherwise: str = "") -> int | None:
        """A whole number from `least` to `most`; 1e3 is 1000, 010 is ten, true is not 1.

        `otherwise` names what else is right here, for the remedy: ", or none".
        """
        right = f"Write a whole number from {least} to {most}{otherwise}"
        value = self.node.value if isinstance(self.node, ScalarNode) else None
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(f"{self.said} is not a whole number", f"{right}{_spelt(self.node)}.")
            return None
        if not least <= value <= most:
            self.refuse(f"{self.said} is out of range", f"{right}.")
            return None
        return value

    def mapping(self, remedy: str) -> Section | None:
        """A mapping."""
        if isinstance(self.node, MapNode):
            return Section(self.node, self.where, self.problems)
        self.refuse(f"{self.said} is not a mapping", remedy)
        return None

    def sequence(self, remedy: str, empty: bool = False) -> list[Field] | None:
        """The items of a list; an empty one is refused unless `empty`."""
        if not isinstance(self.node, ListNode):
            self.refuse("no list" if self.said == "''" else f"{self.said} is not a list", remedy)
            return None
        if not self.node.items and not empty:
            self.refuse("the list is empty", remedy)
            return None
        return self._items(self.node)

    def one_or_many(self, remedy: str) -> list[Field]:
        """The items of a list, or the one value that stands in its place; `1,32` is refused as a list in disguise."""
        if isinstance(self.node, ListNode):
            return self.sequence(remedy) or []
        if isinstance(self.node, ScalarNode) and _is_list_in_disguise(self.node):
            self.refuse(f"{self.said} is text, not a list", f"Write [{_with_spaces(self.node.text)}].")
            return []
        return [self]

    def _items(self, node: ListNode) -> list[Field]:
        return [
            Field(item, item.line, f"{self.where}[{index}]", self.problems) for index, item in enumerate(node.items)
        ]


class Section:
    """A mapping and the path of keys that leads to it."""

    def __init__(self, node: MapNode, where: str, problems: Problems) -> None:
        self.node = node
        self.where = where
        self.problems = problems

    def allow(self, known: Collection[str], prefixes: tuple[str, ...] = ()) -> None:
        """Refuse every key that is not known, with the nearest one that is; `args.NAME` passes by its prefix."""
        for key, entry in self.node.entries.items():
            if key not in known and not key.startswith(prefixes or "\0"):
                options = [*known, *(f"{prefix}NAME" for prefix in prefixes)]
                self.problems.add(entry.line, self._path(key), f"unknown key {key!r}", suggestion(key, options))

    def get(self, key: str) -> Field | None:
        """The value of `key`, or None where the file does not give it."""
        entry = self.node.entries.get(key)
        return None if entry is None else self._field(key, entry)

    def need(self, key: str, remedy: str) -> Field | None:
        """The value of `key`; its absence is a problem."""
        if key not in self.node.entries:
            self.problems.add(self.node.line, self._path(key), f"{key} is missing", remedy)
            return None
        return self.get(key)

    def __iter__(self) -> Iterator[tuple[str, Field]]:
        return ((key, self._field(key, entry)) for key, entry in self.node.entries.items())

    def __len__(self) -> int:
        return len(self.node.entries)

    @property
    def line(self) -> int:
        return self.node.line

    def _field(self, key: str, entry: Entry) -> Field:
        # A scalar's own line and its key's differ only for folded text; a list's items carry lines of their own.
        return Field(entry.node, entry.line, self._path(key), self.problems)

    def _path(self, key: str) -> str:
        said = key if key.isprintable() else repr(key)
        return f"{self.where}.{said}" if self.where else said


def _is_list_in_disguise(node: ScalarNode) -> bool:
    return not node.quoted and re.fullmatch(r"[^\s,]+(\s*,\s*[^\s,]+)+", node.text) is not None


def _with_spaces(text: str) -> str:
    return ", ".join(part.strip() for part in text.split(","))


def _spelt(node: Node) -> str:
    """How the number a person seems to mean is spelt."""
    if not isinstance(node, ScalarNode):
        return ""
    if node.quoted and re.fullmatch(r"[0-9]+", node.text):
        return ", without quotes"
    if re.fullmatch(r"[0-9]+(_[0-9]+)+", node.text):
        return f", without underscores: {node.text.replace('_', '')}"
    if re.fullmatch(r"[0-9]+(,[0-9]{3})+", node.text):
        return f", without commas: {node.text.replace(',', '')}"
    return ""
