"""`cancel`, `retry`, `pause`, `resume`: a person's hand on the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ddqueue.domain.failures import Failure

if TYPE_CHECKING:
    from sqlalchemy import Engine as SqlEngine

    from ddqueue.storage.control import PostgresControl

_NAMES = [failure.value for failure in Failure]


def control() -> tuple[PostgresControl, SqlEngine]:
    from ddqueue import bootstrap
    from ddqueue.storage.control import PostgresControl

    engine = bootstrap.sql_engine("ddqueue control")
    return PostgresControl(engine), engine


@click.command()
@click.argument("target")
@click.option(
    "--box-gone", is_flag=True, help="End also what ran on a box that will not come back: its lease has expired."
)
def cancel(target: str, box_gone: bool) -> None:
    """End TARGET: a job's number, or a sweep's name (name@2 for a revision).

    What waits ends at once; what runs is asked to stop, and its partial numbers are kept. A box that was away carries
    that out when it is back.
    """
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.references import find_target

    hand, engine = control()
    changed = hand.cancel(find_target(PooledReads(engine), target), box_gone)
    click.echo(f"{len(changed.ended)} jobs cancelled, {len(changed.asked_to_stop)} running ones asked to stop")


@click.command()
@click.argument("target")
@click.option(
    "--failure", "failures", multiple=True, type=click.Choice(_NAMES, case_sensitive=False), metavar="CLASS",
    help="Only jobs that ended with this failure class; may be given again.",
)  # fmt: skip
def retry(target: str, failures: tuple[str, ...]) -> None:
    """Put the failed, unsupported, cancelled and pruned jobs of TARGET back into the queue, with all their tries.

    A pruned job, given up because others were clearly faster, is then measured whole.
    """
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.references import find_target

    hand, engine = control()
    retried = hand.retry(find_target(PooledReads(engine), target), [Failure(name) for name in failures] or None)
    click.echo(f"{len(retried)} jobs queued again")


@click.command()
@click.argument("sweep")
def pause(sweep: str) -> None:
    """Start no more jobs of SWEEP; what runs goes on."""
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.references import find_sweep

    hand, engine = control()
    reference = find_sweep(PooledReads(engine), sweep)
    click.echo(f"{reference} " + ("is paused" if hand.pause(reference.sweep_id) else "was paused already"))


@click.command()
@click.argument("sweep")
def resume(sweep: str) -> None:
    """Go on with a paused SWEEP."""
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.references import find_sweep

    hand, engine = control()
    reference = find_sweep(PooledReads(engine), sweep)
    click.echo(f"{reference} " + ("goes on" if hand.resume(reference.sweep_id) else "was not paused"))
