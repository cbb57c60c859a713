"""How fast a host's GPUs copy: measured by the engine's interpreter, judged against each other.

No table of what a GPU should reach: the others of the same box are the measure, so that a sick one stands out whatever
the kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from ddqueue.domain.health import Check, Verdict, slow_parts
from ddqueue.gpu.topology import link_kind

PROBE = Path(__file__).with_name("bandwidth_probe.py")
MEASURE_LIMIT_S = 60.0
"""The probe stops by itself after so long; eight GPUs take some ten seconds."""

START_LIMIT_S = 60.0
"""What importing PyTorch and waking the GPUs may take on top."""

_REMEDY = "measure again; if it stays, look at its link, clocks and temperature in `nvidia-smi -q -i N`"


@dataclass(frozen=True)
class Bandwidth:
    """Rates in GB/s (10^9 bytes): of each GPU's memory, and of copies from one GPU to another."""

    memory: Mapping[int, float]
    pairs: Mapping[tuple[int, int], float]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; pairs as `0>1`."""
        return {
            "unit": "GB/s",
            "memory": {str(gpu): round(rate, 1) for gpu, rate in self.memory.items()},
            "pairs": {f"{source}>{target}": round(rate, 1) for (source, target), rate in self.pairs.items()},
        }


def read_probe(text: str, indices: Sequence[int]) -> Bandwidth | None:
    """What the probe printed; None when its last line is no answer of its kind.

    The probe counts the GPUs it sees from 0; `indices` are their places in PCI order.
    """
    try:
        found = json.loads(text.strip().rpartition("\n")[2])
        return Bandwidth(
            memory={indices[int(gpu)]: float(rate) for gpu, rate in found["memory"].items()},
            pairs={_pair(name, indices): float(rate) for name, rate in found["pairs"].items()},
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None


def measured_now(measured: Bandwidth, uuids: Sequence[str]) -> dict[str, Any]:
    """The rates as plain JSON values, with `measured_at` and the UUIDs of the GPUs."""
    return {**measured.to_json(), "measured_at": datetime.now(UTC).isoformat(), "gpus": list(uuids)}


def kept_bandwidth(examination: Path) -> dict[str, Any] | None:
    """What the doctor's findings hold of `measured_now`; None where it never measured."""
    try:
        found = json.loads(examination.read_text(encoding="utf-8"))["bandwidth"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # never examined, or by a version that kept other words
    return found if isinstance(found, dict) else None


def bandwidth_of(examination: Path, uuids: Sequence[str]) -> dict[str, Any] | None:
    """What the doctor last measured on exactly these GPUs.

    None where it measured nothing, or on others: the rate of a card that was replaced says nothing of the new one. It
    is measured by the doctor and not before every attempt, because it takes the GPUs for some ten seconds.
    """
    found = kept_bandwidth(examination)
    return found if found is not None and found.get("gpus") == list(uuids) else None


def judge(measured: Bandwidth, topology: Any) -> list[Check]:
    """One check for each kind of rate; pairs are compared only with pairs that are joined alike."""
    memory = _check("memory bandwidth", {f"GPU {gpu}": rate for gpu, rate in measured.memory.items()})
    alike: dict[str, dict[str, float]] = {}
    for (source, target), rate in measured.pairs.items():
        alike.setdefault(link_kind(topology, source, target), {})[f"GPU {source} to {target}"] = rate
    return [memory] + [_check(f"GPU to GPU, {kind}", rates) for kind, rates in sorted(alike.items())]


def _check(name: str, rates: Mapping[str, float]) -> Check:
    if not rates:
        return Check(name, Verdict.WARN, "not measured within the time limit", "measure again while the host is idle")
    finding = f"median {median(rates.values()):.0f} GB/s, {min(rates.values()):.0f} to {max(rates.values()):.0f}"
    slow = slow_parts(rates)
    if not slow:
        return Check(name, Verdict.OK, finding)
    listed = ", ".join(f"{part} is {below:.0%} below" for part, below in slow.items())
    return Check(name, Verdict.WARN, f"{finding}: {listed}", _REMEDY)


def _pair(name: str, indices: Sequence[int]) -> tuple[int, int]:
    source, _, target = name.partition(">")
    return indices[int(source)], indices[int(target)]
