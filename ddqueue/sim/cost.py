"""How long a step of a simulated box takes: a mixture-of-experts model of Kimi K2's shape on eight GPUs.

    step = fixed + experts * share(T) + token * T + kv_step * L + kv_request * C * L + draft

with T = C * V tokens verified at once (C requests of V tokens), share(T) = 1 - (1 - 8/384)^T the part of the experts
that T tokens touch (their weights are read once per step), and L the mean context in thousands of tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from ddqueue.errors import UsageError

EXPERTS = 384
EXPERTS_PER_TOKEN = 8


@dataclass(frozen=True)
class BoxCosts:
    """The constants of one box, in milliseconds; `provenance` says what they rest on."""

    name: str
    provenance: str
    fixed_ms: float
    """Launches, dense layers and communication of any step."""
    experts_ms: float
    """Reading the weights of all experts."""
    token_ms: float
    """Computing and exchanging one verified token."""
    kv_step_ms_per_k: float
    """Attention's latency per 1000 tokens of context: one request cannot fill the GPUs."""
    kv_request_ms_per_k: float
    """Attention's work per 1000 tokens of context and request."""
    draft_ms: float
    """One pass of the drafter."""
    draft_kv_ms_per_k: float
    """The drafter's attention per 1000 tokens inside its window."""
    prefill_fixed_ms: float
    prefill_ms_per_k: float

    def step_ms(
        self,
        concurrency: int,
        verify_tokens_per_request: int,
        context_tokens: float,
        draft_window: int | None = None,
    ) -> float:
        """One decode or verify step of `concurrency` requests; 1 verify token per request means no speculation.

        `context_tokens` is the mean over the requests; `draft_window` none lets the drafter see the whole context.
        """
        tokens = concurrency * verify_tokens_per_request
        context_k = context_tokens / 1000.0
        duration_ms = (
            self.fixed_ms
            + self.experts_ms * expert_share(tokens)
            + self.token_ms * tokens
            + self.kv_step_ms_per_k * context_k
            + self.kv_request_ms_per_k * concurrency * context_k
        )
        if verify_tokens_per_request > 1:
            seen_k = context_k if draft_window is None else min(context_k, draft_window / 1000.0)
            duration_ms += self.draft_ms + self.draft_kv_ms_per_k * seen_k
        return duration_ms

    def prefill_ms(self, tokens: int) -> float:
        """One prefill batch of `tokens` new tokens."""
        return self.prefill_fixed_ms + self.prefill_ms_per_k * tokens / 1000.0

    def at_speed(self, speed: float) -> BoxCosts:
        """The same box, at everything `speed` times as fast."""
        durations = {name: value / speed for name, value in asdict(self).items() if "_ms" in name}
        return self if speed == 1 else replace(self, **durations)

    def describe(self) -> dict[str, object]:
        """The constants and their provenance, for `/server_info`."""
        return asdict(self)


def expert_share(tokens: int) -> float:
    """The expected share of experts that `tokens` tokens touch, routed independently."""
    return 1.0 - (1.0 - EXPERTS_PER_TOKEN / EXPERTS) ** tokens


def box_named(name: str) -> BoxCosts:
    """Raises UsageError for a name that is not in BOXES."""
    if name not in BOXES:
        raise UsageError(f"there is no simulated box {name!r}; there is {' and '.join(sorted(BOXES))}")
    return BOXES[name]


PCIE = BoxCosts(
    name="pcie",
    provenance=(
        "Fitted (`python -m ddqueue.sim.calibration --fit`) to 25 throughputs of a sweep done by hand: DDTree with 4 to"
        " 16 nodes on eight RTX PRO 6000 over PCIe. Fixed beforehand, because that sweep cannot tell (8 and 20 ms of"
        " prefill per 1000 tokens fit equally well): draft_ms,"
        " draft_kv_ms_per_k, prefill_fixed_ms, prefill_ms_per_k. The speed without speculation was not measured: it is"
        " what these constants give for one token per request and no drafter."
    ),
    fixed_ms=11.59,
    experts_ms=26.76,
    token_ms=0.4266,
    kv_step_ms_per_k=16.70,
    kv_request_ms_per_k=0.419,
    draft_ms=4.0,
    draft_kv_ms_per_k=0.1,
    prefill_fixed_ms=5.0,
    prefill_ms_per_k=8.0,
)

NVLINK = BoxCosts(
    name="nvlink",
    provenance=(
        "Assumed, not measured: eight B300 over NVLink, with some four times the memory bandwidth of the PCIe box and"
        " a far cheaper exchange between GPUs, so that verifying more tokens costs little."
    ),
    fixed_ms=6.0,
    experts_ms=8.0,
    token_ms=0.06,
    kv_step_ms_per_k=2.0,
    kv_request_ms_per_k=0.05,
    draft_ms=1.5,
    draft_kv_ms_per_k=0.02,
    prefill_fixed_ms=2.0,
    prefill_ms_per_k=3.0,
)

BOXES: Mapping[str, BoxCosts] = {box.name: box for box in (PCIE, NVLINK)}
