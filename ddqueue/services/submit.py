"""Submitting a sweep: one transaction in Postgres; the broker is not involved."""

from __future__ import annotations

from ddqueue.domain.inventory import Inventory
from ddqueue.domain.sweep import Sweep, jobs_of
from ddqueue.domain.webhooks import check_url
from ddqueue.errors import UsageError
from ddqueue.ports import Submitted, SweepStore


def submit(
    sweep: Sweep,
    inventory: Inventory,
    store: SweepStore,
    priority: int = 0,
    after: int | None = None,
    webhook: str | None = None,
) -> Submitted:
    """Store the sweep with all its jobs, to run when the sweep with the id `after` has ended; the URL `webhook` is told
    when it ends and when a host of it is quarantined.

    Raises:
        UsageError: it expands into no job, or nothing can be sent to the URL.
        NotReachable: the database did not answer; nothing was stored.
    """
    if webhook is not None:
        check_url(webhook)
    jobs = jobs_of(sweep)
    if not jobs:
        raise UsageError(f"{sweep.file_name}: no job: every cell is excluded")
    return store.add(sweep, jobs, [inventory.host(name) for name in sweep.hosts], priority, after, webhook)
