"""How `ddqueue measure` shows what it measured: every metric a row, every repeat a column, then the reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from ddqueue.cli.output import print_table
from ddqueue.domain.client_bound import client_trouble
from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.measurement import Invalid, Measurement, PointRun, Summary
from ddqueue.domain.statistics import mean_interval

REPEATS_ABREAST = 6
"""Columns that a terminal has room for; more repeats go into further tables."""


@dataclass(frozen=True)
class MeasuredOnce:
    """One repeat, and in words what kept the client from measuring the server alone."""

    measurement: Measurement
    client_trouble: str | None

    @classmethod
    def of(cls, run: PointRun, measurement: Measurement) -> MeasuredOnce:
        """CLIENT_BOUND is among the reasons when the client was in trouble."""
        trouble = client_trouble(run)
        if trouble is not None and Invalid.CLIENT_BOUND not in measurement.reasons:
            measurement = replace(measurement, reasons=(*measurement.reasons, Invalid.CLIENT_BOUND))
        return cls(measurement, trouble)

    @property
    def valid(self) -> bool:
        return self.measurement.valid


def document(one: MeasuredOnce) -> dict[str, Any]:
    """A repeat for a program: every number of the measurement, null where it could not be measured."""
    measurement = one.measurement
    return {
        **asdict(replace(measurement, requests=())),
        "requests": len(measurement.requests),
        "valid": measurement.valid,
        "client_trouble": one.client_trouble,
        "errors": sorted({request.error for request in measurement.requests if request.error is not None}),
    }


def print_measured(server: str, repeats: Sequence[MeasuredOnce], limits: LatencyLimits | None = None) -> None:
    """Print the tables, with goodput where there are `limits`, the interval of the throughput over the valid repeats,
    and a line for each reason."""
    measurements = [one.measurement for one in repeats]
    point = measurements[0].point
    title = f"{point.label}, {point.output} tokens each, on {server}"
    for at in range(0, len(measurements), REPEATS_ABREAST):
        abreast = measurements[at : at + REPEATS_ABREAST]
        heads = ["", *(f"repeat {one.repeat}" for one in abreast)]
        print_table(title, heads, [[name, *map(cell, abreast)] for name, cell in _rows(limits).items()])
        click.echo()
    valid = [one.output_throughput_tok_s for one in measurements if one.valid and one.output_throughput_tok_s]
    interval = mean_interval(valid) if len(valid) > 1 else None
    if interval is not None:
        click.echo(
            f"output throughput {interval.mean:.1f} tok/s, 95% interval {interval.low:.1f} to {interval.high:.1f}"
        )
    for one in repeats:
        for reason in one.measurement.reasons:
            click.echo(f"repeat {one.measurement.repeat} is not valid: {reason}: {_why(reason, one)}")


def _rows(limits: LatencyLimits | None) -> Mapping[str, Callable[[Measurement], str]]:
    if limits is None:
        return ROWS
    goodput = {
        f"goodput requests/s, {limits.words}": _number_row("goodput_requests_s", 2),
        "goodput output tok/s, the same": _number_row("goodput_output_tok_s", 1),
    }
    *numbers, verdict = ROWS.items()
    return dict([*numbers, *goodput.items(), verdict])


def _why(reason: Invalid, one: MeasuredOnce) -> str:
    measurement = one.measurement
    requests, output = measurement.requests, measurement.point.output
    done = [request for request in requests if request.error is None]
    short = [request.output_tokens for request in done if (request.output_tokens or 0) < output]
    lengths = ", ".join(sorted({"unknown" if length is None else str(length) for length in short}))
    failed = sorted({request.error for request in requests if request.error is not None})
    odd = sorted({name for request in requests for name in request.not_finite})
    said = {
        Invalid.REQUESTS_FAILED: f"{measurement.requests_failed} of {len(requests)}, the first: {(failed or [''])[0]}",
        Invalid.SHORT_OUTPUT: f"{len(short)} of {len(done)} answers ended early, of {output} tokens with {lengths}",
        Invalid.WRONG_SERVER: "answers carried another weight_version than /server_info: "
        + ", ".join(sorted({str(request.tag) for request in done})),
        Invalid.CACHED_PREFIX: f"{_share(measurement)} of the prompts came from the prefix cache",
        Invalid.NO_TOKENS: "no output token arrived",
        Invalid.LONG_OUTPUT: f"answers claim more than the {output} tokens that were asked for",
        Invalid.NOT_FINITE: f"the server reported numbers that none can be: {', '.join(odd)}",
        Invalid.CLIENT_BOUND: one.client_trouble or "",
    }
    return said.get(reason, "")


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _number_row(name: str, digits: int) -> Callable[[Measurement], str]:
    return lambda one: _number(getattr(one, name), digits)


def _spread_row(name: str, digits: int) -> Callable[[Measurement], str]:
    def cell(one: Measurement) -> str:
        spread: Summary | None = getattr(one, name)
        return (
            "-"
            if spread is None
            else " / ".join(_number(part, digits) for part in (spread.p50, spread.p90, spread.p99))
        )

    return cell


def _share(one: Measurement) -> str:
    return "-" if one.cached_share is None else f"{one.cached_share:.1%}"


def _figure(client: Mapping[str, float | str], name: str) -> float | None:
    value = client.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _client_row(name: str, digits: int) -> Callable[[Measurement], str]:
    return lambda one: _number(_figure(one.client, name), digits)


ROWS: dict[str, Callable[[Measurement], str]] = {
    "output tok/s": _number_row("output_throughput_tok_s", 1),
    "prompt and output tok/s": _number_row("total_throughput_tok_s", 1),
    "TTFT ms, p50 / p90 / p99": _spread_row("ttft_ms", 1),
    "ITL ms a token": _spread_row("itl_ms", 3),
    "TPOT ms": _spread_row("tpot_ms", 3),
    "end to end ms": _spread_row("e2e_ms", 1),
    "acceptance length": _number_row("acceptance_length", 2),
    "step time ms": _number_row("step_time_ms", 2),
    "prompt from cache": _share,
    "requests done, failed": lambda one: f"{one.requests_completed}, {one.requests_failed}",
    "client: requests in flight": _client_row("in_flight_mean", 2),
    "client: longest pause ms": _client_row("loop_lag_max_ms", 1),
    "client: wait for a CPU ms": _client_row("run_queue_mean_ms", 3),
    "client: CPU s": _client_row("cpu_s", 3),
    "client: peak memory MiB": _client_row("peak_rss_mib", 0),
    "verdict": lambda one: "valid" if one.valid else ", ".join(one.reasons),
}
"""What each row says of a repeat; `-` where it could not be measured."""
