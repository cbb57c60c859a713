"""The files of a deployment: configuration, units, supervisord's, and what is kept of them."""

from __future__ import annotations

import configparser
import shlex
import subprocess

import pytest

from ddqueue import settings
from ddqueue.domain.borrowing import Borrow
from ddqueue.domain.inventory import Host
from ddqueue.errors import UsageError
from deploy import layout
from deploy.configuration import Shared, environment_file, files_of, stop_limit_s
from deploy.installation import Installation, from_json
from deploy.services import Service
from deploy.supervised import program
from deploy.systemd import unit

AWKWARD = "postgresql://me:a\"b$c`d\\e'f g#h;i%j@db/ddqueue"
SHARED = Shared(AWKWARD, "redis://:p@r/0", b"hosts: {}\n", {"DDQUEUE_LEASE_TTL_S": "6"}, lambda: ("me", "secret"))


def sourced(file: bytes, name: str) -> str:
    """The variable as a shell reads it."""
    script = f'set -eu; . /dev/stdin; printf %s "${name}"'
    return subprocess.run(["sh", "-c", script], input=file, capture_output=True, check=True).stdout.decode()


def test_a_password_of_any_characters_survives() -> None:
    (environment, _) = files_of(SHARED, (Service.WORKER,))
    assert (environment.path, environment.mode) == ("/etc/ddqueue/ddqueue.env", 0o600)
    assert sourced(environment.content, "DDQUEUE_DATABASE_URL") == AWKWARD
    assert sourced(environment.content, "DDQUEUE_LEASE_TTL_S") == "6"
    assert sourced(environment.content, "DDQUEUE_INVENTORY") == layout.INVENTORY


def test_the_waits_that_are_set_here_count_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDQUEUE_LEASE_TTL_S", "6")
    monkeypatch.delenv("DDQUEUE_DATABASE_AWAY_S", raising=False)
    assert settings.patience_variables()["DDQUEUE_LEASE_TTL_S"] == "6"
    assert "DDQUEUE_DATABASE_AWAY_S" not in settings.patience_variables()
    monkeypatch.setenv("DDQUEUE_LEASE_TTL_S", "soon")
    with pytest.raises(UsageError, match="DDQUEUE_LEASE_TTL_S"):
        settings.patience_variables()


def test_a_value_with_a_line_end_is_refused_without_being_shown() -> None:
    with pytest.raises(UsageError, match="DDQUEUE_REDIS_URL holds a line end") as refused:
        environment_file({"DDQUEUE_REDIS_URL": "redis://:secret@r/0\nLD_PRELOAD=/tmp/x"})
    assert "secret" not in str(refused.value)


def test_no_secret_is_in_what_is_printed_of_them() -> None:
    (environment, *_) = files_of(SHARED, (Service.WORKER,))
    assert "postgresql" not in repr(environment) + repr(SHARED)


def test_flowers_login_lies_apart() -> None:
    files = {file.path: file for file in files_of(SHARED, (Service.DISPATCHER, Service.FLOWER))}
    flower = files[layout.FLOWER_ENVIRONMENT]
    assert flower.mode == 0o600
    assert sourced(flower.content, "DDQUEUE_FLOWER_PASSWORD") == "secret"
    assert b"secret" not in files[layout.ENVIRONMENT].content
    assert layout.FLOWER_ENVIRONMENT not in {file.path for file in files_of(SHARED, (Service.WORKER,))}


def test_flower_without_a_login_is_refused() -> None:
    def no_login() -> tuple[str, str]:
        raise UsageError("Flower would be open to everybody")

    shared = Shared("postgresql://db/x", "redis://r/0", b"", {}, no_login)
    with pytest.raises(UsageError, match="open to everybody"):
        files_of(shared, (Service.FLOWER,))
    assert files_of(shared, (Service.DISPATCHER,))


def test_a_stop_may_take_as_long_as_giving_a_borrowed_box_back() -> None:
    host = Host("b300", 8, "B300")
    borrowed = Host("b300", 8, "B300", borrow=Borrow(("stop",), ("start",), limit_s=600))
    assert stop_limit_s(borrowed) == stop_limit_s(host) + 4 * 600
    assert "TimeoutStopSec=2700\n" in unit(Service.WORKER, "b300", stop_limit_s(borrowed), "127.0.0.1")


@pytest.mark.parametrize("service", Service)
def test_every_placeholder_of_a_unit_is_filled(service: Service) -> None:
    text = unit(service, "b300", 300, "127.0.0.1")
    assert "@" not in text.replace("systemctl edit", "")
    assert f"ExecStart={layout.CURRENT}/bin/ddqueue {service.value}" in text


@pytest.mark.parametrize("service", Service)
def test_supervisord_starts_the_same_commands(service: Service) -> None:
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"))
    parser.read_string(program(service, "b300", 2700, "127.0.0.1"))
    section = parser[f"program:ddqueue-{service.value}"]
    assert section["stopwaitsecs"] == "2700"
    shell = shlex.split(section["command"].replace("%%", "%"))
    assert shell[:2] == ["/bin/sh", "-c"]
    assert f"exec {layout.CURRENT}/bin/ddqueue {service.value}" in shell[2]
    assert f". {layout.ENVIRONMENT};" in shell[2]
    assert subprocess.run(["sh", "-n", "-c", shell[2]], check=False).returncode == 0


def test_what_is_kept_of_a_deployment_gives_it_back() -> None:
    services = (Service.WORKER, Service.FLOWER)
    before = Installation("0.1.0-abc", services, tuple(files_of(SHARED, services)), "b300", 300.0)
    assert from_json(before.to_json("me@here")) == before
    with pytest.raises(ValueError, match="Expecting"):
        from_json(b"")
