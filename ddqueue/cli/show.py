"""`ddqueue show JOB`."""

from __future__ import annotations

from typing import Any

import click

from ddqueue.cli.output import duration, print_json, print_table
from ddqueue.domain.failures import POLICIES, Failure
from ddqueue.report.grid import visible


@click.command()
@click.argument("job", type=int)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(job: int, as_json: bool) -> None:
    """Everything about one job: its configuration, attempts with their steps and numbers, and its history."""
    from ddqueue import bootstrap
    from ddqueue.storage.reading import PostgresReader

    with bootstrap.reads("ddqueue show") as reads:
        row = PostgresReader(reads).job(job)
    if as_json:
        print_json(row)
        return
    _print_job(row)
    for attempt in row["attempts"]:
        _print_attempt(attempt)
    click.echo()
    print_table(
        "History",
        ["at", "what", "detail"],
        [[f"{event['at']:%Y-%m-%d %H:%M:%S}", event["kind"], _detail(event["detail"])] for event in row["events"]],
    )


def _print_job(row: dict[str, Any]) -> None:
    click.echo(click.style(f"Job {row['id']}: {row['label']} on {row['host']} {row['parallel']}", bold=True))
    click.echo(f"  sweep   {row['sweep']}@{row['revision']}, cell {row['cell_hash']}, engine {row['engine']}")
    if row["visit"] > 1 or row["control"]:
        click.echo(f"  visit   {row['visit']}{' of the control cell' if row['control'] else ''}")
    click.echo(f"  state   {row['state']}, {row['tries']} tries used")
    if row["failure"]:
        click.echo(f"  why     {row['failure']}: {row['evidence']}")
        click.echo(f"  remedy  {POLICIES[Failure(row['failure'])].remedy}")


def _print_attempt(attempt: dict[str, Any]) -> None:
    outcome = attempt["outcome"] or "running"
    simulated = ", simulated" if attempt["simulated"] else ""
    click.echo()
    click.echo(click.style(f"Attempt {attempt['number']}: {outcome}{simulated}", bold=True))
    if attempt["failure"]:
        click.echo(f"  {attempt['failure']}: {attempt['evidence']}")
    if attempt["difference"]:
        click.echo(f"  asked and not got: {attempt['difference']}")
    for warning in (attempt["provenance"] or {}).get("engine_warnings", []):
        click.echo(f"  the engine says: {visible(warning)}")
    print_table(
        "  Steps",
        ["step", "took", "detail"],
        [[phase["name"], duration(phase["duration_s"]), phase["detail"]] for phase in attempt["phases"]],
    )
    if attempt["measurements"]:
        print_table(
            "  Measurements",
            ["point", "repeat", "tok/s", "TTFT p50 ms", "ITL mean ms", "acceptance", "step ms", "verdict"],
            [_measurement(row) for row in attempt["measurements"]],
        )


def _measurement(row: dict[str, Any]) -> list[object]:
    return [
        f"C={row['concurrency']} {row['context_tokens']}",
        row["repeat"],
        _number(row["output_throughput_tok_s"], 1),
        _number(row["ttft_p50_ms"], 1),
        _number(row["itl_mean_ms"], 2),
        _number(row["acceptance_length"], 2),
        _number(row["step_time_ms"], 1),
        "valid" if row["valid"] else ", ".join(row["reasons"]),
    ]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _detail(detail: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (detail or {}).items()) or "-"
