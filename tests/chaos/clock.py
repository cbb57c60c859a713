"""The wall clock of ddqueue's processes, which may jump. The monotonic clock is left alone, as it is when somebody sets
a real machine's clock."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SOURCE = Path(__file__).with_name("jumping_clock.c")


@dataclass(frozen=True)
class Clock:
    """`environment` is what a process needs to see this clock; `missing` says why there is none."""

    offset_file: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""

    @classmethod
    def made_in(cls, folder: Path) -> Clock:
        """Compile what shows it, where there is a compiler."""
        offset_file, library = folder / "clock", folder / "jumping_clock.so"
        compiler = shutil.which("cc")
        if compiler is None:
            return cls(offset_file, missing="no C compiler, for the library that shows processes another clock")
        compile_it = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE)]
        done = subprocess.run(compile_it, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return cls(offset_file, missing=f"{_SOURCE.name} does not compile here: {done.stderr.strip()[:200]}")
        offset_file.write_bytes(struct.pack("=q", 0))
        return cls(offset_file, {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(offset_file)})

    def jump(self, offset_s: float) -> None:
        """Every process sees it at once."""
        # In place, because the processes have the file mapped.
        with self.offset_file.open("r+b") as file:
            file.write(struct.pack("=q", int(offset_s * 1e9)))

    def seen_offset_s(self) -> float:
        """By how much the clock of a process that sees this one differs from the real one."""
        words = [sys.executable, "-S", "-c", "import time; print(time.time())"]
        done = subprocess.run(words, env=os.environ | self.environment, capture_output=True, text=True, check=True)
        return float(done.stdout) - time.time()
