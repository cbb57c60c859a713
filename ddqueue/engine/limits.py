"""How patient one server's start and end are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StartLimits:
    """All in seconds, by the monotonic clock."""

    total_s: float = 3600.0
    """From the launch to the first generated tokens; the cap on everything else here."""
    no_progress_s: float = 900.0
    """Without a new phase, a new step of a bar or a new line."""
    compile_s: float = 1800.0
    """The same while a compiler runs: compilers say nothing."""
    fatal_s: float = 10.0
    """How long a server may live on, without progress, after a line that ends its start. SGLang itself waits 5 s before
    it looks into a crash, and its exit code is worth waiting for."""
    request_s: float = 30.0
    """For one answer about the server itself: /health generates a token and may wait 20 s for it."""
    stop_s: float = 30.0
    """For the parent to end after SIGTERM; SGLang took up to 7.1 s."""
    children_s: float = 2.0
    """For its children to end after it, before they are killed."""
    kill_s: float = 30.0
    """For what was killed to be gone: a process inside a driver's call ends when the call does."""
    flush_s: float = 60.0
    """For the server to become idle before its cache is flushed."""
