"""What one run of a model's code may use, and the names of the bounds it may meet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Limits:
    """Bounds on one run; all but `file_mib` and `open_files` hold for every process of the run together.

    `processes` counts threads too. `scratch_mib` is the size of /tmp, the only place that can be written; what lies
    there counts as memory. `output_bytes` bounds standard output and standard error together.
    """

    cpu_s: float = 10.0
    wall_s: float = 20.0
    memory_mib: int = 512
    processes: int = 32
    scratch_mib: int = 32
    file_mib: int = 16
    open_files: int = 64
    output_bytes: int = 1 << 20

    def describe(self, exceeded: Exceeded) -> str:
        """The bound in words, e.g. `timed out after 10 s CPU`."""
        return {
            Exceeded.CPU: f"timed out after {self.cpu_s:g} s CPU",
            Exceeded.WALL: f"timed out after {self.wall_s:g} s",
            Exceeded.MEMORY: f"memory over {self.memory_mib} MiB",
            Exceeded.OUTPUT: f"output over {self.output_bytes} bytes",
        }[exceeded]


class Exceeded(StrEnum):
    """Why the sandbox ended a run."""

    CPU = "cpu"
    """CPU time of all its processes together."""
    WALL = "wall"
    """Time on the clock: it slept, or waited for what never came."""
    MEMORY = "memory"
    """Memory of all its processes together, and what lies in /tmp."""
    OUTPUT = "output"
    """Bytes on standard output and standard error."""
