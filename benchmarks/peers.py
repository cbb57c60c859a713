"""ddqueue's load client beside other ones, in turns on the same server of known timing: `make bench-peers`.

Each peer is installed into an environment of its own under ~/.cache/ddqueue/peers (some gigabytes the first time); one
that cannot be is left out, with the reason. The server logs when each request came and each chunk went: that is the
truth which every client's numbers are held against. CPU is that of all of a client's processes between the server's
first byte received and last one sent, so that imports and reports are not in it; memory is the most at once.

Exit code 1 when ddqueue's client needs more than HALF of the CPU per chunk of the best peer, or its throughput is off
by more than ERROR_LIMIT_PERCENT.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import click
from load_client import CHUNK_TOKENS, Truth, server
from peer_clients import PEERS, Load, Peer, Said, Unavailable
from process_usage import Usage, watching

from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.sweep import Point
from ddqueue.measure.process import ClientProcess

OURS = "ddqueue"
CONCURRENCY, REQUESTS = 32, 128
STEADY_TOKENS, FLOOD_TOKENS = 256, 1024
HALF, ERROR_LIMIT_PERCENT = 0.5, 0.2
RUN_LIMIT_S = 240.0


@dataclass(frozen=True)
class Figures:
    """One client in one round: errors against the server's log in percent."""

    throughput_error: float
    ttft_error: float
    per_token_error: float
    cpu_s_per_1000: float
    flood_chunks_s: float
    flood_cpu_s_per_1000: float
    start_and_end_s: float
    peak_rss_mib: float


HEADS = {
    "throughput_error": "output throughput, error (%)",
    "ttft_error": "time to the first token, error (%)",
    "per_token_error": "time per token, error (%)",
    "cpu_s_per_1000": "CPU (s per 1,000 chunks)",
    "flood_chunks_s": "no waits: chunks per second",
    "flood_cpu_s_per_1000": "no waits: CPU (s per 1,000 chunks)",
    "start_and_end_s": "start and end around the load (s)",
    "peak_rss_mib": "peak memory (MiB)",
}
_COSTS = ("cpu_s_per_1000", "flood_chunks_s", "flood_cpu_s_per_1000", "start_and_end_s", "peak_rss_mib")


@dataclass(frozen=True)
class Watched:
    """One run of a client: what it said, what the server logged, and what it used."""

    said: Said
    truth: Truth
    usage: Usage
    lived_s: float

    @property
    def window(self) -> tuple[float, float]:
        """From the first request received to the last chunk sent."""
        requests = self.truth.requests
        return min(float(one["received"]) for one in requests), max(float(one["sent"][-1][0]) for one in requests)

    @property
    def cpu_s_per_1000(self) -> float:
        """CPU seconds within the window."""
        tokens = sum(int(one["sent"][-1][1]) for one in self.truth.requests)
        return self.usage.cpu_s(*self.window) / (tokens / CHUNK_TOKENS / 1000)


@click.command()
@click.option("--rounds", default=3, show_default=True, help="How often each client runs, in turns.")
def main(rounds: int) -> None:
    peers = _installed()
    found: dict[str, list[Figures]] = {}
    for _ in range(rounds):
        for peer in (None, *peers):
            name = OURS if peer is None else peer.name
            try:
                found.setdefault(name, []).append(_figures(peer))
            except Unavailable as reason:
                click.echo(f"left out once: {name}: {reason}", err=True)
    found = {name: runs for name, runs in found.items() if runs}
    _print(found, rounds)
    sys.exit(not _kept(found))


def _installed() -> list[Peer]:
    ready = []
    for peer in PEERS:
        try:
            peer.install()
            ready.append(peer)
        except Unavailable as reason:
            click.echo(f"left out: {peer.name} cannot be installed here: {reason}", err=True)
    return ready


def _figures(peer: Peer | None) -> Figures:
    """One steady run and one without waits. Raises Unavailable when the peer fails."""
    with server() as url:
        steady = _watched(peer, url, STEADY_TOKENS)
    with server("--mode", "no-waits", "--burst", "16") as url:
        flood = _watched(peer, url, FLOOD_TOKENS)
    begun, ended = steady.window
    return Figures(
        throughput_error=_percent(steady.said.output_throughput_tok_s, steady.truth.output_throughput_tok_s),
        ttft_error=_percent(steady.said.ttft_ms, steady.truth.ttft_s * 1000),
        per_token_error=_percent(steady.said.per_token_ms, steady.truth.per_token_s * 1000),
        cpu_s_per_1000=steady.cpu_s_per_1000,
        flood_chunks_s=flood.said.output_throughput_tok_s / CHUNK_TOKENS,
        flood_cpu_s_per_1000=flood.cpu_s_per_1000,
        start_and_end_s=steady.lived_s - (ended - begun),
        peak_rss_mib=max(steady.usage.peak_rss_mib, flood.usage.peak_rss_mib),
    )


def _watched(peer: Peer | None, url: str, tokens: int) -> Watched:
    with tempfile.TemporaryDirectory(prefix="ddqueue-peers-") as folder, watching() as usage:
        born = time.perf_counter()
        load = Load(url, CONCURRENCY, REQUESTS, tokens, Path(folder))
        said = _ours(load) if peer is None else _theirs(peer, load)
        lived_s = time.perf_counter() - born
    return Watched(said, Truth.of(url, REQUESTS), usage, lived_s)


def _ours(load: Load) -> Said:
    with ClientProcess(requests=load.requests) as process:
        run = process.run(load.url, Point(load.concurrency, 60, load.output_tokens), 0, "peers", lambda: None)
    measured = measure(run, "known-timing")
    assert measured.output_throughput_tok_s is not None
    assert measured.ttft_ms is not None
    # Without waits an answer may come in one piece, which has no time between chunks.
    per_token_ms = measured.itl_ms.mean if measured.itl_ms else 0.0
    return Said(measured.output_throughput_tok_s, measured.ttft_ms.mean, per_token_ms)


def _theirs(peer: Peer, load: Load) -> Said:
    log = load.folder / "output.log"
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                peer.command(load),
                env=os.environ | peer.environment(),
                cwd=load.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=RUN_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"it took more than {RUN_LIMIT_S:.0f} s") from None
    try:
        return peer.said(load)
    except (OSError, KeyError, ValueError, TypeError) as error:
        lines = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise Unavailable(f"exit code {done.returncode}, {error!r}: {' / '.join(lines)}") from error


def _print(found: Mapping[str, Sequence[Figures]], rounds: int) -> None:
    click.echo(f"C={CONCURRENCY}, {REQUESTS} requests; medians of {rounds}, smallest to largest\n")
    for name in (field.name for field in fields(Figures)):
        click.echo(HEADS[name])
        for client, runs in found.items():
            values = [getattr(run, name) for run in runs]
            median = statistics.median(values)
            ratio = ""
            if name in _COSTS and client != OURS:
                ratio = f"   {median / _median(found[OURS], name):.3g} of ours"
            spread = f"({min(values):.4g} to {max(values):.4g})"
            click.echo(f"  {client:<32}{median:>10.4g}  {spread:<26}{ratio}")
    best = _best_peer(found)
    if best is not None:
        ours_s = _median(found[OURS], "cpu_s_per_1000")
        click.echo(
            f"\nCPU per chunk at C={CONCURRENCY}: {ours_s / best:.2f} of the best peer's; at most {HALF} is wanted"
        )


def _kept(found: Mapping[str, Sequence[Figures]]) -> bool:
    ours = found[OURS]
    best = _best_peer(found)
    exact = abs(_median(ours, "throughput_error")) <= ERROR_LIMIT_PERCENT
    return exact and (best is None or _median(ours, "cpu_s_per_1000") <= HALF * best)


def _best_peer(found: Mapping[str, Sequence[Figures]]) -> float | None:
    return min((_median(runs, "cpu_s_per_1000") for name, runs in found.items() if name != OURS), default=None)


def _median(runs: Sequence[Figures], name: str) -> float:
    return statistics.median(float(getattr(run, name)) for run in runs)


def _percent(measured: float, true: float) -> float:
    return (measured / true - 1) * 100


if __name__ == "__main__":
    main()
