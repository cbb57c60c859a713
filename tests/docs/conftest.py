"""A person's shell, for pages whose commands are typed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def environment(open_folder: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A person's shell: `ddqueue` on the path, a home of its own, no server named."""
    values = {name: value for name, value in os.environ.items() if not name.startswith("DDQUEUE_")}
    values["DDQUEUE_HOME"] = str(open_folder / f"page-{os.getpid()}-{tmp_path.name}")
    values["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{values['PATH']}"
    yield values
    subprocess.run(["ddqueue", "down"], env=values, cwd=tmp_path, check=True, capture_output=True)
