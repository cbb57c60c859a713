"""`ddqueue doctor`: is this host fit to measure on?"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ddqueue.cli.output import as_json_text
from ddqueue.domain.health import Check, Verdict, passed
from ddqueue.errors import UsageError

if TYPE_CHECKING:
    from ddqueue.domain.inventory import Host, Inventory

_COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "red"}


@click.command()
@click.option("--host", "name", metavar="NAME", help="The host this machine is; needed when the inventory has several.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--measure/--no-measure", default=True, help="Measure the GPUs' bandwidth too, in about a minute.")
def doctor(name: str | None, as_json: bool, measure: bool) -> None:
    """Examine this machine as a host: GPUs, driver, room, limits, models, engines, database and broker.

    No setting is changed; like an attempt, it owns the host meanwhile and ends what a dead attempt left running. The
    findings are kept in ddqueue's folder, as doctor/HOST.json; the bandwidth measured last is recorded with every
    attempt. Exit code 1 when a check failed; warnings pass.
    """
    from ddqueue import bootstrap
    from ddqueue.cli.examination import Examination, holding
    from ddqueue.services.doctor import examine

    known = bootstrap.inventory()
    host = _this_host(known, name)
    with holding(host) as held:
        examination = Examination(known, host, held, measure)
        checks = examine(examination.looks(), lambda check: None if as_json else _print_check(check))
    found = {
        "host": host.name,
        "simulated": host.simulated,
        "at": datetime.now(UTC),
        "passed": passed(checks),
        "checks": [vars(check) for check in checks],
        "bandwidth": examination.bandwidth or None,
    }
    _keep(host, found)
    if as_json:
        click.echo(as_json_text(found))
    elif passed(checks):
        click.echo(f"{host.name} is fit for work")
    else:
        failed = sum(check.verdict is Verdict.FAIL for check in checks)
        click.echo(f"{host.name} is not fit for work: {failed} of {len(checks)} checks failed")
    if not passed(checks):
        sys.exit(1)


def _this_host(known: Inventory, name: str | None) -> Host:
    """The named host; else the inventory's only one, or the one with this machine's name."""
    if name is not None:
        return known.host(name)
    if len(known.hosts) == 1:
        return next(iter(known.hosts.values()))
    if platform.node() in known.hosts:
        return known.host(platform.node())
    raise UsageError(f"say which host this machine is, with --host: {known.file} has {', '.join(sorted(known.hosts))}")


def _print_check(check: Check) -> None:
    verdict = click.style(f"{check.verdict:<4}", fg=_COLOURS[check.verdict])
    click.echo(f"{verdict}  {check.name}: {check.finding}")
    if check.remedy:
        click.echo(f"      {check.remedy}")


def _keep(host: Host, found: dict[str, Any]) -> None:
    """Keep the findings, and of the bandwidth the last that was measured, for every attempt records it. A folder that
    cannot be written is a finding already."""
    from ddqueue import settings
    from ddqueue.gpu.bandwidth import kept_bandwidth

    path = settings.examination_path(host.name)
    if found["bandwidth"] is None:
        found = {**found, "bandwidth": kept_bandwidth(path)}
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(as_json_text(found), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        click.echo(f"the findings could not be kept in {path}: {error.strerror}", err=True)
