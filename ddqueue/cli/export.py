"""`ddqueue export SWEEP`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

import click

from ddqueue.errors import UsageError


@click.command()
@click.argument("sweep")
@click.option("--format", "form", type=click.Choice(["jsonl", "parquet"]), help="Else as the file's name ends.")
@click.option("-o", "--output", required=True, metavar="FILE", help="`-` is standard output, for JSON lines.")
def export(sweep: str, form: str | None, output: str) -> None:
    """Write every measurement of SWEEP (name or name@2), one row each, with its sweep, cell, host, job and attempt.

    Also those of failed attempts (`accepted` is false) and those that are not valid (`reasons` say why): filter by both
    before you rank anything, and by `simulated` and `imported`. Parquet needs the extra `parquet`.
    """
    from ddqueue import bootstrap
    from ddqueue.report.exports import write_jsonl, write_parquet, write_whole
    from ddqueue.storage.exporting import export_columns, export_rows
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.references import find_sweep

    form = form or Path(output).suffix.lstrip(".")
    if form not in ("jsonl", "parquet"):
        raise UsageError(f"{output} does not say its format; add --format jsonl or --format parquet")
    sql_engine = bootstrap.sql_engine("ddqueue export")
    found = find_sweep(PooledReads(sql_engine), sweep)
    rows = export_rows(sql_engine, found.sweep_id)
    if output == "-":
        if form == "parquet":
            raise UsageError("Parquet is no text for a terminal or a pipe; name a file with -o")
        write_jsonl(rows, sys.stdout.buffer)
        return

    def write(out: IO[bytes]) -> int:
        return write_jsonl(rows, out) if form == "jsonl" else write_parquet(rows, export_columns(), out)

    count = write_whole(Path(output), write)
    click.echo(f"{found}: {count} measurements in {output}")
