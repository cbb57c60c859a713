"""What all routes of one server share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddqueue.sim.arguments import SimOptions
from ddqueue.sim.drafter import Drafter
from ddqueue.sim.faults import MIDSTREAM_FROM_TOKENS, FaultKind
from ddqueue.sim.log import ServerLog
from ddqueue.sim.serving import LiveRequest, Serving


@dataclass
class ServerContext:
    """One running server. `ready` turns true after the warm-up."""

    settings: Mapping[str, Any]
    options: SimOptions
    drafter: Drafter | None
    serving: Serving
    log: ServerLog
    ready: bool = False

    @property
    def tag(self) -> str:
        """What answers carry as their weight version."""
        fault = self.options.faults.find(FaultKind.WRONG_TAG)
        return fault.value or "another-server" if fault else str(self.settings["weight_version"])

    def fails_midstream(self, kind: FaultKind, request: LiveRequest, output_tokens: int) -> bool:
        """Whether a fault inside the stream strikes at this chunk: the first one past half of the answer."""
        limit = request.generation.output_limit
        where = "stream" if kind is FaultKind.GARBAGE else None
        if limit < MIDSTREAM_FROM_TOKENS or self.options.faults.find(kind, where) is None:
            return False
        return output_tokens >= limit // 2
