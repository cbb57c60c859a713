"""`ddqueue compare`."""

from __future__ import annotations

import click

from ddqueue import bootstrap
from ddqueue.cli.output import print_json
from ddqueue.cli.results import judged
from ddqueue.errors import UsageError
from ddqueue.report.comparing import compare_pairs
from ddqueue.report.comparison_report import comparison_document, comparison_text
from ddqueue.report.pairs import (
    JudgedSweep,
    Pair,
    against_baselines,
    cell_of_job,
    names_servers,
    two_cells,
    two_jobs,
    two_servers,
    two_sweeps,
)
from ddqueue.storage.reading import PostgresReader


@click.command()
@click.argument("a")
@click.argument("b", required=False)
@click.option("--sweep", help="The sweep that A and B are configurations or hosts of; name@2 for its second revision.")
@click.option("--baseline", is_flag=True, help="Compare A with the baseline of the same host and parallelism.")
@click.option("--host", help="Only on this host.")
@click.option("--simulated-against-real", is_flag=True, help="Compare although one side ran on software GPUs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: ratios are of B to A.")
def compare(
    a: str,
    b: str | None,
    sweep: str | None,
    baseline: bool,
    host: str | None,
    simulated_against_real: bool,
    as_json: bool,
) -> None:
    """Say whether B is faster than A, at every point, and whether that is more than noise.

    \b
    compare OLD@1 OLD@2                    two sweeps, or the same cells on two builds
    compare "b8 t4" "b12 t6" --sweep NAME  two configurations, by label
    compare 12 15                          those of two jobs, with all their visits
    compare HOST1 HOST2 --sweep NAME       each configuration on two hosts
    compare H/EP8 H/TP8 --sweep NAME       with two parallelisms
    compare NAME --baseline                each configuration against its baseline

    A difference counts when it is significant (5%) and larger than what an unchanged configuration does between starts
    of its server. Which configuration to take, `ddqueue results` says.
    """
    if baseline == (b is not None):
        raise UsageError("name two things to compare, or one with --baseline")
    with bootstrap.reads("ddqueue compare") as reads:
        reader = PostgresReader(reads)
        pairs = _against_baselines(reader, a, sweep) if b is None else _pairs(reader, a, b, sweep)
    compared = compare_pairs(_on(host, pairs), simulated_against_real)
    if as_json:
        print_json(comparison_document(compared))
    else:
        click.echo(comparison_text(compared))


def _against_baselines(reader: PostgresReader, a: str, sweep: str | None) -> list[Pair]:
    if sweep is not None:
        return against_baselines(_judged_sweep(reader, sweep), a)
    return against_baselines(_judged_sweep(reader, a))


def _pairs(reader: PostgresReader, a: str, b: str, sweep: str | None) -> list[Pair]:
    numbers = [text.isascii() and text.isdigit() and len(text) <= 18 for text in (a, b)]
    if sweep is None and all(numbers):
        return _two_jobs(reader, int(a), int(b))
    if sweep is None:
        return two_sweeps(_judged_sweep(reader, a), _judged_sweep(reader, b))
    within = _judged_sweep(reader, sweep)
    return two_servers(within, a, b) if names_servers(within, a, b) else two_cells(within, a, b)


def _two_jobs(reader: PostgresReader, a: int, b: int) -> list[Pair]:
    jobs = [reader.job_names(job_id) for job_id in (a, b)]
    sweeps = {job["sweep_id"]: _judged_sweep(reader, job["sweep"]) for job in jobs}
    here, there = (cell_of_job(sweeps[job["sweep_id"]], job["host"], job["parallel"], job["cell_hash"]) for job in jobs)
    return two_jobs(here, there)


def _judged_sweep(reader: PostgresReader, reference: str) -> JudgedSweep:
    try:
        found = reader.sweep(reference)
    except UsageError as error:
        raise UsageError(f"{error} (a configuration or a host needs --sweep)") from None
    canonical = {row["cell_hash"]: row["canonical"] for row in reader.cells(found.sweep_id)}
    return JudgedSweep(str(found), judged(reader, found.sweep_id), canonical)


def _on(host: str | None, pairs: list[Pair]) -> list[Pair]:
    """Raises UsageError where nothing is left to compare."""
    hosts = {side.cell.measured.server[0] for pair in pairs for side in (pair.a, pair.b)}
    found = [pair for pair in pairs if host in (None, *(side.cell.measured.server[0] for side in (pair.a, pair.b)))]
    if not found:
        where = f" on {host}; there is {', '.join(sorted(hosts))}" if hosts else "; no host has both"
        raise UsageError(f"there is nothing to compare{where}")
    return found
