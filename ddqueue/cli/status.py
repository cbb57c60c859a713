"""`ddqueue status [SWEEP]`."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import click

from ddqueue.cli.output import duration, print_json, print_table
from ddqueue.domain.states import JobState

if TYPE_CHECKING:
    from ddqueue.storage.reading import PostgresReader

_RECENT = 10


@click.command()
@click.argument("sweep", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--watch", is_flag=True, help="Go on showing what happens: until SWEEP has ended, or until ^C. Lines in a log."
)
def status(sweep: str | None, as_json: bool, watch: bool) -> None:
    """Hosts, what they work on, and what waits; with SWEEP (name or name@2), every job of it.

    Times left are those of earlier jobs of the same sweep on the same host, step by step; before there is one, the
    plan's assumption, marked so.
    """
    from ddqueue import bootstrap
    from ddqueue.storage.reading import PostgresReader

    if watch and as_json:
        raise click.UsageError("--watch is for eyes; for a program, ask `ddqueue status --json` again and again")
    if watch:
        _watch(sweep)
        return
    with bootstrap.reads("ddqueue status") as reads:
        reader = PostgresReader(reads)
        if sweep is not None:
            _show_sweep(reader, sweep, as_json)
            return
        hosts, sweeps = reader.hosts(), reader.sweeps()
        if as_json:
            print_json({"hosts": hosts, "sweeps": sweeps, "queue": reader.queue()})
            return
    if not sweeps:
        click.echo("nothing was submitted yet; try: ddqueue submit SWEEP.yaml")
        return
    print_table("Hosts", ["host", "state", "job", "doing", "since", "waiting"], [_host(row) for row in hosts])
    click.echo()
    print_table(
        "Sweeps", ["sweep", "jobs", "queued", "running", "done", "note"], [_sweep(row) for row in sweeps[:_RECENT]]
    )
    if len(sweeps) > _RECENT:
        click.echo(f"  and {len(sweeps) - _RECENT} older ones (--json lists all)")


def _show_sweep(reader: PostgresReader, sweep: str, as_json: bool) -> None:
    reference = reader.sweep(sweep)
    jobs = reader.jobs(reference.sweep_id)
    if as_json:
        print_json({"sweep": str(reference), "jobs": jobs})
    else:
        _print_jobs(str(reference), jobs)


def _watch(sweep: str | None) -> None:
    from ddqueue import bootstrap
    from ddqueue.cli.live import watch
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.references import find_sweep

    sql_engine = bootstrap.sql_engine("ddqueue status")
    reference = None if sweep is None else find_sweep(PooledReads(sql_engine), sweep)
    with contextlib.suppress(KeyboardInterrupt):  # the way to end it
        watch(sql_engine, sys.stdout, reference, bootstrap.patience().database_away_s)


def _host(row: dict[str, Any]) -> list[object]:
    if row["quarantined_at"] is not None:
        state = f"quarantined: {row['quarantine_class']}: {row['quarantine_reason']}"
    elif row["held_at"] is not None:
        state = f"held: {row['hold_reason']}"
    elif row["job_id"] is None:
        state = "idle"
    else:
        state = "lease expired" if row["lease_expired"] else "running"
    job = "-" if row["job_id"] is None else f"{row['job_id']} {row['sweep']} {row['parallel']} {row['label']}"
    name = f"{row['name']} (simulated)" if row["simulated"] else row["name"]
    return [name, state, job, row["activity"] or "-", duration(row["running_s"]), row["queued"]]


def _sweep(row: dict[str, Any]) -> list[object]:
    done = ", ".join(
        f"{row[state]} {state}"
        for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.UNSUPPORTED, JobState.PRUNED, JobState.CANCELLED)
        if row[state]
    )
    notes = [word for word, true in (("simulated", row["simulated"]), ("paused", row["paused"])) if true]
    reference = f"{row['name']}@{row['revision']}"
    return [reference, row["jobs"], row["queued"], row["running"], done or "-", ", ".join(notes) or "-"]


def _print_jobs(reference: str, jobs: list[dict[str, Any]]) -> None:
    print_table(
        reference,
        ["job", "host", "parallel", "configuration", "visit", "state", "tries", "why"],
        [
            [
                row["job_id"],
                row["host"],
                row["parallel"],
                row["label"] + (" (out of distribution)" if row["out_of_distribution"] else ""),
                f"{row['visit']} (control)" if row["control"] else row["visit"],
                row["state"],
                row["tries"],
                f"{row['failure']}: {row['evidence']}" if row["failure"] else "-",
            ]
            for row in jobs
        ],
    )
