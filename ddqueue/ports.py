"""The protocols that the services need; each is implemented in a room of its own, and faked only behind a suite that
the real one passes too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from ddqueue.domain.borrowing import CommandEnd, Loan, RunningCommand
from ddqueue.domain.coding import Answer, Outcome, Problem, Score, Scored, Suite
from ddqueue.domain.configuration import Cell, Parallelism
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import EngineProfile, Host, Model
from ddqueue.domain.measurement import Measurement, PointRun
from ddqueue.domain.queueing import CarriedRepeat, Claim, Lease, NextJob, PhaseRecord, Runner
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome
from ddqueue.domain.sweep import JobSpec, Point, Sweep
from ddqueue.domain.telemetry import GpuSample


@dataclass(frozen=True)
class Submitted:
    """A stored sweep: its id, revision (1 for a new name) and number of jobs."""

    sweep_id: int
    name: str
    revision: int
    jobs: int


class SweepStore(Protocol):
    """Where sweeps are kept. Every method raises NotReachable when the database does not answer."""

    def add(
        self,
        sweep: Sweep,
        jobs: Sequence[JobSpec],
        hosts: Sequence[Host],
        priority: int = 0,
        after: int | None = None,
        webhook: str | None = None,
    ) -> Submitted:
        """Store the sweep, its cells and its jobs in one transaction, and wake the dispatcher on commit.

        None of its jobs starts before the sweep with the id `after` has ended; the URL `webhook` is told of its end.
        """
        ...


class AttemptStore(Protocol):
    """The fenced side of the queue, used by the attempt that owns a host.

    Every write after `claim` carries the fence; a stale one writes nothing and raises StaleFence.
    """

    def deliver_left_over(self, host: str) -> int:
        """Store what earlier attempts on the host measured and could not deliver, each under its own fence; only
        whoever holds the host's lock may call it, and before `requeue_dead`. Returns the number of entries stored."""
        ...

    def requeue_dead(self, host: str, why: str) -> list[int]:
        """Requeue every running job of `host`; only whoever holds the host's lock may call it. Returns job ids."""
        ...

    def claim(self, host: str, job_id: int, runner: Runner, lease_ttl_s: float) -> Claim | None:
        """Take the job if it may run now; None when it is not queued, paused, cancelled, or the host may not work."""
        ...

    def could_claim(self, host: str, job_id: int) -> bool:
        """What `claim` would answer just now; nothing is changed. Asked before a box is taken from production."""
        ...

    def heartbeat(self, claim: Claim, lease_ttl_s: float, activity: str = "") -> Lease:
        """Prolong the lease and say what the attempt does now. Never raises StaleFence: LOST says it."""
        ...

    def record_phase(self, claim: Claim, phase: PhaseRecord) -> None: ...

    def record_provenance(self, claim: Claim, values: Mapping[str, Any]) -> None: ...

    def record_configuration(
        self,
        claim: Claim,
        requested: Mapping[str, Any],
        effective: Mapping[str, Any],
        difference: Mapping[str, Any],
        effective_hash: str = "",
    ) -> None: ...

    def same_server(self, claim: Claim, effective_hash: str) -> SameServer | None:
        """A job of another cell of the sweep, on this host and with this parallelism, measured on an equal server."""
        ...

    def carry_over(self, claim: Claim, effective_hash: str) -> list[CarriedRepeat]:
        """Take over the valid repeats that earlier attempts of this job measured on an equal server."""
        ...

    def record_measurement(self, claim: Claim, measurement: Measurement) -> None: ...

    def record_answers(self, claim: Claim, suite: Suite, answers: Sequence[Answer]) -> None: ...

    def record_scores(self, claim: Claim, scorer: str, scored: Sequence[Scored]) -> None:
        """The first judgement of answers that were recorded before; `scorer` names the versions that made it."""
        ...

    def finish(
        self,
        claim: Claim,
        outcome: AttemptOutcome,
        decision: Decision,
        failure: Failure | None = None,
        evidence: str | None = None,
    ) -> None:
        """End the attempt and move the job, in one transaction; quarantines the host when the decision says so."""
        ...

    def quarantine(self, host: str, failure: Failure, evidence: str) -> None:
        """The host takes no work until released; for a fault found before any job was claimed."""
        ...


class DispatchStore(Protocol):
    """What the dispatcher asks. One leader at a time, by a lock that ends with its connection."""

    def lead(self) -> AbstractContextManager[None]:
        """Blocks until this process is the leader."""
        ...

    def next_jobs(self, wake_again_after_s: float) -> list[NextJob]:
        """At most one job for each idle host that has not been woken within `wake_again_after_s`; marks them woken.

        A host whose running job has let its lease expire counts as idle: waking it starts recovery there.
        """
        ...

    def wait(self, timeout_s: float) -> None:
        """Return when something changed, or after `timeout_s`."""
        ...


class Wakeups(Protocol):
    """The broker side of the dispatcher."""

    def wake(self, job: NextJob) -> None:
        """Replace whatever waits in the host's queue by one wake-up. Raises NotReachable."""
        ...


class TroubleKind(StrEnum):
    """Why a GPU that answers must not be used."""

    MIG = "MIG"
    """It is cut into instances; a server needs whole GPUs."""
    COMPUTE_MODE = "compute mode"
    """It takes one process only, or none."""
    ECC = "ECC"
    """Uncorrectable memory errors since the driver was loaded."""
    ROW_REMAP = "row remap"
    """A bad row waits to be replaced, which a reset does, or could not be replaced."""
    RECOVERY = "recovery"
    """After an Xid the driver asks for a reset or a reboot before the GPU is used again."""
    UNREADABLE = "unreadable"
    """A query gave no answer, so that nobody can say whether the GPU is idle."""


@dataclass(frozen=True)
class GpuTrouble:
    """One reason not to use a GPU; `text` is the reading that says so."""

    kind: TroubleKind
    text: str


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one moment. `uuid` names it for ever; `index` is the PCI order.

    `memory_used_mib` leaves out what the driver keeps for itself. `utilization_percent` is None where the driver cannot
    say. `troubles` is empty for a GPU that may be used.
    """

    index: int
    uuid: str
    name: str
    memory_total_mib: int
    memory_used_mib: int
    utilization_percent: int | None
    pids: tuple[int, ...]
    pci_bus_id: str = ""
    troubles: tuple[GpuTrouble, ...] = ()


class GpuInspector(Protocol):
    """Reads GPUs; never changes a setting. Raises AttemptFailure(GPU_LOST) when they cannot be read."""

    def read(self) -> list[GpuReading]:
        """Every GPU, in PCI order, whatever CUDA_VISIBLE_DEVICES says."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """What an attempt remembers of them, as plain JSON values: `gpus`, in PCI order, and what is between them.

        What a driver cannot say is null: a description is never a reason to refuse a GPU.
        """
        ...


class Recording(Protocol):
    """What the GPUs did while they were watched."""

    def samples(self) -> Sequence[GpuSample]:
        """All so far, in order of time. Once the watching has ended there is one of each GPU from after its end."""
        ...


class Telemetry(Protocol):
    """Watches a host's GPUs beside a measurement, which it never disturbs: what cannot be read is a gap."""

    def watch(self) -> AbstractContextManager[Recording]:
        """Read the GPUs again and again, from before the body begins until after it has ended. One at a time.

        Put the whole window inside, and ask for the samples afterwards: only then do they reach beyond both its ends.
        """
        ...


class CleanRoom(Protocol):
    """Proof that a host's GPUs are free."""

    def prove_clean(self, should_stop: Callable[[], None]) -> list[GpuReading]:
        """Return the readings once every GPU is idle; raise AttemptFailure(GPU_BUSY, GPU_LOST or SHM_FULL) else."""
        ...

    def prove_released(self) -> list[GpuReading]:
        """Return once every GPU is back at idle; raise AttemptFailure(GPU_NOT_RELEASED) past the deadline."""
        ...


class HostLock(Protocol):
    """The kernel's lock on a host's GPUs; inherited by the server, so that an orphan keeps it."""

    @property
    def fd(self) -> int: ...

    @property
    def path(self) -> str: ...

    def note_server(self, pid: int) -> None:
        """Record the server's session leader beside the lock, for whoever recovers."""
        ...


class Ownership(Protocol):
    """Who may use a host's GPUs."""

    def own(self, host: str) -> AbstractContextManager[HostLock | None]:
        """Take the lock, ending a dead runner's left-overs first; None when a live runner holds it.

        Raises AttemptFailure(GPU_BUSY) when a process we did not start keeps it.
        """
        ...

    def strays(self, host: str) -> list[int]:
        """Processes that carry the mark of the host's lock, other than the caller."""
        ...

    def end_strays(self, host: str) -> list[int]:
        """Kill those until none is left; only for the lock's holder. Returns the pids met."""
        ...


class LoanRecord(Protocol):
    """What a host remembers of being borrowed, so that a crash at any moment is followed by giving it back."""

    def read(self) -> Loan | None:
        """None when the box is not borrowed. One that cannot be read is a loan without terms, never None."""
        ...

    def write(self, loan: Loan) -> None:
        """On the disk when it returns. Raises OSError; then what was noted before still stands."""
        ...

    def remove(self) -> None:
        """The box is given back. Raises OSError."""
        ...


class HostCommands(Protocol):
    """Runs a person's commands on this host."""

    def boot(self) -> str:
        """Names this boot of the machine; another one names another."""
        ...

    def run(
        self,
        command: Sequence[str],
        limit_s: float,
        should_stop: Callable[[], None],
        started: Callable[[RunningCommand], None],
    ) -> CommandEnd:
        """Run to the end, or end it with its process group past `limit_s`. It does nothing before `started` has
        returned. What `started` or `should_stop` raises is passed on once the command has been ended."""
        ...

    def end(self, command: RunningCommand) -> None:
        """Kill what is left of a command whose runner died; for the same boot only."""
        ...


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


class LoadClient(Protocol):
    """Generates load in a process of its own."""

    def run(
        self,
        url: str,
        point: Point,
        repeat: int,
        salt: str,
        should_stop: Callable[[], None],
        warm_up: bool = False,
        prompts: str | None = None,
    ) -> PointRun:
        """One closed-loop run of `point`, its prompts cut from the text file `prompts` if one is named.

        Requests that fail are recorded, never retried.
        """
        ...


class ChatClient(Protocol):
    """Asks coding problems through a server's chat endpoint."""

    def ask(self, url: str, suite: Suite, concurrency: int, should_stop: Callable[[], None]) -> list[Answer]:
        """Every answer, with `concurrency` requests in flight; each problem equally often, and that many in all at
        least. A request that failed is an answer with an `error`, and never sent again."""
        ...


class Grader(Protocol):
    """Runs an answer's code against a problem's hidden tests, where it can do no harm."""

    def grade(self, problem: Problem, code: str) -> Score:
        """PASSED, FAILED, or NOT_GRADED where the grader itself failed."""
        ...


@dataclass(frozen=True)
class StoredAnswer:
    """An answer with its id and whose it is. `score` is the newest outcome; None when it was never scored."""

    answer_id: int
    job_id: int
    attempt: int
    host: str
    parallel: str
    label: str
    suite: str
    suite_digest: str
    answer: Answer
    score: Outcome | None = None


class ScoreStore(Protocol):
    """Answers of sweeps, to be scored again. Every method raises NotReachable when the database does not answer."""

    def answers(self, sweep_id: int) -> list[StoredAnswer]:
        """Every answer of the sweep's attempts that have ended, in the order asked."""
        ...

    def add_scores(self, scorer: str, scores: Mapping[int, Score]) -> None:
        """A further judgement of each answer, by id, all or none; those there are stay."""
        ...


class Progress(Protocol):
    """Tells whoever watches; never fails and never blocks the job."""

    def tell(self, phase: str, text: str) -> None: ...
