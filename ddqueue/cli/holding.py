"""`hold`, `drain`, `release`: whether a host takes work."""

from __future__ import annotations

import re
import time

import click

from ddqueue.cli.control import control
from ddqueue.errors import UsageError

_LOOK_EVERY_S = 0.5
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_LONGEST_S = 366 * 86400


@click.command()
@click.argument("host")
@click.option("--for", "duration", metavar="TIME", help="How long: 30min, 2h, 1d. Without it: until `ddqueue release`.")
@click.option("--reason", required=True, help="Why, for whoever finds the box held.")
@click.option("--now", is_flag=True, help="Stop the attempt that runs, too; its job goes back to the queue.")
def hold(host: str, duration: str | None, reason: str, now: bool) -> None:
    """Give HOST to a person from the next job on: it takes no more until the time is over or it is released.

    What runs goes on to its end, unless --now: then it is stopped, its points measured so far are kept, and its job
    goes on where it was when the host works again.
    """
    hand, _ = control()
    running = hand.hold(host, _without_blank(reason), _seconds(duration) if duration else None, now)
    until = f"for {duration}" if duration else "until it is released"
    click.echo(f"{host} is held {until}" + _what_runs(host, running, now))


@click.command()
@click.argument("host")
@click.option("--reason", default="drained", show_default=True, help="Why, for whoever finds the box held.")
@click.option("--wait", is_flag=True, help="Return when nothing runs there any more.")
def drain(host: str, reason: str, wait: bool) -> None:
    """Let HOST finish its current job and take no more, until `ddqueue release`: before an upgrade, say."""
    hand, _ = control()
    running = hand.hold(host, _without_blank(reason))
    click.echo(f"{host} takes no more jobs" + _what_runs(host, running, now=False))
    shown = running
    while wait and (running := hand.running_job(host)) is not None:
        if running != shown:
            shown = running
            click.echo(f"  job {running} had just begun")
        time.sleep(_LOOK_EVERY_S)
    if wait:
        click.echo(f"{host} is drained")


@click.command()
@click.argument("host")
def release(host: str) -> None:
    """Let HOST take work again after a quarantine, a hold or a drain.

    Look at the box first: `ddqueue hosts` says why it is shut.
    """
    if not host:
        raise UsageError("name the host to release; `ddqueue status` lists them")
    hand, _ = control()
    click.echo(f"{host} " + ("takes work again" if hand.release(host) else "was neither quarantined nor held"))


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(s|min|h|d)", text)
    seconds = float(found.group(1)) * _UNITS[found.group(2)] if found else 0.0
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError(f"--for {text!r} is no length of time up to a year; write 30min, 2h or 1d")
    return seconds


def _without_blank(reason: str) -> str:
    if not reason.strip():
        raise UsageError("--reason is empty; say why, for whoever finds the box held")
    return reason.strip()


def _what_runs(host: str, job: int | None, now: bool) -> str:
    if job is None:
        return "; nothing runs there"
    if now:
        return f"; job {job} is asked to stop and waits again"
    return f"; job {job} goes on to its end"
