"""Walls of our own, for hosts without bubblewrap: new namespaces and a file system made of a few read-only folders.

Run as a program of its own (`main`), because a namespace is left by whoever calls, not by a child; with nothing but the
standard library, because it starts without site-packages.
"""

from __future__ import annotations

import json
import os
from typing import Any, NoReturn

from ddqueue.coding import sandbox_syscalls as linux
from ddqueue.coding.sandbox_keeper import NOBODY, SCRATCH, keep_and_exit, tell

_BASE = "/tmp"  # Any folder that every machine has: it becomes the new root in a mount namespace of ours.
_INODES = 4096


def main(request_fd: int) -> NoReturn:
    """Leave the host's namespaces, start process 1 in the new ones and wait until it is gone with all the others."""
    with open(request_fd, "rb") as file:
        request = json.load(file)
    linux.die_with_parent()
    if os.getppid() != request["parent"]:
        os._exit(0)  # It had ended before the kernel knew what to do then.
    try:
        _leave(request)
        keeper = os.fork()
    except OSError as error:
        tell(request, {"fault": str(error)})
        os._exit(1)
    if keeper == 0:
        _keep_behind_walls(request)
    for name in ("report_fd", "leash_fd", "channel_fd"):
        os.close(request[name])
    os.waitpid(keeper, 0)
    os._exit(0)


def _leave(request: dict[str, Any]) -> None:
    if request["uid"] is None:
        uid, gid = os.geteuid(), os.getegid()
        linux.unshare(linux.CLONE_NEWUSER)
        # Not root inside either: a program that starts as uid 0 would be given every capability of the namespace.
        for name, line in (("setgroups", "deny"), ("uid_map", f"{NOBODY} {uid} 1"), ("gid_map", f"{NOBODY} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)


def _keep_behind_walls(request: dict[str, Any]) -> NoReturn:
    try:
        linux.die_with_parent()
        linux.set_host_name("sandbox")
        root = _build(request["view"], request["limits"]["scratch_mib"])
    except BaseException as error:
        tell(request, {"fault": str(error)})
        os._exit(1)
    keep_and_exit(request, root)


def _build(view: dict[str, Any], scratch_mib: int) -> str:
    """Make the file system; returns the folder that is the program's root. Our own root holds that and /proc."""
    os.umask(0o022)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", _BASE, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=4m,mode=0755")
    for name in ("host", "proc", "new"):
        os.mkdir(f"{_BASE}/{name}")
    linux.pivot_root(_BASE, f"{_BASE}/host")
    os.chdir("/")
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    for place in view["shown"]:
        _make_place(f"/host{place}", f"/new{place}")
        linux.bind_read_only(f"/host{place}", f"/new{place}")
    for place in view["devices"]:
        _make_place(f"/host{place}", f"/new{place}")
        linux.bind_read_only(f"/host{place}", f"/new{place}", extra_flags=linux.MS_NOEXEC)
    for place, target in view["links"]:
        os.symlink(target, f"/new{place}")
    for place in view["covered"]:
        linux.mount("tmpfs", f"/new{place}", "tmpfs", linux.MS_RDONLY, "size=4k,mode=0755")
    scratch = f"/new{SCRATCH}"
    os.makedirs(scratch, exist_ok=True)
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("tmpfs", scratch, "tmpfs", flags, f"size={scratch_mib}m,nr_inodes={_INODES},mode=1777")
    linux.detach("/host")
    flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("none", "/", flags=flags)
    return "/new"


def _make_place(source: str, place: str) -> None:
    if os.path.isdir(source):
        os.makedirs(place, exist_ok=True)
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w"):
        pass
