"""The load client's process: `python -m ddqueue.measure.client`.

Reads run requests from standard input, one JSON line each (messages.RunRequest), and answers each with one line on
standard output (messages.RunResult). Ends at the end of its input, or when its parent is gone. Trouble goes to standard
error; a request that cannot be understood ends the process with 2.
"""

from __future__ import annotations

import signal
import sys
import time
from time import perf_counter

from ddqueue.errors import UsageError
from ddqueue.measure.http1 import Address
from ddqueue.measure.load import Window
from ddqueue.measure.messages import NO_PROMPTS, RunRequest, RunResult
from ddqueue.measure.own_cost import peak_memory
from ddqueue.measure.prompts import PromptSource


def main() -> int:
    """Serve requests until the input ends."""
    # An interrupt at a terminal reaches the whole group; the parent decides, this process just goes, without a trace.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sources: dict[Address, PromptSource] = {}
    for line in sys.stdin.buffer:
        try:
            request = RunRequest.from_line(line)
            address = Address.of(request.url)
        except (UsageError, ValueError, TypeError, KeyError) as error:
            print(f"not a run request: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
            return 2
        source = sources.setdefault(address, PromptSource(address))
        try:
            bodies, prompts = source.bodies(request)
        except ValueError as error:
            print(f"measure.prompts: {error}", file=sys.stderr)  # noqa: T201
            return NO_PROMPTS
        sys.stdout.buffer.write(serve(request, address, bodies, prompts).to_line())
        sys.stdout.buffer.flush()
    return 0


def serve(request: RunRequest, address: Address, bodies: list[bytes], prompts: str) -> RunResult:
    """Carry out one run: the window, then summing it up. `prompts` says where the bodies came from."""
    window = Window(address, bodies, request.concurrency, request.limits)
    window.run()
    exchanges = sorted(window.exchanges, key=lambda exchange: exchange.index)
    started_s = min(exchange.started for exchange in exchanges)
    started_at = time.time() - (perf_counter() - started_s)
    records = tuple(exchange.record(started_s) for exchange in exchanges)
    wall_s = max(record.finished_s for record in records)
    busy_s = sum(record.finished_s - record.started_s for record in records)
    return RunResult(
        started_at=started_at,
        started_s=started_s,
        wall_s=wall_s,
        requests=records,
        client={
            "prompts": prompts,
            "chunks": sum(exchange.chunks for exchange in exchanges),
            "loop_lag_max_ms": round(window.lag_max_s * 1000, 3),
            "in_flight_mean": round(busy_s / wall_s, 3) if wall_s > 0 else 0.0,
            **window.cost.figures(),
            **peak_memory(),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
