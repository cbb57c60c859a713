"""`ddqueue worker --host NAME`."""

from __future__ import annotations

import sys

import click


@click.command()
@click.option("--host", required=True, metavar="NAME", help="The host this machine is, as the inventory calls it.")
def worker(host: str) -> None:
    """Serve one host: take its jobs one at a time, until told to stop.

    SIGTERM stops the current attempt, which goes back to the queue, and then the worker.
    """
    from ddqueue import bootstrap
    from workers.worker import run_worker

    bootstrap.check_host(host)
    bootstrap.check_schema()
    sys.exit(run_worker(bootstrap.celery_app(), host, bootstrap.patience().attempt_limit_s))
