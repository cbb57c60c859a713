"""What a good box says of itself when a deployment asks."""

from __future__ import annotations

from deploy import layout
from deploy.reading import Reading

GOOD = Reading(
    python=(3, 11, 2),
    executable="/usr/bin/python3",
    venv=True,
    machine="x86_64",
    libc=("glibc", "2.36"),
    systemd=True,
    free_mib={layout.ROOT: 50_000, layout.STATE: 50_000, "/dev/shm": 60_000},
    missing_files=(),
    missing_programs=(),
    unreached={},
    gpus={"driver": "595.45", "names": ["NVIDIA RTX PRO 6000 Blackwell Server Edition"] * 8},
    ahead_s=0.0,
)
