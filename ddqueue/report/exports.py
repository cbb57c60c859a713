"""Rows written to a file, as JSON lines or Parquet; a file is there when it is whole, and not before."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

from ddqueue.domain.exporting import ColumnKind, ExportColumn
from ddqueue.errors import UsageError

Row = Mapping[str, Any]

_ROWS_A_GROUP = 10_000


def write_jsonl(rows: Iterable[Row], out: IO[bytes]) -> int:
    """One JSON object a line, every column in each, null where nothing is known; returns how many."""
    count = 0
    for count, row in enumerate(rows, start=1):  # noqa: B007 -- the last one is how many
        out.write(json.dumps(row, default=_plain, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    return count


def write_parquet(rows: Iterable[Row], columns: Sequence[ExportColumn], out: IO[bytes]) -> int:
    """Times in UTC microseconds; JSON as text; returns how many rows.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow: pip install 'ddqueue[parquet]', or take --format jsonl, which needs nothing"
        ) from None
    types = {
        ColumnKind.INTEGER: pyarrow.int64(),
        ColumnKind.NUMBER: pyarrow.float64(),
        ColumnKind.TEXT: pyarrow.string(),
        ColumnKind.TRUTH: pyarrow.bool_(),
        ColumnKind.MOMENT: pyarrow.timestamp("us", tz="UTC"),
        ColumnKind.INTEGERS: pyarrow.list_(pyarrow.int64()),
        ColumnKind.TEXTS: pyarrow.list_(pyarrow.string()),
        ColumnKind.JSON: pyarrow.string(),
    }
    schema = pyarrow.schema([(column.name, types[column.kind]) for column in columns])
    kept_as_text = {column.name for column in columns if column.kind is ColumnKind.JSON}
    count = 0
    with parquet.ParquetWriter(out, schema) as writer:
        for group in _groups(rows):
            flat = [{name: _text(row[name]) if name in kept_as_text else row[name] for name in row} for row in group]
            writer.write_table(pyarrow.Table.from_pylist(flat, schema=schema))
            count += len(flat)
    return count


def write_whole(path: Path, write: Callable[[IO[bytes]], int]) -> int:
    """Let `write` fill a file beside `path`, and put it in its place once it is done.

    Raises:
        UsageError: the folder cannot be written to.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
            try:
                count = write(out)
                out.flush()
                os.fsync(out.fileno())
                os.chmod(out.name, 0o666 & ~_umask())
                os.replace(out.name, path)
            except BaseException:
                os.unlink(out.name)
                raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return count


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    left = iter(rows)
    while group := list(islice(left, _ROWS_A_GROUP)):
        yield group


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"no JSON for {type(value).__name__}")


def _umask() -> int:
    """A temporary file is closed to others; one that a person asked for has the rights of any new file."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
