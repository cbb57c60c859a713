"""What a worker tells systemd, and when it must stay silent."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from workers import supervision
from workers.supervision import Watchdog, notify, watchdog_limit_s


@pytest.mark.parametrize("abstract", [False, True])
def test_a_sign_reaches_the_socket_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, abstract: bool
) -> None:
    name = f"@ddqueue-test-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + name[1:] if abstract else name)
        systemd.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify("READY=1")
        assert systemd.recv(64) == b"READY=1"


def test_nobody_to_tell_is_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither where nobody is named nor where nobody listens is anything raised, or a file made."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "limit_s"), [("", None), ("0", None), ("soon", None), ("300000000", 300.0)])
def test_how_long_systemd_waits(monkeypatch: pytest.MonkeyPatch, text: str, limit_s: float | None) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", text)
    assert watchdog_limit_s() == limit_s


def test_a_loop_that_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(supervision.time, "monotonic", lambda: now_s)
    watchdog = Watchdog(limit_s=300)
    assert watchdog.is_alive(), "there is no loop before the broker is there"
    watchdog.turned()
    now_s += watchdog.every_s
    assert watchdog.is_alive()
    now_s += 300
    assert not watchdog.is_alive()
    watchdog.turned()
    assert watchdog.is_alive()
    now_s += 300
    watchdog.rests()
    assert watchdog.is_alive(), "a broker that is away is no reason to end a worker"
