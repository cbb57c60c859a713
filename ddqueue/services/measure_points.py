"""Every point of a job, measured on one running server: warm up, flush, measure, repeat until it is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ddqueue.domain.client_bound import client_trouble
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.marks import Mark
from ddqueue.domain.measurement import Invalid, Measurement
from ddqueue.domain.metrics.energy import energy_j, energy_per_token_j
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.queueing import CarriedRepeat, Claim
from ddqueue.domain.statistics import enough
from ddqueue.domain.sweep import Point
from ddqueue.domain.telemetry import GpuWindow, marks_of, window_of
from ddqueue.ports import AttemptStore, LoadClient, RunningServer, Telemetry
from ddqueue.services.giving_up import Contest
from ddqueue.services.steps import Steps
from ddqueue.services.stopping import StopSignal


@dataclass(frozen=True)
class MeasurePoints:
    """Measures the points of one job."""

    store: AttemptStore
    load: LoadClient
    telemetry: Telemetry
    steps: Steps
    stop: StopSignal

    def run(self, claim: Claim, server: RunningServer, carried: Sequence[CarriedRepeat] = ()) -> None:
        """Returns when every point has been measured often enough; raises AttemptFailure, AttemptStopped, StaleFence,
        and GivenUp after a round when to go on is no use.

        Repeats are interleaved over the points, so that drift of the box does not favour a point. What earlier
        attempts have `carried` over counts, and is not measured again.
        """
        points, repeats = claim.measure.points, claim.measure.repeats
        throughputs: dict[Point, list[float]] = {point: [] for point in points}
        for one in carried:
            throughputs.get(one.point, []).append(one.output_throughput_tok_s)
        measured = {(one.point, one.repeat) for one in carried}
        last: dict[Point, Measurement] = {}
        contest = Contest(self.store, claim)
        for point in points:
            if enough(throughputs[point], repeats):
                continue
            self.steps.timed(claim, "warm up", partial(self._warm_up, claim, server, point), point.label)
        for repeat in range(1, repeats.maximum + 1):
            for point in points:
                if (point, repeat) in measured or enough(throughputs[point], repeats):
                    continue
                step = partial(self._measure, claim, server, point, repeat)
                last[point] = self.steps.timed(claim, "measure", step, f"{point.label} repeat {repeat}")
                throughput = last[point].output_throughput_tok_s
                if throughput is not None and last[point].valid:
                    throughputs[point].append(throughput)
            if all(enough(values, repeats) for values in throughputs.values()):
                break
            contest.check(throughputs)
        for point in points:
            if not throughputs[point]:
                raise without_numbers(last[point])

    def _warm_up(self, claim: Claim, server: RunningServer, point: Point) -> None:
        salt = f"{claim.tag}-{point.label}-warm-up"
        self.load.run(server.url, point, 0, salt, partial(self._go_on, server), True, claim.measure.prompts)
        server.check_alive()

    def _go_on(self, server: RunningServer) -> None:
        """Asked while answers are awaited."""
        self.stop.check()
        server.watch()

    def _measure(self, claim: Claim, server: RunningServer, point: Point, repeat: int) -> Measurement:
        self.stop.check()
        server.flush_cache()
        salt = f"{claim.tag}-{point.label}-{repeat}"
        compilations = server.compilations()
        with self.telemetry.watch() as recording:
            go_on = partial(self._go_on, server)
            run = self.load.run(server.url, point, repeat, salt, go_on, False, claim.measure.prompts)
        gpus = (
            () if run.started_s is None else window_of(recording.samples(), run.started_s, run.started_s + run.wall_s)
        )
        measurement = judged(
            measure(run, claim.tag, baseline=claim.cell.is_baseline, limits=claim.measure.goodput),
            client_trouble(run),
            # A GPU that the server does not use would count as slow, and add its energy.
            gpus[: claim.parallelism.gpus],
            compiled=server.compilations() > compilations,
        )
        self.store.record_measurement(claim, measurement)
        server.check_alive()
        if measurement.requests_completed == 0:
            errors = [request.error for request in run.requests if request.error] or ["no answer"]
            stalled = AttemptFailure(Failure.SERVER_STALLED, f"{point.label}: every request failed: {errors[0]}")
            raise server.explain(errors[0]) or stalled
        if Invalid.WRONG_SERVER in measurement.reasons:
            raise AttemptFailure(Failure.PORT_BUSY, f"{point.label}: an answer came from another server")
        return measurement


def judged(measurement: Measurement, trouble: str | None, gpus: tuple[GpuWindow, ...], compiled: bool) -> Measurement:
    """The measurement with what the load client, its GPUs and the server's log say about it."""
    reasons = [
        *measurement.reasons,
        *([Invalid.CLIENT_BOUND] if trouble else []),
        *([Invalid.COMPILED] if compiled else []),
    ]
    marks = list(marks_of(gpus))
    if measurement.verifies and measurement.correct_drafts == 0:
        marks.append(Mark.NO_BENEFIT)
    return replace(
        measurement,
        reasons=tuple(reasons),
        marks=tuple(marks),
        gpus=gpus,
        client={**measurement.client, **({"trouble": trouble} if trouble else {})},
        energy_per_token_j=energy_per_token_j(measurement.requests, energy_j(gpus)),
    )


def without_numbers(measurement: Measurement) -> AttemptFailure:
    """A point none of whose repeats may be ranked: the cell failed there, it is not missing."""
    failure = next(
        (_FAILURE_OF[reason] for reason in measurement.reasons if reason in _FAILURE_OF), Failure.SERVER_STALLED
    )
    error = next((request.error for request in measurement.requests if request.error), None)
    why = error or measurement.client.get("trouble")
    reasons = ", ".join(measurement.reasons)
    return AttemptFailure(failure, f"{measurement.point.label}: no valid repeat ({reasons}){f': {why}' if why else ''}")


_FAILURE_OF = {Invalid.SHORT_OUTPUT: Failure.SHORT_OUTPUT, Invalid.CLIENT_BOUND: Failure.CLIENT_BOUND}
