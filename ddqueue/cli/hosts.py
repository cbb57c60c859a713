"""`ddqueue hosts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from ddqueue.cli.output import duration, print_json, print_table

_FAILURES = 3


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def hosts(as_json: bool) -> None:
    """Every host: what it is, who works on it, whether it takes work and why not, and its newest failures.

    A worker whose ddqueue is another version than the dispatcher's is marked; so is a box that is borrowed just now.
    `ddqueue doctor` examines the box itself; `ddqueue release HOST` lets a quarantined one take work again.
    """
    from ddqueue import bootstrap
    from ddqueue.storage.reading import PostgresReader

    with bootstrap.reads("ddqueue hosts") as reads:
        reader = PostgresReader(reads)
        rows, failures, dispatchers = reader.hosts(), reader.host_failures(_FAILURES), reader.dispatchers()
    expected = _expected_version(dispatchers, rows)
    for row in rows:
        row["last_failures"] = [failure for failure in failures if failure["host"] == row["name"]]
        row["version_differs"] = row["worker_version"] not in (None, expected)
    if as_json:
        print_json({"hosts": rows, "dispatchers": dispatchers, "expected_version": expected})
        return
    if not rows:
        click.echo("no host is known yet: the database learns of one when its worker starts, or a sweep names it")
        return
    heads = ["host", "GPUs", "state", "job", "owner", "doing", "since", "waiting", "version"]
    print_table("Hosts", heads, [_summary(row) for row in rows])
    for row in rows:
        _print_why_shut(row)
        _print_borrowed(row)
    _print_other_versions(rows, dispatchers, expected)
    for row in rows:
        if row["last_failures"]:
            click.echo()
            _print_failures(row)


def _expected_version(dispatchers: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> str | None:
    """The dispatcher's that was seen last; without one, what most workers run, the newest-seen of equals."""
    if dispatchers:
        return str(dispatchers[0]["version"])
    seen = sorted((row for row in rows if row["worker_version"]), key=lambda row: row["worker_seen_at"], reverse=True)
    most = Counter(row["worker_version"] for row in seen).most_common(1)
    return most[0][0] if most else None


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
        f"{row['worker_version'] or '-'}{' (!)' if row['version_differs'] else ''}",
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


def _print_borrowed(row: dict[str, Any]) -> None:
    """The hours are those of the box's own inventory and clock, as its worker last said them."""
    if row["borrow"] is None and row["loan_state"] is None:
        return
    hours = (row["borrow"] or {}).get("hours")
    when = f"within {hours} by its own clock" if hours else "at any hour"
    if row["borrow"] is None:
        when = "though its inventory no longer says so"
    if row["loan_state"] is None:
        now = "production has it now"
    else:
        now = f"{row['loan_state']}, out of production since {row['borrowed_since']:%Y-%m-%d %H:%M:%S}"
    click.echo()
    click.echo(f"{row['name']} is borrowed {when}: {now}")


def _print_other_versions(
    rows: Sequence[dict[str, Any]], dispatchers: Sequence[dict[str, Any]], expected: str | None
) -> None:
    whose = f"the dispatcher on {dispatchers[0]['name']}" if dispatchers else "most workers"
    for row in rows:
        if row["version_differs"]:
            click.echo()
            seen = f"seen {row['worker_seen_at']:%Y-%m-%d %H:%M:%S}"
            click.echo(f"(!) {row['name']} runs ddqueue {row['worker_version']}, {seen}; {whose}: {expected}")


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
