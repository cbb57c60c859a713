"""Run by an engine's own interpreter, never imported here: how fast its GPUs copy, alone and to each other.

`python -c THIS_TEXT SECONDS` prints one JSON object of rates in GB/s (10^9 bytes): `memory` by GPU, `pairs` by "i>j".
What did not fit into the seconds is missing. It needs PyTorch with CUDA, and Python 3.8 or later.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

MEMORY_BYTES = 1 << 30
COPY_BYTES = 256 << 20
ROUNDS = 8


def measure(limit_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + limit_s
    torch = importlib.import_module("torch")
    gpus = range(torch.cuda.device_count())
    memory: dict[int, float] = {}
    pairs: dict[str, float] = {}
    found = {"torch": torch.__version__, "memory": memory, "pairs": pairs}
    for gpu in gpus:
        if time.monotonic() > deadline:
            return found
        size = min(MEMORY_BYTES, torch.cuda.mem_get_info(gpu)[0] // 8)
        one, other = block(torch, gpu, size), block(torch, gpu, size)
        # A copy reads every byte and writes it.
        memory[gpu] = 2 * size / 1e9 / fastest_s(torch, gpu, one, other)
        del one, other
        torch.cuda.empty_cache()
    blocks = [block(torch, gpu, COPY_BYTES) for gpu in gpus]
    for source in gpus:
        for target in gpus:
            if time.monotonic() > deadline:
                return found
            if source != target:
                pairs[f"{source}>{target}"] = (
                    COPY_BYTES / 1e9 / fastest_s(torch, source, blocks[target], blocks[source])
                )
    return found


def block(torch: Any, gpu: int, size: int) -> Any:
    return torch.empty(size, dtype=torch.uint8, device=f"cuda:{gpu}")


def fastest_s(torch: Any, gpu: int, target: Any, source: Any) -> float:
    """Seconds of the fastest of ROUNDS copies: whatever disturbs a copy only makes it slower."""
    target.copy_(source)
    torch.cuda.synchronize(gpu)
    with torch.cuda.device(gpu):
        return min(timed_s(torch, lambda: target.copy_(source, non_blocking=True)) for _ in range(ROUNDS))


def timed_s(torch: Any, copy: Callable[[], Any]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    copy()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(float(sys.argv[1]))) + "\n")
