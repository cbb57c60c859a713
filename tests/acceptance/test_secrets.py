"""No secret leaves the places that are made to hold it, in a whole installation in which things also go wrong."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import psycopg
import pytest
import redis
from hook_server import hook_server
from installation import PATIENCE_S, Installation, sweep_text
from psycopg import sql

HOST = "sim-rtx6000"
MARK = uuid.uuid4().hex[:6]
POSTGRES = f"pg/{MARK}:odd@pass word?#"
REDIS = f"red%is+{MARK}/&=@:pass"
FLOWER = f"flo\"wer'{MARK};pass%"
HOOK = f"hook~{MARK}-token"
MODELS = f"hf_{MARK}Models"
ENGINE = f"engine-{MARK}-key"
SECRETS = {"Postgres": POSTGRES, "Redis": REDIS, "Flower": FLOWER, "webhook": HOOK, "models": MODELS, "engine": ENGINE}

CELLS = ["{block_size: 8, budget: 8, topk: 4, window: 2048}", "{block_size: 8, budget: 4, args.sim-fault: oom@load}"]
LONG = ["{concurrency: 1, context: 4096, output: 256}"]

MADE_TO_HOLD = {("webhooks", "url")}
"""The receiver's address, which the dispatcher needs."""


def forms(secret: str) -> set[bytes]:
    """How a secret may be written."""
    spelled = {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
    }
    return {text.encode() for text in spelled} | {base64.b64encode(secret.encode()).rstrip(b"=")[:-1]}


FORMS = {name: forms(secret) for name, secret in SECRETS.items()}


def assert_clean(data: bytes | str, where: str) -> None:
    raw = data if isinstance(data, bytes) else data.encode()
    found = [name for name, spelled in FORMS.items() if any(text in raw for text in spelled)]
    assert not found, f"{where} holds the secret of {found}: {raw[:2000]!r}"


@pytest.mark.parametrize("spell", [str, quote, quote_plus, json.dumps, repr])
def test_the_search_finds_a_secret_however_it_is_written(spell: Callable[[str], str]) -> None:
    for secret in SECRETS.values():
        with pytest.raises(AssertionError, match="holds the secret"):
            assert_clean(f"a word {spell(secret)} and another", "here")


@pytest.fixture
def postgres(database_url: str) -> Iterator[str]:
    """The database's URL for a role whose password is unusual."""
    role = f"ddqueue_secret_{MARK}"
    with psycopg.connect(database_url, autocommit=True) as admin:
        try:
            admin.execute(
                sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(
                    sql.Identifier(role), sql.Literal(POSTGRES)
                )
            )
        except psycopg.errors.InsufficientPrivilege:
            pytest.skip("the role of these tests may not make another")
        url = urlsplit(database_url)
        yield f"postgresql://{role}:{quote(POSTGRES, safe='')}@{url.hostname}:{url.port}{url.path}"
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.fixture
def broker(redis_url: str) -> Iterator[str]:
    """The broker's URL for a user whose password is unusual."""
    user = f"secret-{MARK}"
    with redis.Redis.from_url(redis_url) as admin:
        admin.acl_setuser(user, enabled=True, passwords=[f"+{REDIS}"], keys=["*"], channels=["*"], commands=["+@all"])
        url = urlsplit(redis_url)
        yield f"redis://{user}:{quote(REDIS, safe='')}@{url.hostname}:{url.port}{url.path}"
        admin.acl_deluser(user)


class Watch:
    """Collects what any process is started with, and everything that passes through the broker."""

    def __init__(self, redis_url: str) -> None:
        self.arguments: set[bytes] = set()
        self.messages: list[str] = []
        self._redis_url = redis_url
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        threads = [threading.Thread(target=look, daemon=True) for look in (self._look, self._listen)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            threads[0].join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    self.arguments.add(process.read_bytes())

    def _listen(self) -> None:
        with redis.Redis.from_url(self._redis_url) as client, client.monitor() as monitor, suppress(redis.RedisError):
            for command in monitor.listen():
                self.messages.append(command["command"])
                if self._over.is_set():
                    return


def bodies(message: str) -> Iterator[bytes]:
    """What Celery packs into a message."""
    for encoded in re.findall(r"[A-Za-z0-9+/]{16,}={0,2}", message):
        with suppress(ValueError):
            yield base64.b64decode(encoded, validate=True)


def test_no_secret_is_where_it_should_not_be(
    tmp_path: Path, postgres: str, broker: str, redis_url: str, database_url: str
) -> None:
    installation = Installation(tmp_path / "home", postgres, broker)
    for name, value in {
        "DDQUEUE_FLOWER_USER": "me",
        "DDQUEUE_FLOWER_PASSWORD": FLOWER,
        "HF_TOKEN": MODELS,
        "SGLANG_HUB_TOKEN": MODELS,
        "SGLANG_API_KEY": ENGINE,
        "TORCH_PASSWORD": ENGINE,
        "NCCL_SECRET": ENGINE,
        "SGLANG_SOURCE": f"https://me:{ENGINE}@example.invalid/x",
        "NCCL_DEBUG": "WARN",
    }.items():
        installation.set(name, value)
    with hook_server() as receiver, Watch(redis_url).watching() as watch:
        installation.set("DDQUEUE_WEBHOOK_URL", f"{receiver.url}/hook?token={HOOK}")
        try:
            pages = _everything_happens(installation)
            assert receiver.got
        finally:
            installation.stop()
    for where, text in {**pages, **_errors(installation, postgres, broker)}.items():
        assert_clean(text, where)
    assert any(b"ddqueue" in argv and b"worker" in argv for argv in watch.arguments)
    assert_clean(b"\n".join(watch.arguments), "a process's arguments")
    assert any("LPUSH gpu." in message for message in watch.messages)
    for message in watch.messages:
        assert_clean(message, "a command to the broker")
        for body in bodies(message):
            assert_clean(body, "a message")
    files = [path for path in installation.home.rglob("*") if path.is_file()]
    assert {"inventory.yaml", "sweep.yaml"} <= {path.name for path in files}
    assert any(path.name.startswith("attempt-") for path in files)
    for path in files:
        assert_clean(path.read_bytes(), str(path))
    _the_database_is_clean(database_url)


def _everything_happens(installation: Installation) -> dict[str, str]:
    """A job that succeeds and one that fails, with Flower watching; returns everything that a person may read."""
    flower = _flower(installation)
    sweep = installation.submit(sweep_text("secret", cells=CELLS, points=LONG))
    workers = installation.start_all(HOST)
    jobs = installation.wait_final(sweep)
    assert [(job["state"], job["failure"]) for job in jobs] == [("succeeded", None), ("failed", "OOM_LOAD")]
    deadline = time.monotonic() + PATIENCE_S
    while "secret@1" not in _page(flower, "/api/tasks"):
        assert time.monotonic() < deadline, installation.logs()
        time.sleep(0.2)
    paths = ["/", "/tasks", "/api/tasks", "/api/workers?refresh=1", "/broker", "/metrics", f"/worker/gpu@{HOST}"]
    read = {f"Flower's {path}": _page(flower, path) for path in paths}
    job = str(jobs[1]["job_id"])
    for words in (
        ("doctor", "--host", HOST),
        ("status",),
        ("hosts", "--json"),
        ("show", job, "--json"),
        ("logs", job),
    ):
        done = installation.run(*words, code=None)
        read[" ".join(words)] = done.stdout + done.stderr
    report = installation.home / "report.html"
    installation.run("report", sweep, "--output", str(report))
    assert all(process.poll() is None for process in workers)
    return read


def _errors(installation: Installation, postgres: str, broker: str) -> dict[str, str]:
    """What is said when a server is away, or does not take the password."""
    there, place = urlsplit(postgres), urlsplit(broker)
    wrong = {
        "a wrong database host": {"DDQUEUE_DATABASE_URL": postgres.replace(f":{there.port}/", ":1/")},
        "an unknown database host": {
            "DDQUEUE_DATABASE_URL": postgres.replace(f"@{there.hostname}:", "@ddqueue.invalid:")
        },
        "a wrong database user": {"DDQUEUE_DATABASE_URL": postgres.replace("//ddqueue_", "//other_")},
        "no database URL": {"DDQUEUE_DATABASE_URL": postgres.replace("postgresql://", "postgresql:/ /")},
        "another database": {"DDQUEUE_DATABASE_URL": postgres.replace("postgresql://", "mysql://")},
    }
    said = {what: installation.run("status", code=None, **environment).stderr for what, environment in wrong.items()}
    brokers = {
        "a wrong broker port": broker.replace(f":{place.port}", ":1"),
        "a wrong broker user": broker.replace("//secret-", "//other-"),
        "no broker URL": broker.replace("redis://", "radish://"),
        "a broker by TLS": broker.replace("redis://", "rediss://") + "?ssl_ca_certs=/not/there",
    }
    for what, url in brokers.items():
        done = installation.run("doctor", "--host", HOST, code=None, DDQUEUE_REDIS_URL=url)
        said[what] = done.stdout + done.stderr
    assert all(said.values())
    return said


def _the_database_is_clean(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"
        ).fetchall()
        assert {("attempts",), ("events",), ("jobs",), ("webhooks",)} <= set(tables)
        for (table,) in tables:
            cursor = connection.execute(
                sql.SQL("SELECT row_to_json(t)::jsonb FROM {} AS t").format(sql.Identifier(table))
            )
            rows: list[dict[str, Any]] = [row for (row,) in cursor]
            for row in rows:
                for column, value in row.items():
                    if (table, column) not in MADE_TO_HOLD:
                        assert_clean(json.dumps(value, ensure_ascii=False), f"{table}.{column}")
                        assert_clean(str(value), f"{table}.{column}")
        held = connection.execute("SELECT url FROM webhooks").fetchall()
        assert [HOOK in url for (url,) in held] == [True]
        (kept,) = connection.execute(
            "SELECT provenance->'worker_environment' FROM attempts WHERE provenance IS NOT NULL LIMIT 1"
        ).fetchone() or ({},)
    hidden = {name for name, value in kept.items() if value == "(hidden)"}
    assert hidden == {"SGLANG_HUB_TOKEN", "SGLANG_API_KEY", "TORCH_PASSWORD", "NCCL_SECRET", "SGLANG_SOURCE"}
    assert kept["NCCL_DEBUG"] == "WARN"


def _flower(installation: Installation) -> str:
    installation.start("flower", "--port", "0")
    log = next(installation.home.glob("flower-*.log"))
    deadline = time.monotonic() + PATIENCE_S
    while not (found := re.search(r"Flower is at (\S+)/", log.read_text())):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[1]


def _page(flower: str, path: str) -> str:
    login = base64.b64encode(f"me:{FLOWER}".encode()).decode()
    request = urllib.request.Request(flower + path, headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=60) as page:
        text: str = page.read().decode()
    return text
