"""What the sandbox shows of the host, and the command that has bubblewrap show it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import ddqueue
import ddqueue.coding.sandbox
import ddqueue.coding.sandbox_exchange
from ddqueue.coding.limits import Exceeded, Limits
from ddqueue.coding.sandbox import Sandbox
from ddqueue.coding.sandbox_view import View, view_of_this_python
from ddqueue.coding.sandbox_walls import Bubblewrap, walls_to_try

VIEW = View(
    interpreter="/opt/py/bin/python3.11",
    shown=("/opt/py/bin/python3.11", "/opt/py/lib", "/usr/lib"),
    links=(("/lib", "usr/lib"),),
    covered=("/opt/py/lib/python3.11/site-packages",),
    devices=("/dev/null",),
)
PACKAGE = Path(ddqueue.__file__).resolve().parent


def test_bubblewraps_command_without_root() -> None:
    command = Bubblewrap("/usr/bin/bwrap").command(VIEW, Limits(scratch_mib=3), request_fd=7)
    start = command.index("--")
    assert command[0] == "/usr/bin/bwrap"
    assert command[start + 1 : start + 6] == ["/opt/py/bin/python3.11", "-I", "-S", "-B", "-c"]
    assert command[-2:] == ["/keeper", "7"]
    options = " ".join(command[1:start])
    assert options.startswith("--die-with-parent --as-pid-1 --new-session --clearenv --unshare-ipc --unshare-pid")
    assert "--unshare-net --unshare-uts --hostname sandbox --unshare-user --uid 65534 --gid 65534" in options
    assert "--ro-bind /opt/py/lib /opt/py/lib --ro-bind /usr/lib /usr/lib" in options
    assert "--perms 0755 --dir /opt --perms 0755 --dir /opt/py --perms 0755 --dir /opt/py/bin" in options
    assert "--dev-bind /dev/null /dev/null --symlink usr/lib /lib" in options
    # A cover after what it covers, and the only place to write after all that is read-only.
    assert options.endswith(
        "--tmpfs /opt/py/lib/python3.11/site-packages --remount-ro /opt/py/lib/python3.11/site-packages "
        "--proc /proc --perms 1777 --size 3145728 --tmpfs /tmp --remount-ro /"
    )
    assert "--bind" not in command
    assert "--cap-add" not in command


def test_bubblewraps_command_as_root_keeps_only_what_gives_up_privilege() -> None:
    command = Bubblewrap("bwrap", as_root=True).command(VIEW, Limits(), request_fd=7)
    kept = [command[i + 1] for i, word in enumerate(command) if word == "--cap-add"]
    assert kept == ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"]
    assert "--unshare-user" not in command


def test_the_keepers_files_are_all_there_is_of_the_project() -> None:
    command = Bubblewrap("bwrap").command(VIEW, Limits(), request_fd=7)
    ours = [Path(word).name for word in command if word.startswith(str(PACKAGE))]
    assert ours == ["sandbox_keeper.py", "sandbox_filter.py", "sandbox_syscalls.py"]


def test_bubblewrap_comes_first_where_it_is() -> None:
    assert [walls.name for walls in walls_to_try("/usr/bin/bwrap")] == ["bubblewrap", "namespaces"]
    assert [walls.name for walls in walls_to_try(None)] == ["namespaces"]


def test_the_view_holds_this_pythons_library_and_no_home() -> None:
    view = view_of_this_python()
    shown = [Path(place) for place in view.shown]

    def is_shown(place: str) -> bool:
        return any(Path(place).is_relative_to(one) for one in shown)

    assert is_shown(os.path.realpath(os.__file__))
    assert view.interpreter in view.shown
    assert not os.path.islink(view.interpreter)
    hidden = (str(PACKAGE), str(Path.home()), "/etc/passwd", "/tmp", "/usr/bin/env", os.path.dirname(view.interpreter))
    assert not any(is_shown(place) and place not in view.covered for place in hidden)
    assert all(any(Path(cover).is_relative_to(one) for one in shown) for cover in view.covered)
    assert not any(one != other and one.is_relative_to(other) for one in shown for other in shown)


def test_the_view_does_not_depend_on_the_environment_this_runs_in() -> None:
    assert not any(Path(place).is_relative_to(sys.prefix) for place in view_of_this_python().shown) or (
        sys.prefix == sys.base_prefix
    )


def test_every_bound_is_said_in_words() -> None:
    limits = Limits(cpu_s=10, wall_s=20.5, memory_mib=512, output_bytes=1000)
    assert [limits.describe(one) for one in Exceeded] == [
        "timed out after 10 s CPU",
        "timed out after 20.5 s",
        "memory over 512 MiB",
        "output over 1000 bytes",
    ]


class Program:
    """Walls that are just some program of this machine."""

    name = "a program"
    remedy = "take another"

    def __init__(self, *command: str) -> None:
        self._command = list(command)

    def command(self, view: View, limits: Limits, request_fd: int) -> list[str]:
        return self._command


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (("/bin/false",), "the sandbox ended without a report (status 1): "),
        (
            ("/bin/cat", "/no/such/file"),
            "the sandbox ended without a report (status 1): /bin/cat: /no/such/file: No such",
        ),
        (("/no/such/program",), "cannot start a program: [Errno 2] No such file or directory"),
    ],
)
def test_what_ends_without_a_report_is_a_fault_with_its_reason(command: tuple[str, ...], fault: str) -> None:
    result = Sandbox([Program(*command)]).run("print(1)")
    assert result.fault is not None
    assert result.fault.startswith(f"no sandbox on this machine, so nothing was run. a program: {fault}")
    assert result.fault.endswith("; take another")
    assert (result.exit_code, result.stdout, result.killed_for) == (None, "", None)


def test_what_never_ends_is_ended_and_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    # Half a second of the default 20 s of wall time.
    monkeypatch.setattr(ddqueue.coding.sandbox, "GRACE_S", -19.5)
    monkeypatch.setattr(ddqueue.coding.sandbox_exchange, "_END_S", 0.1)
    result = Sandbox([Program("/bin/sleep", "1000")]).run("print(1)")
    assert "the sandbox did not end its program in time" in str(result.fault)


def test_no_walls_is_a_fault() -> None:
    assert str(Sandbox([]).run("print(1)").fault).startswith("no sandbox on this machine, so nothing was run.")
