"""`ddqueue hosts`."""

from __future__ import annotations

from typing import Any

import click

from ddqueue.cli.output import duration, print_json, print_table

_FAILURES = 3


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def hosts(as_json: bool) -> None:
    """Every host: what it is, who works on it, whether it takes work and why not, and its newest failures.

    `ddqueue doctor` examines the box itself; `ddqueue release HOST` lets a quarantined one take work again.
    """
    from ddqueue import bootstrap
    from ddqueue.storage.reading import PostgresReader

    reader = PostgresReader(bootstrap.sql_engine("ddqueue hosts"))
    rows, failures = reader.hosts(), reader.host_failures(_FAILURES)
    for row in rows:
        row["last_failures"] = [failure for failure in failures if failure["host"] == row["name"]]
    if as_json:
        print_json({"hosts": rows})
        return
    if not rows:
        click.echo("no host is known yet: the database learns of hosts when a sweep is submitted")
        return
    heads = ["host", "GPUs", "state", "job", "owner", "doing", "since", "waiting"]
    print_table("Hosts", heads, [_summary(row) for row in rows])
    for row in rows:
        _print_why_shut(row)
    for row in rows:
        if row["last_failures"]:
            click.echo()
            _print_failures(row)


def _summary(row: dict[str, Any]) -> list[object]:
    link = f", {row['interconnect']}" if row["interconnect"] else ""
    simulated = ", simulated" if row["simulated"] else ""
    job = "-" if row["job_id"] is None else f"{row['job_id']} {row['sweep']} {row['parallel']} {row['label']}"
    owner = "-" if row["worker"] is None else f"{row['worker']}, pid {row['runner_pid']}"
    return [
        row["name"],
        f"{row['gpus']} x {row['gpu_kind']}{link}{simulated}",
        _state(row),
        job,
        owner,
        row["activity"] or row["phase"] or "-",
        duration(row["running_s"]),
        row["queued"],
    ]


def _state(row: dict[str, Any]) -> str:
    if row["job_id"] is not None:
        running = "lease expired" if row["lease_expired"] else "running"
        if row["quarantined_at"] is not None:
            return f"{running}, then quarantined"
        return f"{running}, then held" if row["held_at"] is not None else running
    if row["quarantined_at"] is not None:
        return "quarantined"
    return "held" if row["held_at"] is not None else "idle"


def _print_why_shut(row: dict[str, Any]) -> None:
    if row["quarantined_at"] is not None:
        click.echo()
        click.echo(
            f"{row['name']} is quarantined since {row['quarantined_at']:%Y-%m-%d %H:%M:%S}: "
            f"{row['quarantine_class']}: {row['quarantine_reason']}"
        )
        click.echo(
            f"  look at the box (`ddqueue doctor --host {row['name']}` there), then: ddqueue release {row['name']}"
        )
    if row["held_at"] is not None:
        until = f"until {row['held_until']:%Y-%m-%d %H:%M:%S}" if row["held_until"] is not None else "until released"
        click.echo()
        click.echo(f"{row['name']} is held {until}: {row['hold_reason']}")


def _print_failures(row: dict[str, Any]) -> None:
    print_table(
        f"Newest failures on {row['name']}",
        ["at", "job", "configuration", "class", "evidence"],
        [
            [
                f"{failure['at']:%Y-%m-%d %H:%M:%S}",
                failure["job_id"],
                f"{failure['sweep']} {failure['label']}",
                failure["failure"],
                failure["evidence"] or "-",
            ]
            for failure in row["last_failures"]
        ],
    )
