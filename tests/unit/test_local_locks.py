"""Locks, ports and records: what the embedded servers' processes tell each other."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ddqueue import processes
from ddqueue.errors import DdqueueError
from ddqueue.local import locks, tcp_port
from ddqueue.local.record import Record, RunningProcess, announce_supervisor, read_record, read_supervisor


def test_a_lock_is_held_by_whoever_inherited_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.holding(path, wait_s=0) as descriptor:
        heir = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(descriptor,))
    assert not locks.wait_until_free(path, 0)
    with pytest.raises(locks.Held):
        locks.hold(path, wait_s=0)
    heir.communicate(b"\n")
    assert locks.wait_until_free(path, 0)


def test_waiting_for_a_lock_ends_when_it_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = locks.hold(path, wait_s=0)
    given_back = []

    def give_back() -> None:
        given_back.append(held)
        os.close(held)

    timer = threading.Timer(0.2, give_back)
    timer.start()
    heir = locks.hold(path, wait_s=60)
    assert given_back == [held], "the wait lasted until then"
    with pytest.raises(locks.Held):
        locks.hold(path, wait_s=0)
    timer.join()
    os.close(heir)


def test_no_lock_is_made_by_asking(tmp_path: Path) -> None:
    assert locks.wait_until_free(tmp_path / "lock", 0)
    assert list(tmp_path.iterdir()) == []


def test_a_port_is_remembered_until_somebody_takes_it(tmp_path: Path) -> None:
    remembered = tmp_path / "port"
    port = tcp_port.choose(remembered)
    assert 20000 <= port < 32768
    assert tcp_port.choose(remembered) == port
    with socket.create_server(("127.0.0.1", port)):
        other = tcp_port.choose(remembered)
    assert other != port
    assert tcp_port.choose(remembered) == other


def test_connections_that_linger_do_not_take_the_port(tmp_path: Path) -> None:
    remembered = tmp_path / "port"
    port = tcp_port.choose(remembered)
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
    accepted.close()  # The side that closes first keeps the port in TIME_WAIT.
    client.close()
    assert tcp_port.choose(remembered) == port


@pytest.mark.parametrize("nonsense", ["", "5432\n", "6379\n", "70000\n", "port\n"])
def test_a_remembered_port_that_cannot_be_ours_is_not_used(tmp_path: Path, nonsense: str) -> None:
    remembered = tmp_path / "port"
    remembered.write_text(nonsense)
    assert 20000 <= tcp_port.choose(remembered) < 32768


def test_no_free_port_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(tcp_port, "_LOWEST", port)
        monkeypatch.setattr(tcp_port, "_HIGHEST", port)
        with pytest.raises(DdqueueError, match="no free TCP port"):
            tcp_port.choose(tmp_path / "port")


def record(**changed: RunningProcess) -> Record:
    me = RunningProcess.this()
    found = {"supervisor": me, "postgres": me, "valkey": me} | changed
    return Record("postgresql://ddqueue:secret@127.0.0.1:1/ddqueue", "redis://:secret@127.0.0.1:2/0", **found)


def test_a_record_is_private_and_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    written = record()
    written.write(path)
    assert read_record(path) == written
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(written)


@pytest.mark.parametrize("which", ["supervisor", "postgres", "valkey"])
def test_a_record_is_alive_only_when_all_three_are(which: str) -> None:
    me = RunningProcess.this()
    assert record().is_alive()
    # The same pid with another start is another process.
    assert not record(**{which: RunningProcess(me.pid, me.start_ticks + 1)}).is_alive()


def test_an_ended_process_that_nobody_reaped_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = RunningProcess(child.pid, processes.start_ticks(child.pid) or 0)
    assert process.is_alive()
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive()
    child.wait()


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"database_url": "x"}'])
def test_a_damaged_record_counts_as_none(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "servers.json"
    path.write_text(damage)
    assert read_record(path) is None
    assert read_supervisor(path) is None


def test_a_supervisor_is_found_in_its_lock_while_it_lives(tmp_path: Path) -> None:
    path = tmp_path / "supervisor.lock"
    assert read_supervisor(path) is None
    with locks.holding(path, wait_s=0) as descriptor:
        announce_supervisor(descriptor)
        assert read_supervisor(path) == RunningProcess.this()
    path.write_text('{"pid": %d, "start_ticks": 1}' % os.getpid())  # noqa: UP031
    assert read_supervisor(path) is None
