"""What keeps a program in: bubblewrap where it is installed, else namespaces that we make ourselves."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ddqueue.coding.limits import Limits
from ddqueue.coding.sandbox_keeper import NOBODY, SCRATCH
from ddqueue.coding.sandbox_view import View

_PACKAGE = Path(__file__).resolve().parents[1]
_START = "import sys; sys.path.append(sys.argv[1]); from ddqueue.coding.{module} import main; main(int(sys.argv[2]))"
_KEEPER = "/keeper"
_KEEPERS_FILES = ("sandbox_keeper.py", "sandbox_filter.py", "sandbox_syscalls.py")


class Walls(Protocol):
    """A way to start the keeper as process 1 of a sandbox."""

    @property
    def name(self) -> str:
        """For a person."""
        ...

    @property
    def remedy(self) -> str:
        """What a person can do when these do not stand."""
        ...

    def command(self, view: View, limits: Limits, request_fd: int) -> list[str]:
        """The command that starts it; the request is read from the inherited descriptor."""
        ...


@dataclass(frozen=True)
class Namespaces:
    """New user (unless root), mount, process, network, IPC and host-name namespaces; needs no installed program."""

    name: str = "namespaces"
    remedy: str = "install bubblewrap (`bwrap`), run as root, or allow user namespaces (user.max_user_namespaces)"

    def command(self, view: View, limits: Limits, request_fd: int) -> list[str]:
        return [
            *interpreter_command(sys.executable),
            "-c",
            _START.format(module="sandbox_namespaces"),
            str(_PACKAGE.parent),
            str(request_fd),
        ]


@dataclass(frozen=True)
class Bubblewrap:
    """The same walls, built by bubblewrap: it may be allowed what this user is not."""

    path: str
    as_root: bool = False
    name: str = "bubblewrap"
    remedy: str = "update bubblewrap to 0.7.0 or later, or allow user namespaces (user.max_user_namespaces)"

    def command(self, view: View, limits: Limits, request_fd: int) -> list[str]:
        command = [self.path, "--die-with-parent", "--as-pid-1", "--new-session", "--clearenv"]
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--hostname", "sandbox"]
        if self.as_root:
            # Just what the keeper needs to give the program an identity of its own and to drop these.
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                command += ["--cap-add", capability]
        else:
            command += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        shown = [(place, place) for place in view.shown]
        shown += [(f"{_PACKAGE}/coding/{name}", f"{_KEEPER}/ddqueue/coding/{name}") for name in _KEEPERS_FILES]
        # Folders that bubblewrap makes by itself are closed to the program's identity.
        places = [place for _, place in shown] + list(view.devices)
        for folder in sorted({parent for place in places for parent in Path(place).parents} - {Path("/")}):
            command += ["--perms", "0755", "--dir", str(folder)]
        for source, place in shown:
            command += ["--ro-bind", source, place]
        for place in view.devices:
            command += ["--dev-bind", place, place]
        for place, target in view.links:
            command += ["--symlink", target, place]
        for place in view.covered:
            command += ["--tmpfs", place, "--remount-ro", place]
        command += ["--proc", "/proc"]
        command += ["--perms", "1777", "--size", str(limits.scratch_mib << 20), "--tmpfs", SCRATCH]
        command += ["--remount-ro", "/", "--"]
        command += [*interpreter_command(view.interpreter), "-c", _START.format(module="sandbox_keeper")]
        return [*command, _KEEPER, str(request_fd)]


def interpreter_command(interpreter: str) -> list[str]:
    """Python that reads no environment, no site-packages, and writes no byte code."""
    return [interpreter, "-I", "-S", "-B"]


def walls_to_try(bwrap: str | None) -> list[Walls]:
    """In the order of preference; `bwrap` is the path of bubblewrap, if it is there."""
    bubblewrap: list[Walls] = [] if bwrap is None else [Bubblewrap(bwrap, as_root=os.geteuid() == 0)]
    return [*bubblewrap, Namespaces()]
