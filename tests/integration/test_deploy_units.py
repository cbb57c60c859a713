"""Units as systemd itself reads them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from deploy import layout
from deploy.services import Service
from deploy.systemd import unit


@pytest.mark.parametrize("service", Service)
def test_systemd_has_nothing_to_say_about_a_unit(service: Service, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # It wants the programs to be there.
    current = tmp_path / "current"
    (current / "bin").mkdir(parents=True)
    for name in ("ddqueue", "ddqueue-give-back"):
        (current / "bin" / name).touch(0o755)
    file = tmp_path / f"{service.unit}.service"
    file.write_text(unit(service, "b300", 300, "127.0.0.1").replace(layout.CURRENT, str(current)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
    )
    # Keys it does not know are only warned of.
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misspelt_key_would_be_noticed(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "wrong.service"
    file.write_text("[Service]\nExecStart=/bin/true\nKilMode=mixed\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
    )
    assert "KilMode" in done.stderr
