"""What the environment says, and what is said of a mistake in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddqueue import settings
from ddqueue.errors import NotReachable, UsageError


def test_waits_are_set_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.patience() == settings.Patience()
    monkeypatch.setenv("DDQUEUE_GPU_IDLE_WAIT_S", "2.5")
    assert settings.patience() == settings.Patience(gpu_idle_wait_s=2.5)


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan", "inf"])
def test_a_wait_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("DDQUEUE_LEASE_TTL_S", text)
    with pytest.raises(UsageError, match="DDQUEUE_LEASE_TTL_S is"):
        settings.patience()


def test_a_url_from_a_private_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("postgresql://me:secret@db/ddqueue\n")
    secret.chmod(0o644)
    monkeypatch.delenv("DDQUEUE_DATABASE_URL", raising=False)
    monkeypatch.setenv("DDQUEUE_DATABASE_URL_FILE", str(secret))
    with pytest.raises(UsageError, match="chmod 600") as refused:
        settings.database_url()
    assert "secret" not in str(refused.value)
    secret.chmod(0o600)
    assert settings.database_url() == "postgresql://me:secret@db/ddqueue"


def test_nothing_named_and_nothing_running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("DDQUEUE_DATABASE_URL", "DDQUEUE_DATABASE_URL_FILE", "DDQUEUE_INVENTORY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DDQUEUE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotReachable, match="ddqueue up"):
        settings.database_url()
    with pytest.raises(UsageError, match="ddqueue init"):
        settings.inventory_path()


@pytest.mark.parametrize(
    ("url", "password", "whole"),
    [
        ("postgresql://me@db:5432/ddqueue", "a/b@c:d", "postgresql://me:a%2Fb%40c%3Ad@db:5432/ddqueue"),
        ("postgresql://me@[::1]:5432/x?sslmode=require", "p", "postgresql://me:p@[::1]:5432/x?sslmode=require"),
        ("postgresql://db/x?application_name=a@b", "p", "postgresql://:p@db/x?application_name=a@b"),
    ],
)
def test_a_password_from_a_file_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, password: str, whole: str
) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{password}\n")
    secret.chmod(0o400)
    monkeypatch.setenv("DDQUEUE_DATABASE_URL", url)
    monkeypatch.setenv("DDQUEUE_DATABASE_PASSWORD_FILE", str(secret))
    assert settings.database_url() == whole


def test_the_brokers_password_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("secret")
    secret.chmod(0o400)
    monkeypatch.setenv("DDQUEUE_REDIS_URL", "redis://redis:6379/0")
    monkeypatch.setenv("DDQUEUE_REDIS_PASSWORD_FILE", str(secret))
    assert settings.redis_url() == "redis://:secret@redis:6379/0"


def test_a_password_given_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDQUEUE_REDIS_URL", "redis://:one-secret@redis:6379/0")
    monkeypatch.setenv("DDQUEUE_REDIS_PASSWORD", "another-secret")
    with pytest.raises(UsageError, match="DDQUEUE_REDIS_URL holds a password") as refused:
        settings.redis_url()
    assert "secret" not in str(refused.value)
