"""The protocols that the services need; each is implemented in a room of its own, and faked only behind a suite that
the real one passes too."""

from ddqueue.ports.engine import ConfigurationCheck, Engine, LaunchRequest, RunningServer, SameServer
from ddqueue.ports.host import (
    CleanRoom,
    GpuInspector,
    GpuReading,
    GpuTrouble,
    HostCommands,
    HostLock,
    LoanRecord,
    Ownership,
    Recording,
    Telemetry,
    TroubleKind,
)
from ddqueue.ports.measuring import ChatClient, Grader, LoadClient, Progress
from ddqueue.ports.stores import AttemptStore, DispatchStore, ScoreStore, StoredAnswer, Submitted, SweepStore, Wakeups

__all__ = [
    "AttemptStore",
    "ChatClient",
    "CleanRoom",
    "ConfigurationCheck",
    "DispatchStore",
    "Engine",
    "GpuInspector",
    "GpuReading",
    "GpuTrouble",
    "Grader",
    "HostCommands",
    "HostLock",
    "LaunchRequest",
    "LoadClient",
    "LoanRecord",
    "Ownership",
    "Progress",
    "Recording",
    "RunningServer",
    "SameServer",
    "ScoreStore",
    "StoredAnswer",
    "Submitted",
    "SweepStore",
    "Telemetry",
    "TroubleKind",
    "Wakeups",
]
