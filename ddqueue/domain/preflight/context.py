"""Whether the points fit into the model's context."""

from __future__ import annotations

from ddqueue.domain.failures import Failure
from ddqueue.domain.preflight.finding import Finding, refused
from ddqueue.domain.preflight.model_shape import ModelShape
from ddqueue.domain.preflight.proposal import Proposal

LONGER_ALLOWED = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
"""The variable without which SGLang refuses a --context-length beyond the model's own."""


def context_findings(shape: ModelShape | None, proposal: Proposal) -> list[Finding]:
    """Every point needs room for its context and its output; `shape` is None where config.json was not read.

    The room is --context-length, else the model's own, else what the inventory says.
    """
    own = shape.context_length if shape else None
    asked = proposal.number("context-length", 0)
    found = []
    if own is not None and asked > own and proposal.environment.get(LONGER_ALLOWED, "").lower() not in ("1", "true"):
        text = (
            f"context-length {asked} is more than the model's {own}; SGLang takes it only with env.{LONGER_ALLOWED} 1"
        )
        found.append(refused(Failure.BAD_ARGS, text))
    room = asked or own or proposal.context_length
    too_long = [point for point in proposal.points if room is not None and point.context + point.output > room]
    if too_long:
        longest = max(too_long, key=lambda point: point.context + point.output)
        needed = longest.context + longest.output
        text = (
            f"{longest.label}: context {longest.context} + output {longest.output} = {needed} tokens do not fit into "
            f"{room}"
        )
        if len(too_long) > 1:
            text += f" (and {len(too_long) - 1} more)"
        found.append(refused(Failure.BAD_ARGS, text))
    return found
