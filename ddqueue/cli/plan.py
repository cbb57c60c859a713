"""`ddqueue plan FILE`: what a sweep would do, without doing it."""

from __future__ import annotations

from pathlib import Path

import click

from ddqueue import bootstrap
from ddqueue.cli.output import duration, print_json, print_table
from ddqueue.domain.planning import Plan, PlannedJob
from ddqueue.domain.preflight.finding import Finding, Severity
from ddqueue.files.sweep_file import read_sweep
from ddqueue.services.plan import plan as work_out


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--inventory", type=click.Path(path_type=Path), help="The inventory file; else as DDQUEUE_INVENTORY says."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(file: Path, inventory: Path | None, as_json: bool) -> None:
    """Show what the sweep in FILE would do: cells, restarts and their order, points, expected time.

    Jobs that would be refused before their server is started are marked, with the reason; they end UNSUPPORTED,
    BAD_ARGS or MODEL_NOT_FOUND when submitted. What lies only on the hosts is checked there, before each launch.

    Needs no database and changes nothing.
    """
    known = bootstrap.inventory(inventory)
    examine = bootstrap.planning_checks(lambda text: click.echo(text, err=True))
    worked_out = work_out(read_sweep(file, known), known, examine=examine)
    if as_json:
        print_json(worked_out.to_json())
        return
    _print_cells(worked_out)
    _print_hosts(worked_out)
    _print_foot(worked_out)


def _print_cells(plan: Plan) -> None:
    """One row a cell, one column a host and parallelism, with the expected time of that job."""
    columns = list(dict.fromkeys((job.host, job.parallelism) for host in plan.hosts for job in host.jobs))
    rows = []
    for number, (cell, jobs) in enumerate(_cells(plan).items(), start=1):
        first = next(iter(jobs.values()))[0]
        label = first.label + (" (out of distribution)" if first.out_of_distribution else "")
        rows.append([number, cell, label, *(_time(jobs[column]) for column in columns)])
    kind = " (simulated)" if plan.simulated else ""
    folded = f"; {plan.folded} duplicates folded" if plan.folded else ""
    visits = f", {plan.visits} visits" if plan.visits > 1 else ""
    control = f", {plan.control_jobs} of them control" if plan.control_every else ""
    counts = f"{len(rows)} cells{visits}, {plan.jobs} jobs{control}{folded}"
    title = f"{plan.sweep}: {plan.model} on {plan.engine}{kind}, {counts}"
    print_table(title, ["#", "hash", "cell", *(f"{host} {label}" for host, label in columns)], rows)
    click.echo(f"\nOn every server: {', '.join(plan.points)}")
    if plan.goodput is not None:
        click.echo(f"Goodput counts requests with {plan.goodput.words}")
    if plan.visits > 1 or plan.control_every:
        click.echo(_order(plan))
    if plan.prune:
        click.echo("Given up early: cells clearly slower than another one at every point; the middle ones come first")
    click.echo()


def _cells(plan: Plan) -> dict[str, dict[tuple[str, str], list[PlannedJob]]]:
    """The visits of each cell, by host and parallelism, in the order of the table."""
    by_cell: dict[str, dict[tuple[str, str], list[PlannedJob]]] = {}
    for host in plan.hosts:
        for job in host.jobs:
            by_cell.setdefault(job.cell, {}).setdefault((job.host, job.parallelism), []).append(job)
    return by_cell


def _order(plan: Plan) -> str:
    """`Order: 1c 2 3 1c`: the same on every host, for each parallelism."""
    numbers = {cell: number for number, cell in enumerate(_cells(plan), start=1)}
    jobs = plan.hosts[0].jobs
    turns = [f"{numbers[job.cell]}{'c' * job.control}" for job in jobs if job.parallelism == jobs[0].parallelism]
    cut = " ..." if len(turns) > _TURNS_SHOWN else ""
    lines = [f"Order, by the numbers above: {' '.join(turns[:_TURNS_SHOWN])}{cut}"]
    if plan.control_every:
        lines.append(f"  c: the control cell, first, last and after at most {plan.control_every} others")
    if plan.visits > 1:
        lines.append("  every second round runs backwards, so that a steady drift of the box cancels")
    return "\n".join(lines)


def _print_hosts(plan: Plan) -> None:
    heads = ["host", "server restarts", "points per server", "expected", "at most"]
    rows = [
        [host.host, host.restarts, host.points_per_server, duration(host.expected_s), duration(host.longest_s)]
        for host in plan.hosts
    ]
    print_table("Hosts work side by side, each through its jobs one by one", heads, rows)


def _print_foot(plan: Plan) -> None:
    assumed = plan.assumptions
    click.echo(
        f"\nDone in about {duration(plan.expected_s)} with the fewest repeats, "
        f"{duration(plan.longest_s)} with the most."
        "\nAssumed, not measured: "
        f"start {assumed.start_up_s:g} s, stop {assumed.stop_s:g} s, prefill {assumed.prefill_tok_s:g} tok/s a server, "
        f"decode {assumed.decode_tok_s:g} tok/s a request, one warm-up a point."
    )
    for warning in plan.warnings:
        click.echo(click.style("warning: ", fg="yellow") + warning.text)
    for found, where in _findings(plan).items():
        failure = f"{found.failure}: " if found.failure else ""
        click.echo(f"{_HEADS[found.severity]}{failure}{found.text} ({where})")


_TURNS_SHOWN = 40

_HEADS = {
    Severity.ERROR: click.style("refused: ", fg="red"),
    Severity.WARNING: click.style("warning: ", fg="yellow"),
    Severity.NOTE: "note: ",
}


def _findings(plan: Plan) -> dict[Finding, str]:
    """Each finding once, the refusals first, with the columns and the cells' numbers in the table it is about."""
    numbers = {cell: number for number, cell in enumerate(_cells(plan), start=1)}
    found: dict[Finding, dict[str, dict[str, None]]] = {}
    for job in (job for host in plan.hosts for job in host.jobs):
        for finding in job.findings:
            column = found.setdefault(finding, {}).setdefault(f"{job.host} {job.parallelism}", {})
            column[str(numbers[job.cell])] = None
    order = list(Severity)
    return {
        finding: "; ".join(
            # What could not be checked is about files and builds: which cells need them says nothing more.
            column if finding.severity is Severity.NOTE else f"{column}, cell {', '.join(cells)}"
            for column, cells in found[finding].items()
        )
        for finding in sorted(found, key=lambda finding: order.index(finding.severity))
    }


def _time(visits: list[PlannedJob]) -> str:
    job = visits[0]
    if job.refusal is not None:
        return str(job.refusal.failure)
    often = f"{len(visits)} x " if len(visits) > 1 else ""
    return often + duration(job.expected_s) + (" (as before)" if job.measured else "")
