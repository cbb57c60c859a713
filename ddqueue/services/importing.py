"""Results measured by hand as a sweep with its jobs, so that whatever reads sweeps reads them too."""

from __future__ import annotations

from collections import Counter

from ddqueue.domain.configuration import Parallelism
from ddqueue.domain.hand_measured import HandMeasured
from ddqueue.domain.sweep import JobSpec, Measure, OutOfDistribution, Repeats, Sweep, SweepCell


def as_sweep(measured: HandMeasured, name: str, model: str, engine: str) -> tuple[Sweep, list[JobSpec]]:
    """The sweep, and one job for each row in the rows' order.

    A configuration that stands in two rows of one host and parallelism was measured twice: these are two visits.
    """
    cells: dict[str, SweepCell] = {}
    parallel: dict[str, dict[Parallelism, None]] = {}
    visits: Counter[tuple[str, str, Parallelism]] = Counter()
    jobs = []
    for row in measured.rows:
        cell = cells.setdefault(row.cell.cell.hash, row.cell)
        parallel.setdefault(row.host, {})[row.parallelism] = None
        server = (cell.cell.hash, row.host, row.parallelism)
        visits[server] += 1
        jobs.append(JobSpec(cell, row.host, row.parallelism, visits[server]))
    untrained = any(cell.out_of_distribution for cell in cells.values())
    sweep = Sweep(
        name=name,
        model=model,
        engine=engine,
        hosts=tuple(parallel),
        parallel={host: tuple(labels) for host, labels in parallel.items()},
        cells=tuple(cells.values()),
        measure=Measure(measured.points, Repeats(minimum=1, maximum=1), visits=max(visits.values())),
        out_of_distribution=OutOfDistribution.ALLOW if untrained else OutOfDistribution.REFUSE,
        file_name=measured.file_name,
        file_text=measured.file_text,
    )
    return sweep, jobs
