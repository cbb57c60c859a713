"""Reads a table of results measured by hand: `config`, one column a point, `accept`, `coding`; as people type it."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddqueue.domain.configuration import Parallelism
from ddqueue.domain.hand_measured import HandMeasured, HandMeasuredRow
from ddqueue.domain.sweep import Point, SweepCell
from ddqueue.errors import UsageError
from ddqueue.files.problems import Problems, nearest

CONFIG, ACCEPT, CODING, HOST, PARALLEL = "config", "accept", "coding", "host", "parallel"
_PLAIN = (CONFIG, ACCEPT, CODING, HOST, PARALLEL)
_OTHER_NAMES = {"configuration": CONFIG, "acceptance": ACCEPT, "acceptance length": ACCEPT, "parallelism": PARALLEL}

_POINT = re.compile(
    r"c\s*=\s*([1-9]\d{0,5})\s+([1-9]\d{0,6})(k?)\s*(?:tok|tokens)?(?:\s+out\s+([1-9]\d{0,6}))?", re.IGNORECASE
)
_NUMBER = re.compile(r"~?\s*(\d{1,9}(?:\.\d{1,9})?)")
_RANGE = re.compile(r"~?\s*(\d{1,9}(?:\.\d{1,9})?)\s*[-\u2013]\s*(\d{1,9}(?:\.\d{1,9})?)")
_NOTHING = frozenset({"", "-", "\u2013", "n/a", "none", "?"})
_LONGEST = 200
_POINT_REMEDY = "Head a column of tokens/s like `C=32 4k`: requests in flight, prompt tokens; `C=32 4k out 256` too."


@dataclass(frozen=True)
class Defaults:
    """What a file need not say, and what its words stand for.

    `cell_of` finds a configuration by its name, `parallelism_of` a parallelism by its name on a host; both raise
    UsageError. `output_of` gives the output tokens at a concurrency and context, None where nobody said them.
    """

    cell_of: Callable[[str], SweepCell]
    parallelism_of: Callable[[str, str], Parallelism]
    output_of: Callable[[int, int], int | None]
    host: str | None
    parallel: str | None


def read_measured(path: Path, defaults: Defaults) -> HandMeasured:
    """The file's rows.

    Raises:
        FileError: every mistake, each with its line and column.
        UsageError: the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    problems = Problems(str(path))
    try:
        # What spreadsheets write begins with a byte-order mark.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        problems.add(line, "", "not UTF-8", "Save it as UTF-8.")
        text = ""
    problems.check()
    lines = _lines(text, problems)
    if not lines:
        problems.add(1, "", "nothing in it", f"Begin with a line of heads: {CONFIG}, then a column for each point.")
        problems.check()
    (head_line, heads), *body = lines
    columns = _columns(head_line, heads, defaults, problems)
    problems.check()
    points = tuple(column for column in columns if isinstance(column, Point))
    rows = [_row(line, fields, heads, columns, defaults, problems) for line, fields in body]
    if not body:
        problems.add(head_line, "", "no row below the heads", "Write one line for each configuration.")
    problems.check()
    return HandMeasured(
        path.name, text, hashlib.sha256(content).hexdigest(), points, tuple(row for row in rows if row is not None)
    )


Column = str | Point


def _lines(text: str, problems: Problems) -> list[tuple[int, list[str]]]:
    """The lines with something in them, each with its number."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: list[tuple[int, list[str]]] = []
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            problems.add(line, "", f"not CSV: {error}", "Put a field with commas or quotes into double quotes.")
            return found
        if fields is None:
            return found
        if any(field.strip() for field in fields):
            found.append((line, [field.strip() for field in fields]))


def _columns(line: int, heads: Sequence[str], defaults: Defaults, problems: Problems) -> list[Column]:
    columns = [_column(line, head, defaults, problems) for head in heads]
    for index, column in enumerate(columns):
        if column is not None and column in columns[:index]:
            problems.add(line, heads[index], "a second column for the same thing", "Take one of the two out.")
    if CONFIG not in columns:
        separated = " Separate the columns by commas." if len(heads) == 1 else ""
        problems.add(line, CONFIG, "no such column", f"Name each row's configuration: b8 t4 w2048.{separated}")
    if not any(isinstance(column, Point) for column in columns) and None not in columns:
        problems.add(line, "", "no column of throughputs", _POINT_REMEDY)
    return [column for column in columns if column is not None]


def _column(line: int, head: str, defaults: Defaults, problems: Problems) -> Column | None:
    plain = " ".join(head.lower().split())
    plain = _OTHER_NAMES.get(plain, plain)
    if plain in _PLAIN:
        return plain
    match = _POINT.fullmatch(head)
    if match is None:
        near = nearest(plain, [*_PLAIN, *_OTHER_NAMES])
        problems.add(line, head, "unknown column", f"Did you mean {near}?" if near else _POINT_REMEDY)
        return None
    concurrency, context = int(match[1]), int(match[2]) * (1024 if match[3] else 1)
    output = int(match[4]) if match[4] else defaults.output_of(concurrency, context)
    if output is None:
        remedy = f"Say it with --output, or here: {head} out 256. Points are compared with points of the same length."
        problems.add(line, head, "nobody says how many output tokens a request had", remedy)
        return None
    return Point(concurrency, context, output)


def _row(
    line: int,
    fields: Sequence[str],
    heads: Sequence[str],
    columns: Sequence[Column],
    defaults: Defaults,
    problems: Problems,
) -> HandMeasuredRow | None:
    before = len(problems)
    if len(fields) != len(columns):
        problems.add(line, "", f"{len(fields)} fields, but {len(columns)} heads", "Write an empty field as ,,")
        return None
    said = dict(zip(columns, fields, strict=True))
    for head, text in zip(heads, fields, strict=True):
        if len(text) > _LONGEST or "\0" in text:
            problems.add(line, head, "too long, or not text", f"Write at most {_LONGEST} characters.")
    cell = _cell(line, str(said[CONFIG]), defaults, problems)
    throughputs = {
        column: values
        for column, head in zip(columns, heads, strict=True)
        if isinstance(column, Point) and (values := _throughput(line, head, said[column], problems))
    }
    acceptance = _acceptance(line, said.get(ACCEPT, ""), problems)
    host, parallelism = _server(line, said, defaults, problems)
    if len(problems) > before or cell is None or parallelism is None:
        return None
    if not throughputs:
        problems.add(line, "", "no throughput in the whole row", "Leave the row out, or write what was measured.")
        return None
    written = {head: text for head, text in zip(heads, fields, strict=True) if text}
    return HandMeasuredRow(line, cell, host, parallelism, throughputs, acceptance, said.get(CODING) or None, written)


def _cell(line: int, label: str, defaults: Defaults, problems: Problems) -> SweepCell | None:
    try:
        return defaults.cell_of(label)
    except UsageError as error:
        remedy = "Write it like `b8 t4 w2048`, `bs16 b32 t4 none` or `baseline`."
        problems.add(line, CONFIG, f"{label!r} names no configuration: {error}", remedy)
        return None


def _throughput(line: int, head: str, text: str, problems: Problems) -> tuple[float, ...]:
    """One value, the two ends of a range, or nothing."""
    if text.lower() in _NOTHING:
        return ()
    number, both = _NUMBER.fullmatch(text), _RANGE.fullmatch(text)
    values = (float(number[1]),) if number else tuple(map(float, both.groups())) if both else ()
    if not values or min(values) <= 0:
        remedy = "Write tokens/s with a decimal point: 145.3, ~145 or 145-170; leave it empty if it was not measured."
        problems.add(line, head, f"{text!r} is no throughput", remedy)
        return ()
    return values


def _acceptance(line: int, text: str, problems: Problems) -> float | None:
    if text.lower() in _NOTHING:
        return None
    number = _NUMBER.fullmatch(text)
    if number is None or float(number[1]) < 1:
        remedy = "Write tokens per verify: 4.51 or ~4.5; each verify gives one token at least."
        problems.add(line, ACCEPT, f"{text!r} is no acceptance length", remedy)
        return None
    return float(number[1])


def _server(
    line: int, said: Mapping[Column, str], defaults: Defaults, problems: Problems
) -> tuple[str, Parallelism | None]:
    host, parallel = said.get(HOST) or defaults.host, said.get(PARALLEL) or defaults.parallel
    for name, found in ((HOST, host), (PARALLEL, parallel)):
        if not found:
            problems.add(line, name, "not said", f"Add a column `{name}`, or give --{name}.")
    if not host or not parallel:
        return "", None
    try:
        return host, defaults.parallelism_of(host, parallel)
    except UsageError as error:
        problems.add(line, HOST, str(error), "Name a host of the inventory and one of its parallelisms: TP8, EP8, PP8.")
        return host, None
