"""What the load client adds to the numbers it gives, and what it costs: `make bench`.

The server of known timing (200 ms to the first token, then 4 tokens every 20 ms) logs its own truth, which the client's
numbers are compared with. What a chunk costs is measured in turns with a bare epoll reader, on the same server: on a
busy machine both get dearer, and only their ratio stays.

Exit code 0 when every figure is within its limit, 1 when one is not.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ddqueue.domain.measurement import Measurement, PointRun
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.sweep import Point
from ddqueue.measure.process import ClientProcess

SERVER = Path(__file__).parents[1] / "tests" / "known_timing_server.py"
FLOOR = Path(__file__).with_name("epoll_floor.py")
TAG, CHUNK_TOKENS = "known-timing", 4

STEADY = Point(32, 60, 256)
ALONE = Point(1, 60, 256)
FLOOD = Point(32, 60, 1024)
ROUNDS = 3


@dataclass(frozen=True)
class Figure:
    """A number and the limit it must keep; `least` says that the limit is the smallest allowed."""

    name: str
    values: Sequence[float]
    unit: str
    limit: float | None = None
    least: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def kept(self) -> bool:
        if self.limit is None:
            return True
        return self.median >= self.limit if self.least else abs(self.median) <= self.limit

    def line(self) -> str:
        wanted = "" if self.limit is None else f"{'at least' if self.least else 'at most'} {self.limit:g}"
        spread = f"{min(self.values):.4g} to {max(self.values):.4g}"
        broken = "" if self.kept else "  <- not kept"
        return f"{self.name:<46}{self.median:>10.4g}  {self.unit:<20}{spread:<24}{wanted}{broken}"


def main() -> int:
    with server() as url:
        rounds = [(bare_reader(url, STEADY, 128), client(url, STEADY, 128)) for _ in range(ROUNDS)]
        alone = [client(url, ALONE, 4) for _ in range(ROUNDS)]
    with server("--mode", "no-waits", "--burst", "16") as url:
        floods = [(bare_reader(url, FLOOD, 128), client(url, FLOOD, 128)) for _ in range(ROUNDS)]
    figures = [
        *accuracy("C=32", [seen for _, seen in rounds]),
        *bare_accuracy([bare for bare, _ in rounds]),
        *accuracy("C=1", alone),
        *cost(rounds),
        *capacity(floods),
    ]
    click.echo(f"Medians of {ROUNDS}; errors are against the server's own log\n")
    click.echo(f"{'':<46}{'median':>10}  {'':<20}{'from, to':<24}wanted")
    for figure in figures:
        click.echo(figure.line())
    return 0 if all(figure.kept for figure in figures) else 1


@dataclass(frozen=True)
class Truth:
    """What the server logged of one run."""

    requests: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, url: str, requests: int) -> Truth:
        """Of the latest `requests`."""
        with urllib.request.urlopen(f"{url}/truth") as answer:  # noqa: S310
            logged: list[dict[str, Any]] = json.load(answer)["requests"]
        return cls(logged[-requests:])

    @property
    def output_throughput_tok_s(self) -> float:
        sent = [request["sent"] for request in self.requests]
        wall_s = max(at[-1][0] for at in sent) - min(request["received"] for request in self.requests)
        return float(sum(at[-1][1] for at in sent) / wall_s)

    @property
    def ttft_s(self) -> float:
        return statistics.fmean(request["sent"][0][0] - request["received"] for request in self.requests)

    @property
    def per_token_s(self) -> float:
        sent = [request["sent"] for request in self.requests]
        return statistics.fmean((at[-1][0] - at[0][0]) / (at[-1][1] - at[0][1]) for at in sent)


@dataclass(frozen=True)
class Seen:
    """One run of the client, and how long its process lived."""

    run: PointRun
    truth: Truth
    lived_s: float

    @property
    def measured(self) -> Measurement:
        measured = measure(self.run, TAG)
        if measured.requests_failed or measured.ttft_ms is None:
            raise click.ClickException(f"a request failed: {[request.error for request in self.run.requests]}")
        return measured


@dataclass(frozen=True)
class Bare:
    """One run of the bare reader."""

    cpu_s: float
    wall_s: float
    ttft_s: float
    truth: Truth


def accuracy(label: str, runs: Sequence[Seen]) -> list[Figure]:
    """The client's numbers against the server's, in percent."""
    throughput, ttft, per_token = [], [], []
    for seen in runs:
        measured = seen.measured
        assert measured.output_throughput_tok_s is not None
        assert measured.ttft_ms is not None
        assert measured.itl_ms is not None
        throughput.append(_percent(measured.output_throughput_tok_s, seen.truth.output_throughput_tok_s))
        ttft.append(_percent(measured.ttft_ms.mean, seen.truth.ttft_s * 1000))
        per_token.append(_percent(measured.itl_ms.mean, seen.truth.per_token_s * 1000))
    return [
        Figure(f"{label}: error of the output throughput", throughput, "%", 0.2),
        Figure(f"{label}: error of the time per token", per_token, "%", 0.1),
        Figure(f"{label}: error of the time to the first token", ttft, "%", 1.0),
    ]


def bare_accuracy(runs: Sequence[Bare]) -> list[Figure]:
    """What the machine and the server's own log are off, whoever reads."""
    ttft = [_percent(bare.ttft_s, bare.truth.ttft_s) for bare in runs]
    return [Figure("C=32: ... of the bare reader", ttft, "%")]


def cost(rounds: Sequence[tuple[Bare, Seen]]) -> list[Figure]:
    """What the client takes of the machine, beside the bare reader."""
    thousands = 128 * STEADY.output / CHUNK_TOKENS / 1000
    ours = [cpu_s / thousands for cpu_s in _own(rounds, "cpu_s")]
    floor = [bare.cpu_s / thousands for bare, _ in rounds]
    return [
        Figure("C=32: CPU", ours, "s per 1,000 chunks", 0.04),
        Figure("C=32: CPU of the bare reader", floor, "s per 1,000 chunks"),
        Figure("C=32: CPU over the bare reader's", [one / other for one, other in zip(ours, floor, strict=True)], ""),
        Figure("C=32: the client's wait for a CPU, each time", _own(rounds, "run_queue_mean_ms"), "ms"),
        Figure("C=32: start and end around the load", [seen.lived_s - seen.run.wall_s for _, seen in rounds], "s", 1.0),
    ]


def capacity(floods: Sequence[tuple[Bare, Seen]]) -> list[Figure]:
    """How fast chunks can come, from a server that never waits."""
    chunks = 128 * FLOOD.output / CHUNK_TOKENS
    for_cpu = [chunks / cpu_s for cpu_s in _own(floods, "cpu_s")]
    return [
        Figure("no waits: chunks", [chunks / seen.run.wall_s for _, seen in floods], "/s", 60_000, least=True),
        Figure("no waits: chunks of the bare reader", [chunks / bare.wall_s for bare, _ in floods], "/s"),
        Figure("no waits: chunks for each CPU s of the client", for_cpu, "/s"),
        Figure("no waits: peak memory", _own(floods, "peak_rss_mib"), "MiB", 120),
    ]


def client(url: str, point: Point, requests: int) -> Seen:
    """One run in a client's process of its own, from its start to its end."""
    born = time.perf_counter()
    with ClientProcess(requests=requests) as process:
        run = process.run(url, point, 0, f"{born}", lambda: None)
    lived_s = time.perf_counter() - born
    return Seen(run, Truth.of(url, requests), lived_s)


def bare_reader(url: str, point: Point, requests: int) -> Bare:
    """The same load, read by the bare reader."""
    arguments = (url.rpartition(":")[2], point.concurrency, requests, point.output)
    done = subprocess.run(
        [sys.executable, str(FLOOR), *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True
    )
    return Bare(**json.loads(done.stdout), truth=Truth.of(url, requests))


@contextmanager
def server(*options: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(SERVER), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
        finally:
            process.kill()


def _own(rounds: Sequence[tuple[Bare, Seen]], name: str) -> list[float]:
    """A figure that the client gives of itself; NaN where the kernel does not tell."""
    return [float(seen.run.client.get(name, math.nan)) for _, seen in rounds]


def _percent(measured: float, true: float) -> float:
    return (measured / true - 1) * 100


if __name__ == "__main__":
    sys.exit(main())
