"""`ddqueue report`."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import click

from ddqueue import __version__, bootstrap
from ddqueue.cli.results import judged
from ddqueue.errors import DdqueueError, UsageError
from ddqueue.report.html.as_json import as_json
from ddqueue.report.html.data import ReportData
from ddqueue.report.html.document import document
from ddqueue.report.html.markdown import markdown
from ddqueue.report.html.page import page
from ddqueue.report.pairs import JudgedSweep
from ddqueue.storage.reading import PostgresReader
from ddqueue.storage.reading_report import PostgresReportReader

STANDARD_OUTPUT = "-"
PICTURE_WIDTH_PX = 1280


class Form(StrEnum):
    """What a report is written as, each named by its file's suffix."""

    HTML = "html"
    MD = "md"
    JSON = "json"
    PNG = "png"


@click.command()
@click.argument("sweep")
@click.option(
    "-o",
    "--output",
    help="The file to write; - for standard output. Without it SWEEP's name and revision, here.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([form.value for form in Form]),
    help="Without it what the suffix of --output says, else html. png needs Chromium or Chrome on this machine.",
)
def report(sweep: str, output: str | None, form: str | None) -> None:
    """Write what is to be known of SWEEP as one page that can be mailed: name, or name@2 for its second revision.

    The page needs nothing else: no network, no script. It says what came of the hypothesis, which configuration to
    take on each host for which use, and shows all that it rests on: the table, plots, pairs of hosts, coding, failures
    with their evidence, noise, where the time went, and the sweep file itself.
    """
    wanted = _form(output, form)
    data = _read(sweep)
    path = _path(data.judged.reference, output, wanted)
    if path is None and wanted is Form.PNG:
        raise UsageError("a picture cannot go to a terminal; name a file with -o FILE.png")
    content = _written(data, wanted)
    if path is None:
        click.echo(content.decode(), nl=False)
        return
    _write(path, content)
    click.echo(f"wrote {path}, {len(content) / 1000:,.0f} kB")


def _form(output: str | None, form: str | None) -> Form:
    if form is not None:
        return Form(form)
    suffix = Path(output or "").suffix.lstrip(".").lower()
    return {"htm": Form.HTML, "markdown": Form.MD}.get(suffix) or (Form(suffix) if suffix in set(Form) else Form.HTML)


def _path(reference: str, output: str | None, form: Form) -> Path | None:
    """None for standard output."""
    if output == STANDARD_OUTPUT:
        return None
    # A sweep's name is made of letters that are safe in a file's.
    return Path(output) if output else Path(f"{reference}.{form}")


def _read(sweep: str) -> ReportData:
    """Raises UsageError when there is no such sweep, NotReachable when Postgres does not answer."""
    with bootstrap.reads("ddqueue report") as reads:
        reader = PostgresReader(reads)
        found = reader.sweep(sweep)
        canonical = {row["cell_hash"]: row["canonical"] for row in reader.cells(found.sweep_id)}
        rows = PostgresReportReader(reads).rows(found.sweep_id)
        return ReportData(
            judged=JudgedSweep(str(found), judged(reader, found.sweep_id), canonical),
            sweep=rows.sweep,
            hosts=rows.hosts,
            attempts=rows.attempts,
            telemetry=rows.telemetry,
            made_at=datetime.now(UTC),
            version=__version__,
        )


def _written(data: ReportData, form: Form) -> bytes:
    made = document(data)
    match form:
        case Form.HTML:
            return page(made).encode()
        case Form.MD:
            return markdown(made).encode()
        case Form.JSON:
            return (json.dumps(as_json(data, made), indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()
        case Form.PNG:
            return _picture(page(made))


def _picture(text: str) -> bytes:
    """Raises DdqueueError when there is no browser, or it fails."""
    from ddqueue.report.html.browser import NAMES, find_browser, picture

    program = find_browser()
    if program is None:
        raise DdqueueError(
            f"png needs a browser, and there is none of {', '.join(NAMES)} here; install one, or write html"
        )
    with tempfile.TemporaryDirectory(prefix="ddqueue-report-") as folder:
        file = Path(folder) / "report.html"
        file.write_text(text, encoding="utf-8")
        return asyncio.run(picture(program, file, PICTURE_WIDTH_PX))


def _write(path: Path, content: bytes) -> None:
    """All or nothing: whoever reads the file meanwhile sees the old one or the new one."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            half.write_bytes(content)
            half.replace(path)
        finally:
            with suppress(OSError):
                half.unlink()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
