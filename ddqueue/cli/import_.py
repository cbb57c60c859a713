"""`ddqueue import FILE`."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ddqueue.cli.output import print_json
from ddqueue.domain.configuration import Cell, Parallelism
from ddqueue.domain.hand_measured import ImportedBy, cell_named
from ddqueue.domain.inventory import EngineProfile, Inventory
from ddqueue.domain.sweep import Measure, SweepCell
from ddqueue.errors import UsageError

if TYPE_CHECKING:
    from ddqueue.storage.reading import PostgresReader


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--host", help="Where it was measured, unless the file has a column `host`.")
@click.option("--parallel", help="TP8, EP8, EP4, PP8, unless the file has a column `parallel`.")
@click.option("--model", help="The model, as the inventory calls it.")
@click.option("--engine", help="The engine profile that the servers were started with, as the inventory calls it.")
@click.option(
    "--like", metavar="SWEEP", help="The rows are configurations of this sweep, by label; instead of --model."
)
@click.option(
    "--output", "output_tok", type=click.IntRange(min=1), help="Output tokens that each request was asked for."
)
@click.option("--name", help="What to call it; the file's name without one.")
@click.option("--measured-on", metavar="WHEN", help="When it was measured, in your words.")
@click.option("--note", help="What else to know of it.")
@click.option(
    "--inventory", type=click.Path(path_type=Path), help="The inventory file; else as DDQUEUE_INVENTORY says."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def import_command(
    file: Path,
    host: str | None,
    parallel: str | None,
    model: str | None,
    engine: str | None,
    like: str | None,
    output_tok: int | None,
    name: str | None,
    measured_on: str | None,
    note: str | None,
    inventory: Path | None,
    as_json: bool,
) -> None:
    """Bring in results that were measured by hand, from a CSV file.

    \b
    config,C=1 60tok,C=1 4k,C=32 4k,accept,coding
    b8 t4 w2048,145-170,44.2,460,~4.5,ok

    They become a sweep that is marked as imported everywhere: what the file does not say stays unknown. Throughputs are
    output tokens/s; of a range both ends are kept as two repeats. `ddqueue compare` holds it against a measured sweep.
    """
    from ddqueue import bootstrap
    from ddqueue.files.measured_csv import Defaults, read_measured
    from ddqueue.services.importing import as_sweep
    from ddqueue.storage.importing import import_measured
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.reading import PostgresReader

    known = bootstrap.inventory(inventory)
    bootstrap.check_schema()
    sql_engine = bootstrap.sql_engine("ddqueue import")
    said = _said(known, PostgresReader(PooledReads(sql_engine)), model, engine, like)
    defaults = Defaults(
        cell_of=said.cell_of,
        parallelism_of=lambda on, label: _parallelism(known, on, label),
        output_of=(lambda _concurrency, _context: output_tok) if output_tok is not None else said.output_of,
        host=host,
        parallel=parallel,
    )
    measured = read_measured(file, defaults)
    sweep, jobs = as_sweep(measured, _name(name, file), said.model, said.engine)
    hosts = [known.host(one) for one in sweep.hosts]
    stored = import_measured(sql_engine, sweep, jobs, hosts, measured, ImportedBy(_who(), measured_on, note))
    if as_json:
        print_json(
            {"sweep": stored.name, "revision": stored.revision, "sweep_id": stored.sweep_id, "jobs": stored.jobs}
        )
        return
    reference = f"{stored.name}@{stored.revision}"
    click.echo(f"imported {reference}: {stored.jobs} rows on {', '.join(sweep.hosts)}, marked as measured by hand")
    click.echo(f"  ddqueue results {reference}\n  ddqueue compare {reference} SWEEP")


@dataclass(frozen=True)
class _Said:
    """What the options say of the configurations: how a name is found, and the output tokens of a point, if known."""

    model: str
    engine: str
    cell_of: Callable[[str], SweepCell]
    output_of: Callable[[int, int], int | None]


def _said(known: Inventory, reader: PostgresReader, model: str | None, engine: str | None, like: str | None) -> _Said:
    if like is not None and model is None:
        return _like(known, reader, like, engine)
    if like is not None or model is None or engine is None:
        raise UsageError("say what was measured: --model and --engine, or --like SWEEP")
    found_model, profile = known.model(model), _real_engine(known, engine)
    return _Said(
        model, engine, lambda label: cell_named(label, found_model, profile), lambda _concurrency, _context: None
    )


def _like(known: Inventory, reader: PostgresReader, reference: str, engine: str | None) -> _Said:
    """Configurations by their labels in a stored sweep, with every argument and variable, and its output lengths."""
    sweep = reader.sweep(reference)
    cells = {
        row["label"]: SweepCell(Cell.from_canonical(row["canonical"]), row["label"], row["out_of_distribution"])
        for row in reader.cells(sweep.sweep_id)
    }
    points = Measure.from_json(reader.measure(sweep.sweep_id)).points
    first = next(iter(cells.values())).cell
    try:
        profile = _real_engine(known, engine or first.engine)
    except UsageError as error:
        raise UsageError(f"{error}; say with --engine which build was measured") from None

    def cell_of(label: str) -> SweepCell:
        if label not in cells:
            raise UsageError(f"{sweep} has {', '.join(cells)}")
        return replace(cells[label], cell=replace(cells[label].cell, engine=profile.name))

    def output_of(concurrency: int, context: int) -> int | None:
        lengths = {one.output for one in points if (one.concurrency, one.context) == (concurrency, context)}
        return lengths.pop() if len(lengths) == 1 else None

    return _Said(first.model, profile.name, cell_of, output_of)


def _real_engine(known: Inventory, name: str) -> EngineProfile:
    profile = known.engine(name)
    if profile.simulated:
        raise UsageError(f"engine {name} is simulated: nothing was measured with it by hand")
    return profile


def _parallelism(known: Inventory, host: str, label: str) -> Parallelism:
    found = known.host(host)
    if found.simulated:
        raise UsageError(f"{host} is simulated: nothing was measured on it by hand")
    return Parallelism.parse(label, found.gpus)


def _name(given: str | None, file: Path) -> str:
    from ddqueue.files.typed import NAME, NAME_REMEDY

    name = given or file.stem.lower()
    if NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is no name for a sweep; give one with --name. {NAME_REMEDY}")
    return name


def _who() -> str:
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = f"uid {os.geteuid()}"
    return f"{user}@{socket.gethostname()}"
