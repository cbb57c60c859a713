"""`ddqueue plan`: what a sweep would do, without doing it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from ddqueue.domain.inventory import Inventory
from ddqueue.domain.planning import REAL, SIMULATED, HostPlan, JobKey, Plan, cautions, key_of, planned_job
from ddqueue.domain.preflight.finding import Finding
from ddqueue.domain.sweep import JobSpec, Point, Sweep, jobs_of
from ddqueue.ports import LaunchRequest
from ddqueue.services.preflight import Examined

Examine = Callable[[LaunchRequest, tuple[Point, ...]], Examined]


def plan(
    sweep: Sweep,
    inventory: Inventory,
    durations_s: Mapping[JobKey, float] | None = None,
    examine: Examine | None = None,
) -> Plan:
    """The plan of a sweep.

    `durations_s` gives the seconds that earlier attempts took, by (cell hash, host, parallelism label); every other
    time rests on the plan's assumptions. `examine` checks each job before its launch; without it nothing is refused.

    Raises:
        UsageError: the inventory lacks the sweep's model, engine or one of its hosts.
    """
    inventory.model(sweep.model)
    inventory.engine(sweep.engine)
    assumptions = SIMULATED if sweep.simulated else REAL
    jobs = jobs_of(sweep)
    planned = []
    known: dict[JobKey, tuple[Finding, ...]] = {}
    for job in jobs:
        if examine and key_of(job) not in known:  # every visit of a cell is the same request
            known[key_of(job)] = examine(_request(job, inventory), sweep.measure.points).findings
        findings = known.get(key_of(job), ())
        planned.append(planned_job(job, sweep.measure, assumptions, durations_s or {}, findings))
    startable = [job for job, done in zip(jobs, planned, strict=True) if done.refusal is None]
    return Plan(
        sweep=sweep.name,
        model=sweep.model,
        engine=sweep.engine,
        simulated=sweep.simulated,
        points=tuple(point.label for point in sweep.measure.points),
        folded=sweep.folded,
        hosts=tuple(
            HostPlan(
                host=inventory.host(name).name,
                jobs=tuple(job for job in planned if job.host == name),
                points_per_server=len(sweep.measure.points),
            )
            for name in sweep.hosts
        ),
        assumptions=assumptions,
        warnings=tuple(cautions(sweep, startable)),
        visits=sweep.measure.visits,
        control_every=sweep.measure.control.every if sweep.measure.control else None,
        goodput=sweep.measure.goodput,
        prune=sweep.measure.prune,
    )


def _request(job: JobSpec, inventory: Inventory) -> LaunchRequest:
    """What an attempt would launch; what only an attempt has, a tag and a lock, is left empty."""
    cell = job.cell.cell
    return LaunchRequest(
        host=inventory.host(job.host),
        model=inventory.model(cell.model),
        profile=inventory.engine(cell.engine),
        cell=cell,
        parallelism=job.parallelism,
        tag="plan",
        log_path=os.devnull,
        lock_fd=-1,
        lock_path=os.devnull,
        random_seed=0,
    )
