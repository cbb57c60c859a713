"""On the path of a worker this makes it keep a temporary file and two MiB with each process that it starts, so that a
test sees what the program says of a worker that grows. No product code knows of it."""

import subprocess
import sys
import tempfile
from typing import Any

_MIB = 2**20

if "worker" in sys.orig_argv:
    start = subprocess.Popen.__init__
    kept: list[Any] = []

    def start_and_keep(self: Any, *arguments: Any, **options: Any) -> None:
        kept.append((tempfile.NamedTemporaryFile(), bytearray(2 * _MIB)))  # noqa: SIM115
        start(self, *arguments, **options)

    subprocess.Popen.__init__ = start_and_keep  # type: ignore[method-assign]
