"""YAML 1.2 as a tree in which every key and value knows its line.

Built from ruamel's events rather than its objects: its own resolver reads `1_000` as a thousand and `2024-01-01` as a
date, which is not what the YAML 1.2 core schema says. Here a plain scalar is null, a bool, an int or a float of that
schema, and else text: `off`, `no`, `22:22` and `1_000` are text, `010` is ten, `1e3` is 1000.0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from ddqueue.files.problems import Problems

MAX_BYTES = 256 * 1024
"""Far above any file a person writes; ruamel needs about ten seconds for a megabyte."""

MAX_DEPTH = 16
"""No file of ours nests deeper than 6; a bound keeps `[[[[...` from taking minutes."""

MAX_DIGITS = 30
"""A longer row of digits is text: no setting is that large, and Python refuses to convert thousands of digits."""

_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


@dataclass(frozen=True)
class ScalarNode:
    """One value. `text` is what the file says, `value` what it means; a quoted scalar's value is its text."""

    line: int
    text: str
    value: str | int | float | bool | None
    quoted: bool = False


@dataclass(frozen=True)
class ListNode:
    """A sequence."""

    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Entry:
    """The value of a key, and the key's own line."""

    line: int
    node: Node


@dataclass(frozen=True)
class MapNode:
    """A mapping; keys are text, in the file's order."""

    line: int
    entries: dict[str, Entry]


Node = ScalarNode | ListNode | MapNode


def resolve(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar by the YAML 1.2 core schema (https://yaml.org/spec/1.2.2/, section 10.3.2)."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > MAX_DIGITS:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if match := _INFINITY.fullmatch(text):
        return -math.inf if match.group(1) == "-" else math.inf
    return text


def read_text(path: Path, what: str) -> str:
    """The text of a file a person wrote; `what` names its kind for messages, e.g. "a sweep file".

    Raises:
        FileError: the file is missing, not a file, not readable, too large, or not UTF-8.
    """
    problems = Problems(str(path))
    data = b""
    try:
        if path.is_dir():
            problems.add(1, "", "this is a directory", f"Name {what} in it.")
        else:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        problems.add(1, "", "there is no such file", f"Check the path, or write {what} there (`ddqueue init` does).")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problems.add(1, "", f"it cannot be read: {reason}", "Check the path and its permissions.")
    if len(data) > MAX_BYTES:
        problems.add(1, "", f"it is larger than {MAX_BYTES // 1024} KiB", f"Name {what}, not data.")
    problems.check()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(line, "", f"byte 0x{data[error.start]:02x} is not UTF-8", "Save the file as UTF-8.")
        problems.check()
        raise


def parse(text: str, problems: Problems) -> MapNode:
    """The mapping that is the whole of `text`.

    Problems that leave a usable tree (a repeated key, an anchor) are added to `problems`, for the caller to report
    together with its own.

    Raises:
        FileError: the text is not YAML, not one document, nested too deeply, or not a mapping.
    """
    if len(text) > MAX_BYTES:
        problems.add(1, "", f"it is larger than {MAX_BYTES // 1024} KiB", "Write a grid instead of cells.")
    _add_tabs(text, problems)
    problems.check()
    try:
        root = _Builder(problems).build(YAML(typ="safe", pure=True).parse(text))
    except _Stop:
        root = None
    except (YAMLError, ValueError, OverflowError) as error:
        # ValueError and OverflowError come out of ruamel's own chr() for an escape such as "\\UFFFFFFFF".
        _add_syntax_problem(error, text, problems)
        root = None
    else:
        if root is None or (isinstance(root, ScalarNode) and root.value is None):
            problems.add(1, "", "the file is empty", "Write `key: value` lines; `ddqueue init` writes an example.")
        elif not isinstance(root, MapNode):
            problems.add(root.line, "", "the file is not a mapping of keys", "Write `key: value` lines.")
    if not isinstance(root, MapNode):
        problems.check()
        raise AssertionError("every path that yields no mapping notes a problem")
    return root


def _add_tabs(text: str, problems: Problems) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        if "\t" in indent and line.strip():
            problems.add(number, "", "a tab indents this line", "Indent with spaces: YAML allows no tabs there.")


def _add_syntax_problem(error: Exception, text: str, problems: Problems) -> None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else 1
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
    words = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
    if "'\\t'" in words:
        problems.add(line, "", "a tab separates words here", "Use spaces: YAML allows no tabs there.")
    else:
        remedy = 'Put text that holds any of ": # { } [ ] , & * ! | > @ %" in quotes, and check the indentation.'
        problems.add(line, "", f"this is not YAML: {words}", remedy)


class _Stop(Exception):
    """Reading on makes no sense; the reason has been noted."""


class _Open:
    """A collection whose end has not been read yet."""

    def __init__(self, line: int, is_map: bool) -> None:
        self.line = line
        self.is_map = is_map
        self.items: list[Node] = []
        self.entries: dict[str, Entry] = {}
        self.key: ScalarNode | None = None
        """A map's key that waits for its value."""

    def close(self) -> Node:
        return MapNode(self.line, self.entries) if self.is_map else ListNode(self.line, tuple(self.items))


class _Builder:
    """Turns events into nodes, without recursion."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.open: list[_Open] = []
        self.documents = 0
        self.root: Node | None = None

    def build(self, events: Iterator[Event]) -> Node | None:
        for event in events:
            line = event.start_mark.line + 1
            if isinstance(event, DocumentStartEvent):
                self._start_document(event, line)
            elif isinstance(event, (MappingStartEvent, SequenceStartEvent)):
                self._refuse_extras(event, line)
                if len(self.open) == MAX_DEPTH:
                    self._stop(line, f"this nests deeper than {MAX_DEPTH} levels", "Check the brackets.")
                self.open.append(_Open(line, isinstance(event, MappingStartEvent)))
            elif isinstance(event, (MappingEndEvent, SequenceEndEvent)):
                self._place(self.open.pop().close())
            elif isinstance(event, ScalarEvent):
                self._refuse_extras(event, line)
                self._place(self._scalar(event, line))
            elif isinstance(event, AliasEvent):
                self.problems.add(
                    line, self._where(), f"*{event.anchor} repeats an anchor", "Write the value out: no aliases here."
                )
                self._place(ScalarNode(line, f"*{event.anchor}", None))
        return self.root

    def _start_document(self, event: DocumentStartEvent, line: int) -> None:
        self.documents += 1
        if self.documents > 1:
            self._stop(line, "a second document starts here", "Write one document a file: take out the `---`.")
        if event.version not in (None, (1, 2)) or event.tags:
            self._stop(line, "a directive asks for another YAML", "Take out the % line: these files are YAML 1.2.")

    def _refuse_extras(self, event: ScalarEvent | MappingStartEvent | SequenceStartEvent, line: int) -> None:
        if event.anchor is not None:
            remedy = "Write the value out where it is needed: no anchors here."
            self.problems.add(line, self._where(), f"&{event.anchor} is an anchor", remedy)
        if event.tag is not None:
            remedy = "Take it out: a value's type follows from how it is written."
            self.problems.add(line, self._where(), f"{event.tag} is a tag", remedy)

    def _scalar(self, event: ScalarEvent, line: int) -> ScalarNode:
        text = event.value
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
            self.problems.add(line, self._where(), "it holds a character that is no text", "Take the escape out.")
            text = ""
        quoted = event.style is not None
        return ScalarNode(line, text, text if quoted else resolve(text), quoted)

    def _place(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        if not parent.is_map:
            parent.items.append(node)
        elif parent.key is None:
            if not isinstance(node, ScalarNode):
                self._stop(node.line, "a list or mapping is used as a key", "Write a plain word before the colon.")
            parent.key = node
        else:
            key, parent.key = parent.key, None
            self._add_entry(parent, key, node)

    def _add_entry(self, parent: _Open, key: ScalarNode, node: Node) -> None:
        where = self._where(key.text)
        if key.text == "<<":
            self.problems.add(key.line, where, "<< merges mappings", "Write the keys out: no merge keys here.")
        elif key.text in parent.entries:
            first = parent.entries[key.text].line
            self.problems.add(key.line, where, f"{key.text} is given twice, first in line {first}", "Keep one of them.")
        else:
            if isinstance(node, ScalarNode) and not node.text and not node.quoted:
                node = replace(node, line=key.line)  # ruamel places an empty value where the next key starts
            parent.entries[key.text] = Entry(key.line, node)

    def _where(self, last: str = "") -> str:
        """The path of keys to here, as a person would say it: `cells[2].budget`."""
        path = ""
        for level in self.open:
            if level.is_map and level.key is not None:
                path += f".{level.key.text}"
            elif not level.is_map:
                path += f"[{len(level.items)}]"
        path = (f"{path}.{last}" if last else path).lstrip(".")
        return path if path.isprintable() else repr(path)

    def _stop(self, line: int, problem: str, remedy: str) -> NoReturn:
        self.problems.add(line, self._where(), problem, remedy)
        raise _Stop
