"""Energy per output token."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.measurement import RequestRecord
from ddqueue.domain.metrics.metric import Metric
from ddqueue.domain.metrics.window import completed
from ddqueue.domain.telemetry import GpuWindow

METRIC = Metric(
    tag="energy_per_token",
    unit="J/token",
    formula="energy of all GPUs of the server over the window / sum(output tokens)",
    source="the driver's energy counters at the window's two ends; its power readings, integrated, where it has none",
)


def energy_j(windows: Sequence[GpuWindow]) -> float | None:
    """The energy of these GPUs together, in joules; None when one of them is unknown, or there is none."""
    energies = [window.energy_j for window in windows]
    known = [energy for energy in energies if energy is not None]
    return sum(known) if known and len(known) == len(energies) else None


def energy_per_token_j(requests: Sequence[RequestRecord], joules: float | None) -> float | None:
    """None when the energy is unknown, or no completed request brought a token of known count."""
    counts = [request.output_tokens for request in completed(requests)]
    tokens = sum(count for count in counts if count is not None)
    return None if joules is None or tokens == 0 or None in counts else joules / tokens
