"""What docker-compose.yml starts, started without an engine: the same words, environment, configuration files, secrets
and health checks, from an empty database to a measured sweep."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from compose_file import ROOT, read
from installation import sweep_text
from plain_processes import PlainProcesses, link_programs
from sqlalchemy import make_url

from ddqueue.local import binaries

REDIS_PASSWORD, FLOWER_PASSWORD = "redis-pass_1", "flower-pass_1"
VALUES = {
    "DDQUEUE_POSTGRES_PASSWORD": "of-the-session",
    "DDQUEUE_REDIS_PASSWORD": REDIS_PASSWORD,
    "DDQUEUE_FLOWER_PASSWORD": FLOWER_PASSWORD,
    "DDQUEUE_FLOWER_USER": "night-shift",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def postgres_place(empty_database_url: str) -> dict[str, str]:
    """The session's Postgres in the place of the container's, its password in a secret's file as there."""
    url = make_url(empty_database_url)
    return {"host": str(url.host), "port": str(url.port), "name": str(url.database), "password": str(url.password)}


@pytest.fixture
def compose(tmp_path: Path, open_folder: Path, postgres_place: dict[str, str]) -> Iterator[PlainProcesses]:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    passwords = {"postgres": postgres_place["password"], "redis": REDIS_PASSWORD, "flower": FLOWER_PASSWORD}
    for name, password in passwords.items():
        file = secrets / f"{name}_password"
        file.write_text(password)
        file.chmod(0o400)
    redis_port, data = free_port(), tmp_path / "data"
    data.mkdir()
    configuration = (ROOT / "deploy" / "compose" / "redis.conf").read_text()
    assert "port 6379\ndir /data\n" in configuration
    (tmp_path / "redis.conf").write_text(
        configuration.replace("port 6379\ndir /data\n", f"port {redis_port}\nbind 127.0.0.1\ndir {data}\n")
        # Else the server writes over the arguments that a test wants to see.
        + "set-proc-title no\n"
    )
    link_programs(tmp_path / "programs", binaries.find(open_folder / "copies", None))
    place = f"{postgres_place['host']}:{postgres_place['port']}/{postgres_place['name']}"
    started = PlainProcesses(
        read().with_variables(VALUES)["services"],
        {
            "postgres:5432/ddqueue": place,
            "redis:6379": f"127.0.0.1:{redis_port}",
            "/run/secrets": str(secrets),
            "/etc/redis/redis.conf": str(tmp_path / "redis.conf"),
            "/etc/redis/start-redis": str(ROOT / "deploy" / "compose" / "start-redis"),
            "/etc/ddqueue/inventory.yaml": str(ROOT / "ddqueue" / "files" / "examples" / "inventory-sim.yaml"),
            "0.0.0.0": "127.0.0.1",
        },
        tmp_path,
        tmp_path / "programs",
    )
    yield started
    started.stop_all()


def test_from_an_empty_database_to_a_measured_sweep(compose: PlainProcesses, tmp_path: Path) -> None:
    broker = compose.start("redis")
    wait_for_broker(compose)
    for name in ("dispatcher", "sim-rtx6000"):
        refused = compose.run(name, compose.words(name))
        assert (refused.returncode, "run: ddqueue db upgrade" in refused.stderr) == (2, True), refused.stderr
    migrated = compose.run("migrate", compose.words("migrate"))
    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert migrated.stdout.startswith("the database went from empty to revision ")
    assert "already" in compose.run("migrate", compose.words("migrate")).stdout

    flower_port = str(free_port())
    assert compose.health("dispatcher").returncode == 1
    assert compose.health("flower", "--port", flower_port).returncode == 3
    assert compose.health("sim-b300").returncode == 1
    compose.start("dispatcher")
    compose.start("flower", "--port", flower_port)
    for host in ("sim-rtx6000", "sim-b300"):
        compose.start(host)
        compose.wait_healthy(host)
    compose.wait_healthy("dispatcher")
    compose.wait_healthy("flower", "--port", flower_port)

    sweep = sweep_text("compose", hosts=["sim-rtx6000", "sim-b300"])
    submitted = compose.run("sim-rtx6000", ["ddqueue", "submit", "/dev/stdin", "--json"], stdin=sweep)
    assert submitted.returncode == 0, submitted.stderr
    words = ["ddqueue", "status", "compose", "--json"]
    compose.wait(
        "dispatcher",
        lambda: {job["state"] for job in json.loads(compose.run("dispatcher", words).stdout)["jobs"]} == {"succeeded"},
    )
    hosts = json.loads(compose.run("dispatcher", ["ddqueue", "hosts", "--json"]).stdout)
    assert [(row["name"], row["version_differs"]) for row in hosts["hosts"]] == [
        ("sim-b300", False),
        ("sim-rtx6000", False),
    ]
    for name in ("sim-rtx6000", "sim-b300", "dispatcher", "flower"):
        assert compose.stop(name) == 0, compose.log(name)
    for host in ("sim-rtx6000", "sim-b300"):
        assert compose.health(host).returncode == 1
    assert broker.poll() is None
    for name in ("dispatcher", "flower", "sim-rtx6000", "redis"):
        assert "pass_1" not in compose.log(name)


def broker_url(compose: PlainProcesses, password: str = REDIS_PASSWORD) -> str:
    return (
        f"redis://:{password}@{compose.here('redis:6379')}/0" if password else f"redis://{compose.here('redis:6379')}/0"
    )


def wait_for_broker(compose: PlainProcesses) -> None:
    def answers() -> bool:
        try:
            with redis.Redis.from_url(broker_url(compose)) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    compose.wait("redis", answers)


def test_the_broker_is_set_up_and_shows_its_password_to_nobody(compose: PlainProcesses, tmp_path: Path) -> None:
    server = compose.start("redis")
    wait_for_broker(compose)
    with redis.Redis.from_url(broker_url(compose), decode_responses=True) as client:
        wanted = {"maxmemory-policy": "noeviction", "appendonly": "yes", "save": "", "maxmemory": str(256 * 2**20)}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted
        client.set("kept", "yes")
    with (
        pytest.raises(redis.AuthenticationError),
        redis.Redis.from_url(broker_url(compose, password="")) as stranger,
    ):
        stranger.ping()
    # The server itself, not a shell around it: it gets the signal to stop.
    argv = Path(f"/proc/{server.pid}/cmdline").read_text().split("\0")
    assert argv == ["valkey-server", compose.here("/etc/redis/redis.conf"), "-", ""]
    assert REDIS_PASSWORD.encode() not in Path(f"/proc/{server.pid}/environ").read_bytes()
    assert compose.stop("redis") == 0
    compose.start("redis")
    wait_for_broker(compose)
    with redis.Redis.from_url(broker_url(compose), decode_responses=True) as client:
        assert client.get("kept") == "yes"


@pytest.mark.parametrize("password", ["", "two words", "a\nmaxmemory 1", 'quo"te'])
def test_a_broker_without_a_usable_password_does_not_start(
    compose: PlainProcesses, tmp_path: Path, password: str
) -> None:
    secret = tmp_path / "secrets" / "redis_password"
    secret.chmod(0o600)
    secret.write_text(password)
    refused = compose.run("redis", compose.words("redis"))
    assert refused.returncode == 64
    assert "must be letters, digits, - and _, and not empty" in refused.stderr
    assert "two words" not in refused.stderr


def test_the_brokers_health_check(compose: PlainProcesses, tmp_path: Path) -> None:
    client = shutil.which("valkey-cli") or shutil.which("redis-cli")
    if client is None:
        pytest.skip("neither valkey-cli nor redis-cli is on this machine")
    port = compose.here("redis:6379").rpartition(":")[2]
    (tmp_path / "programs" / "valkey-cli").write_text(f'#!/bin/sh\nexec {client} -p {port} "$@"\n')
    (tmp_path / "programs" / "valkey-cli").chmod(0o755)
    compose.start("redis")
    compose.wait_healthy("redis")
    secret = tmp_path / "secrets" / "redis_password"
    secret.chmod(0o600)
    secret.write_text("another")
    assert compose.health("redis").returncode == 1
    secret.write_text(REDIS_PASSWORD)
    compose.stop("redis")
    assert compose.health("redis").returncode == 1


def test_the_databases_health_check(compose: PlainProcesses, postgres_place: dict[str, str]) -> None:
    assert compose.health("postgres", PGPORT=postgres_place["port"]).returncode == 0
    assert compose.health("postgres", PGPORT=str(free_port())).returncode == 2


def test_backup_and_restore_as_an_operator_types_them(compose: PlainProcesses, tmp_path: Path) -> None:
    """`docker compose exec -T dispatcher ddqueue db backup -`, then `docker compose run -T migrate db restore -`."""
    compose.run("migrate", compose.words("migrate"))
    environment = compose.environment("migrate")
    backup = subprocess.run(["ddqueue", "db", "backup", "-"], env=environment, capture_output=True, check=True)
    assert backup.stdout.startswith(b"PGDMP")
    restore = ["ddqueue", "db", "restore", "--replace", "-"]
    done = subprocess.run(restore, env=environment, input=backup.stdout, capture_output=True, check=True)
    assert done.stdout.startswith(b"restored -: ")
