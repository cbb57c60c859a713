"""What a doctor finds on the machine around the GPUs: room, limits, and folders that can be written."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

from ddqueue.domain.health import Check, Verdict
from ddqueue.gpu.cleanroom import SHM_FREE_MIB, free_mib

SHM_COMFORTABLE_MIB = 1024
LOGS_FREE_MIB = 1024
CACHES_FREE_MIB = 10 * 1024
"""A build's compile caches: some GiB for each kind of GPU and version."""

OPEN_FILES = 4096
"""A load client and a server at high concurrency hold a socket a request each."""


def check_shared_memory(folder: str = "/dev/shm") -> Check:
    """That /dev/shm has room for NCCL and the ranks' queues."""
    free = free_mib(folder)
    finding = f"{free} MiB free"
    remedy = f"free {folder}, or enlarge it: mount -o remount,size=16G {folder} (a container: --shm-size)"
    if free < SHM_FREE_MIB:
        return Check(folder, Verdict.FAIL, f"{finding}, {SHM_FREE_MIB} are needed", remedy)
    if free < SHM_COMFORTABLE_MIB:
        return Check(folder, Verdict.WARN, f"{finding}: little for NCCL between many GPUs", remedy)
    return Check(folder, Verdict.OK, finding)


def check_room(name: str, folder: Path, needed_mib: int) -> Check:
    """That the file system on which `folder` is, or will be, has room and takes files."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".ddqueue-doctor-"):
            pass
    except OSError as error:
        remedy = "let the worker's account write there, or set DDQUEUE_HOME to a folder it owns"
        return Check(name, Verdict.FAIL, f"cannot write in {existing}: {error.strerror}", remedy)
    free = free_mib(existing)
    finding = f"{free} MiB free for {folder}"
    if free >= needed_mib:
        return Check(name, Verdict.OK, finding)
    return Check(name, Verdict.WARN, f"{finding}, {needed_mib} would be comfortable", "remove old logs or caches there")


def check_open_files() -> Check:
    """That the worker may open enough files and sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES:
        return Check("open files", Verdict.OK, f"limit {soft}")
    remedy = "raise it: LimitNOFILE= in the worker's unit, or ulimit -n"
    return Check("open files", Verdict.WARN, f"limit {soft} (hard {hard}), {OPEN_FILES} would be comfortable", remedy)


def check_locks(folder: Path) -> Check:
    """That the host's lock can be taken: a folder on a local disk that this account may write."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".ddqueue-doctor-"):
            pass
    except OSError as error:
        return Check("lock folder", Verdict.FAIL, f"{folder}: {error.strerror}", "let the worker's account write there")
    kind = _file_system(folder)
    if kind in _NETWORK:
        remedy = "set DDQUEUE_HOME to a folder on a local disk: a network lock outlives or outruns its machine"
        return Check("lock folder", Verdict.FAIL, f"{folder} lies on {kind}", remedy)
    return Check("lock folder", Verdict.OK, f"{folder} on {kind or 'an unknown file system'}")


_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "fuse.sshfs", "9p"})


def _file_system(folder: Path) -> str | None:
    """The type of the file system that `folder` lies on, by the longest mount point above it."""
    real = os.path.realpath(folder)
    best, kind = "", None
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in mounts:
        _, point, found, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, found
    return kind
