"""`ddqueue worker --host NAME`."""

from __future__ import annotations

import sys

import click

from ddqueue.errors import DdqueueError

_CHECK_LIMIT_S = 5.0


@click.command()
@click.option("--host", required=True, metavar="NAME", help="The host this machine is, as the inventory calls it.")
@click.option("--check", is_flag=True, help="Start nothing; say whether the host's worker answers over the broker.")
def worker(host: str, check: bool) -> None:
    """Serve one host: take its jobs one at a time, until told to stop.

    SIGTERM stops the current attempt, which goes back to the queue, and then the worker. A host that is borrowed is
    given back before the worker ends; exit code 1 says that this failed, 2 that a newer ddqueue is needed here.
    """
    from ddqueue import bootstrap

    if check:
        _check(host)
        return
    from workers.borrowed import give_back_if_borrowed
    from workers.worker import run_worker

    try:
        bootstrap.check_host(host)
        bootstrap.introduce_worker(host)
        app, limit_s = bootstrap.celery_app(), bootstrap.patience().attempt_limit_s
    except DdqueueError:
        # An earlier worker may have left it so, and production is not to wait until somebody mends what is wrong here.
        give_back_if_borrowed(host, bootstrap.loan_record(host))
        raise
    sys.exit(run_worker(app, host, limit_s))


def _check(host: str) -> None:
    from ddqueue import bootstrap
    from ddqueue.queue.answering import answers

    if not answers(bootstrap.celery_app(), host, _CHECK_LIMIT_S):
        raise DdqueueError(f"the worker of {host} does not answer")
    click.echo(f"the worker of {host} answers")
