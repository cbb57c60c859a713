"""Who may look at Flower, and what a row says at its end."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddqueue import settings
from ddqueue.errors import UsageError
from ddqueue.queue.flower import readable
from ddqueue.queue.flower_gate import Gate

GATE = Gate("me", "p:ss")


def basic(login: str) -> str:
    return "Basic " + b64encode(login.encode()).decode()


@pytest.mark.parametrize(
    ("method", "path", "authorization", "status"),
    [
        ("GET", "/tasks", basic("me:p:ss"), None),
        ("HEAD", "/tasks", basic("me:p:ss"), None),
        ("GET", "/healthcheck", "", None),
        ("GET", "/healthcheck/../tasks", "", 401),
        ("POST", "/healthcheck", "", 401),
        ("GET", "/metrics", "", 401),
        ("GET", "/metrics", basic("me:p"), 401),
        ("GET", "/metrics", basic("me:p:ssé"), 401),
        ("GET", "/metrics", "Basic", 401),
        ("GET", "/metrics", "Basic é", 401),
        ("POST", "/api/task/revoke/1", basic("me:p:ss"), 403),
        ("OPTIONS", "/tasks", basic("me:p:ss"), 403),
        ("POST", "/tasks/datatable", basic("me:p:ss"), None),
        ("POST", "/tasks/datatable", basic("me:p"), 401),
        ("PUT", "/tasks/datatable", basic("me:p:ss"), 403),
        ("POST", "/tasks/datatable/", basic("me:p:ss"), 403),
    ],
)
def test_one_gate_before_every_page(method: str, path: str, authorization: str, status: int | None) -> None:
    refusal = GATE.refusal(method, path, authorization)
    assert (None if refusal is None else refusal.status) == status


def test_a_row_says_why_it_failed() -> None:
    failed = SimpleNamespace(exception="NotDone('failed: OOM_CAPTURE: 26/58')", result="capture graphs 45%")
    assert readable(failed).result == "failed: OOM_CAPTURE: 26/58"
    quoted = SimpleNamespace(exception='NotDone("it\'s away")', result=None)
    assert readable(quoted).result == "it's away"
    died = SimpleNamespace(exception="RuntimeError('no report')", result=None)
    assert readable(died).result == "RuntimeError('no report')"
    assert readable(SimpleNamespace(exception=None, result="'succeeded'")).result == "succeeded"
    assert readable(SimpleNamespace(exception=None, result="measure C=1 60")).result == "measure C=1 60"


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [
        (None, "x", r"set DDQUEUE_FLOWER_USER \(or DDQUEUE_FLOWER_USER_FILE\)$"),
        ("me", "", r"set DDQUEUE_FLOWER_PASSWORD \(or DDQUEUE_FLOWER_PASSWORD_FILE\)$"),
        ("m:e", "x", "holds a colon"),
        ("me", "pässword", "DDQUEUE_FLOWER_PASSWORD: write it in printable ASCII"),
        ("m\te", "x", "DDQUEUE_FLOWER_USER: write it in printable ASCII"),
    ],
)
def test_a_login_that_is_none(
    monkeypatch: pytest.MonkeyPatch, user: str | None, password: str | None, said: str
) -> None:
    for name, value in ((settings.FLOWER_USER, user), (settings.FLOWER_PASSWORD, password)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=said) as refused:
        settings.flower_login()
    assert "pässword" not in str(refused.value)


def test_a_password_from_a_private_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("p:ss\n")
    secret.chmod(0o640)
    monkeypatch.setenv(settings.FLOWER_USER, "me")
    monkeypatch.delenv(settings.FLOWER_PASSWORD, raising=False)
    monkeypatch.setenv(f"{settings.FLOWER_PASSWORD}_FILE", str(secret))
    with pytest.raises(UsageError, match="others can read"):
        settings.flower_login()
    secret.chmod(0o600)
    assert settings.flower_login() == ("me", "p:ss")
