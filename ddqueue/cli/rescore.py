"""`ddqueue rescore`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ddqueue.services.rescore import Rescored


@click.command()
@click.argument("sweep")
@click.option(
    "--suite",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder with the problems that were asked, if the sweep names none that is known here.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def rescore(sweep: str, suite: Path | None, as_json: bool) -> None:
    """Find the code in every stored answer of SWEEP again, and run it again.

    For when the extractor or the sandbox was mended. Needs no server and no GPU. SWEEP is a name for the newest
    revision, or name@2. The new scores count from now on; the old ones stay, see the table `scores`. Answers of running
    attempts are left out.
    """
    from ddqueue import bootstrap
    from ddqueue.cli.output import print_json
    from ddqueue.services.rescore import Rescore
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.references import find_sweep
    from ddqueue.storage.rescoring import PostgresScoreStore

    engine = bootstrap.sql_engine("ddqueue rescore")
    try:
        found = find_sweep(PooledReads(engine), sweep)
        service = Rescore(PostgresScoreStore(engine), bootstrap.scoring(), bootstrap.load_suite)
        with _counting() as count:
            compared = service.run(found.sweep_id, None if suite is None else str(suite.absolute()), count)
    finally:
        engine.dispose()
    if as_json:
        print_json({"sweep": str(found), "scorer": service.scoring.scorer, "cells": [asdict(one) for one in compared]})
    else:
        _print(str(found), compared)


def _print(sweep: str, compared: Sequence[Rescored]) -> None:
    from ddqueue.cli.output import print_table

    print_table(
        f"{sweep}, scored again",
        ["job", "attempt", "host", "configuration", "C", "passed", "changed"],
        [_row(one) for one in compared],
    )
    click.echo(
        "passed: old -> new, of the answers that could be judged; changed: answers with another outcome than before"
    )


def _row(one: Rescored) -> list[object]:
    name, moved = f"{one.parallel} {one.label}", f"{one.old} -> {one.new}"
    return [one.job_id, one.attempt, one.host, name, one.concurrency, moved, one.changed]


@contextmanager
def _counting() -> Iterator[Callable[[], None]]:
    """A count of answers on a terminal's standard error, made to rise by one with each call."""
    shown, done = sys.stderr.isatty(), 0

    def count() -> None:
        nonlocal done
        done += 1
        if shown:
            click.echo(f"\ranswer {done}", nl=False, err=True)

    try:
        yield count
    finally:
        if shown and done:
            click.echo("\r\033[K", nl=False, err=True)
