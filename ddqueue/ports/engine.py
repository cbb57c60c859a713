"""Starting a server, and what a running one can be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ddqueue.domain.configuration import Cell, Parallelism
from ddqueue.domain.failures import AttemptFailure
from ddqueue.domain.inventory import EngineProfile, Host, Model
from ddqueue.domain.queueing import PhaseRecord


@dataclass(frozen=True)
class LaunchRequest:
    """Everything needed to start one server."""

    host: Host
    model: Model
    profile: EngineProfile
    cell: Cell
    parallelism: Parallelism
    tag: str
    log_path: str
    lock_fd: int
    lock_path: str
    random_seed: int


@dataclass(frozen=True)
class ConfigurationCheck:
    """What was asked, what the server says it runs, and where they differ (setting -> [asked, effective]).

    `effective_hash` is equal for two servers that run the same, whatever was asked of them.
    """

    requested: Mapping[str, Any]
    effective: Mapping[str, Any]
    difference: Mapping[str, Any]
    effective_hash: str = ""


@dataclass(frozen=True)
class SameServer:
    """A job that was measured on a server that ran the same as another job's."""

    job_id: int
    cell_label: str
    requested: Mapping[str, Any]


class RunningServer(Protocol):
    """One SGLang this attempt started."""

    @property
    def url(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def argv(self) -> Sequence[str]: ...

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables the profile and the cell set, not the inherited ones."""
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """What the engine itself said about its settings so far."""
        ...

    def wait_ready(self, progress: Callable[[str, str], None], should_stop: Callable[[], None]) -> list[PhaseRecord]:
        """Return the server's own phases once it is provably ours and has generated; else raise AttemptFailure."""
        ...

    def confirm(self) -> ConfigurationCheck:
        """Ask the server what it runs."""
        ...

    def check_alive(self) -> None:
        """Raise AttemptFailure, diagnosed from exit code and log, if the process has ended."""
        ...

    def watch(self) -> None:
        """Raise when the server is dying and does not end; for whoever awaits its answers. One that has ended breaks
        them off by itself, and what came before is worth keeping."""
        ...

    def explain(self, error: str) -> AttemptFailure | None:
        """What the log says of requests that failed with `error`; raises AttemptFailure when the server has ended."""
        ...

    def compilations(self) -> int:
        """How often its log has said so far that kernels are compiled: more after a window than before it means that
        the window holds a first use."""
        ...

    def flush_cache(self) -> None: ...

    def stop(self) -> str:
        """End the server and its whole session; returns when every process is gone, and says how: `clean`, or what
        force it took. Safe to call again."""
        ...


class Engine(Protocol):
    """Starts servers."""

    def launch(self, request: LaunchRequest) -> RunningServer:
        """Raises AttemptFailure(BAD_ARGS or UNSUPPORTED) when the profile lacks a setting the cell needs."""
        ...
