"""Was the load client the limit, and not the server? Judged from one run's records and the client's own figures.

Each rule compares how far the client may have bent a number with the number itself, because a machine in ordinary use
delays any process now and then, and a rule that is always broken says nothing.
"""

from __future__ import annotations

from statistics import median

from ddqueue.domain.measurement import PointRun, RequestRecord

BENT_SHARE = 0.05
"""More than a twentieth is no longer noise: no sweep could tell a difference of 5% between two cells."""

ORDINARY_PAUSE_S = 0.1
"""Any process is now and then kept waiting so long where others work. A window in which this is more than BENT_SHARE is
shorter than two seconds, and its repeats show the scatter."""

ORDINARY_TURN_MS = 5.0
"""A few time slices of the scheduler: what a process waits for a CPU where one or two others want the same."""

FULL_CORE_SHARE = 0.9
"""The client has one thread. So near one core, chunks wait for it more often than it waits for chunks."""


def client_trouble(run: PointRun) -> str | None:
    """In words how the client itself was the limit; None when it was not, as far as its figures can tell."""
    if not run.requests or run.wall_s <= 0:
        return None
    return _empty_places(run) or _long_pause(run) or _late_turns(run) or _full_core(run)


def empty_place_s(requests: tuple[RequestRecord, ...], concurrency: int) -> float:
    """Seconds that the average place of the closed loop stood empty although a request was still to be sent.

    A place may stand empty once the last request was sent: answers do not all end together, and that is the server's
    doing. Before that, every place should be taken; the time from the window's start to a request's, or from one
    answer's end to the next request's start, is the client's.
    """
    last_start_s = max(request.started_s for request in requests)
    taken_s = sum(max(0.0, min(request.finished_s, last_start_s) - request.started_s) for request in requests)
    return max(0.0, last_start_s - taken_s / min(concurrency, len(requests)))


def _empty_places(run: PointRun) -> str | None:
    empty_s = empty_place_s(run.requests, run.point.concurrency)
    if empty_s <= max(ORDINARY_PAUSE_S, BENT_SHARE * run.wall_s):
        return None
    in_flight = run.point.concurrency * (1 - empty_s / run.wall_s)
    return (
        f"the client kept about {in_flight:.1f} of {run.point.concurrency} requests in flight while there were more to "
        f"send: each place stood empty for {empty_s:.2f} of {run.wall_s:.2f} s"
    )


def _long_pause(run: PointRun) -> str | None:
    pause_s = (_figure(run, "loop_lag_max_ms") or 0.0) / 1000
    if pause_s <= ORDINARY_PAUSE_S:
        return None
    first_s = [request.arrivals[0][0] - request.started_s for request in run.requests if request.arrivals]
    # One pause moves the whole window's end by its length at most, but a first token by as much.
    if pause_s <= BENT_SHARE * run.wall_s and not (first_s and pause_s > median(first_s) / 2):
        return None
    return (
        f"the client did not look at its connections for {pause_s:.2f} s, in a window of {run.wall_s:.2f} s: what came "
        "meanwhile has a wrong time"
    )


def _late_turns(run: PointRun) -> str | None:
    """The wait for a CPU counts by what it did to a time, not by its share of the window: a thousand turns a second,
    each a fifth of a millisecond late, are a fifth of the window and bend nothing."""
    late_ms = _figure(run, "run_queue_mean_ms") or 0.0
    gaps_ms = [_chunk_gap_ms(request) for request in run.requests if len(request.arrivals) > 1]
    if not gaps_ms or late_ms <= max(ORDINARY_TURN_MS, BENT_SHARE * median(gaps_ms)):
        return None
    return (
        f"the client waited {late_ms:.1f} ms for a CPU at every turn, with chunks {median(gaps_ms):.1f} ms apart: the "
        "host has too few cores free, for the server too"
    )


def _full_core(run: PointRun) -> str | None:
    cpu_s = _figure(run, "cpu_s") or 0.0
    if cpu_s <= max(ORDINARY_PAUSE_S, FULL_CORE_SHARE * run.wall_s):
        return None
    return f"the client used {cpu_s:.2f} s of CPU in a window of {run.wall_s:.2f} s, and has one thread"


def _chunk_gap_ms(request: RequestRecord) -> float:
    return (request.arrivals[-1][0] - request.arrivals[0][0]) * 1000 / (len(request.arrivals) - 1)


def _figure(run: PointRun, name: str) -> float | None:
    value = run.client.get(name)
    return value if isinstance(value, (int, float)) else None
