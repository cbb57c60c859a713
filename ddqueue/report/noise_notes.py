"""What is said below a table of the box's own noise: its floor, and whether the control cell drifted. Pure."""

from __future__ import annotations

from ddqueue.domain.drift import FEWEST
from ddqueue.domain.noise import FEW_STARTS, NO_FLOOR, NoiseFloor, percent
from ddqueue.domain.sweep import Point
from ddqueue.report.cells import Server
from ddqueue.report.judgement import ControlDrift, Judgement


def noise_notes(judgement: Judgement, host: str) -> list[str]:
    """For each parallelism of the host, named where there are several: the floor, then the drift of the control."""
    servers = judgement.servers(host)
    notes = []
    for server in servers:
        which = f"{server[1]}: " if len(servers) > 1 else ""
        notes += [f"{which}{text}" for text in (*_floor_words(judgement, server), *_drift_words(judgement, server))]
    return notes


def drift_words(control: ControlDrift) -> str:
    """`the control cell (baseline) shows no trend over 6 visits (p = 0.47)`."""
    what = f"the control cell ({control.label})"
    if control.drift is not None:
        return control.drift.words(what)
    visits = "one visit" if control.visits == 1 else f"{control.visits} visits"
    return f"{what} has {visits} with every point: to show a trend it needs {FEWEST}"


def _drift_words(judgement: Judgement, server: Server) -> list[str]:
    return [drift_words(control) for control in judgement.drifts if control.server == server]


def _floor_words(judgement: Judgement, server: Server) -> list[str]:
    """One line for all points that rest on as many visits."""
    alike: dict[tuple[int, int], list[tuple[Point, NoiseFloor]]] = {}
    for point in judgement.points:
        floor = judgement.floor(server, point)
        if floor is not None:
            alike.setdefault((floor.visits, floor.cells), []).append((point, floor))
    if not alike:
        has_control = any(control.server == server for control in judgement.drifts)
        return [f"{'' if has_control else 'no control cell: '}the noise floor is unknown, for {NO_FLOOR}"]
    return [_line(visits, cells, found) for (visits, cells), found in alike.items()]


def _line(visits: int, cells: int, found: list[tuple[Point, NoiseFloor]]) -> str:
    of = f" of {cells} configurations" if cells > 1 else ""
    values = ", ".join(f"{percent(floor.fraction)} at {point.label}" for point, floor in found)
    few = any(floor.visit.freedom < FEW_STARTS for _, floor in found)
    doubt = "; so few visits that most of it is doubt about the floor itself" if few else ""
    return f"noise floor, from {visits} visits{of}: {values}{doubt}"
