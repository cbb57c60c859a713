"""Real servers for every test: one Postgres and one Valkey per session, a database of its own per test."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from hypothesis import settings
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ddqueue.local.servers import LocalServers, ephemeral

DATABASE_VARIABLE = "DDQUEUE_TEST_DATABASE_URL"
REDIS_VARIABLE = "DDQUEUE_TEST_REDIS_URL"

# On a busy machine an example takes as long as it takes: a time decides no test.
settings.register_profile("ddqueue", deadline=None)
settings.load_profile("ddqueue")


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that the servers' account can enter; pytest's own are closed to everybody but the caller."""
    folder = Path(tempfile.mkdtemp(prefix="ddqueue-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def servers(open_folder: Path) -> Iterator[LocalServers]:
    """The session's servers: embedded, or those that DDQUEUE_TEST_DATABASE_URL and DDQUEUE_TEST_REDIS_URL name.

    A named Postgres role must be allowed to create databases. A named Redis database is emptied.
    """
    database_url, redis_url = os.environ.get(DATABASE_VARIABLE), os.environ.get(REDIS_VARIABLE)
    if database_url and redis_url:
        yield LocalServers(database_url, redis_url)
        return
    with ephemeral(open_folder / "session") as embedded:
        yield LocalServers(database_url or embedded.database_url, redis_url or embedded.redis_url)


@pytest.fixture(scope="session")
def migrated_template(servers: LocalServers) -> Iterator[str]:
    """The name of a database with the current schema and no rows, to be copied."""
    from ddqueue.storage.migrate import upgrade

    name = f"ddqueue_template_{uuid.uuid4().hex[:12]}"
    _administer(servers.database_url, "CREATE DATABASE {}", name)
    try:
        upgrade(_url_of(servers.database_url, name))
        yield name
    finally:
        _administer(servers.database_url, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def database_url(servers: LocalServers, migrated_template: str) -> Iterator[str]:
    """The URL of a fresh, migrated database of this test's own."""
    name = f"ddqueue_test_{uuid.uuid4().hex[:12]}"
    _administer(servers.database_url, "CREATE DATABASE {} TEMPLATE {}", name, migrated_template)
    try:
        yield _url_of(servers.database_url, name)
    finally:
        _administer(servers.database_url, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def empty_database_url(servers: LocalServers) -> Iterator[str]:
    """The URL of a fresh database without any schema."""
    name = f"ddqueue_test_{uuid.uuid4().hex[:12]}"
    _administer(servers.database_url, "CREATE DATABASE {}", name)
    try:
        yield _url_of(servers.database_url, name)
    finally:
        _administer(servers.database_url, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def redis_url(servers: LocalServers) -> str:
    """The URL of an empty Redis database."""
    with redis.Redis.from_url(servers.redis_url) as client:
        client.flushdb()
    return servers.redis_url


def _administer(url: str, statement: str, *names: str) -> None:
    query = sql.SQL(statement).format(*(sql.Identifier(name) for name in names))
    with psycopg.connect(make_conninfo(url, connect_timeout=10), autocommit=True) as connection:
        connection.execute(query)


def _url_of(url: str, database: str) -> str:
    """The same server and role, another database."""
    head, _, tail = url.partition("://")
    authority, _, rest = tail.partition("/")
    options = rest.partition("?")[2]
    return f"{head}://{authority}/{database}" + (f"?{options}" if options else "")
