"""What this machine must have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

FOR_NETWORK = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
FOR_BOOTING = {
    "systemd-nspawn": "systemd-container",
    "journalctl": "systemd",
    "debootstrap": "debootstrap",
    "zstd": "zstd",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
"""Program -> the Debian package that has it."""

KIND_VARIABLE = "DDQUEUE_BOXES_KIND"
NAMESPACE = "namespace"
"""Its value that asks for boxes that are not booted, where booting would be possible."""


def why_not_at_all() -> str | None:
    """Why no box can be made here; None when one can."""
    if os.geteuid() != 0:
        return "needs root: boxes have network namespaces of their own"
    return _missing(FOR_NETWORK)


def why_not_booted() -> str | None:
    """Why boxes cannot have a systemd and an sshd here; None when they can."""
    if os.environ.get(KIND_VARIABLE) == NAMESPACE:
        return f"{KIND_VARIABLE}={NAMESPACE}"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    if os.statvfs("/sys/fs/cgroup").f_flag & os.ST_RDONLY:
        return "/sys/fs/cgroup is mounted read-only"
    return _missing(FOR_BOOTING)


def _missing(programs: dict[str, str]) -> str | None:
    packages = sorted({package for program, package in programs.items() if shutil.which(program) is None})
    return f"apt-get install {' '.join(packages)}" if packages else None
