"""`ddqueue plan`: what a sweep would do. Reads nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ddqueue.domain.inventory import Inventory
from ddqueue.domain.planning import REAL, SIMULATED, HostPlan, JobKey, Plan, cautions, planned_job
from ddqueue.domain.sweep import Sweep, jobs_of


def plan(sweep: Sweep, inventory: Inventory, durations_s: Mapping[JobKey, float] | None = None) -> Plan:
    """The plan of a sweep.

    `durations_s` gives the seconds that earlier attempts took, by (cell hash, host, parallelism label); every other
    time rests on the plan's assumptions.

    Raises:
        UsageError: the inventory lacks the sweep's model, engine or one of its hosts.
    """
    inventory.model(sweep.model)
    inventory.engine(sweep.engine)
    assumptions = SIMULATED if sweep.simulated else REAL
    jobs = jobs_of(sweep)
    planned = [planned_job(job, sweep.measure, assumptions, durations_s or {}) for job in jobs]
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
        warnings=tuple(cautions(sweep, jobs)),
    )
