"""Both ways to ask the database behave alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from storage_world import World

from ddqueue.errors import NotReachable, UsageError
from ddqueue.storage.address import Address
from ddqueue.storage.engine import connect
from ddqueue.storage.pooled_reads import PooledReads
from ddqueue.storage.reads import PlainReads, Reads

KINDS = ("plain", "pooled")


@contextmanager
def opened(kind: str, database_url: str) -> Iterator[Reads]:
    if kind == "plain":
        plain = PlainReads(database_url, "test")
        try:
            yield plain
        finally:
            plain.close()
        return
    sql_engine = connect(database_url, "test")
    try:
        yield PooledReads(sql_engine)
    finally:
        sql_engine.dispose()


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    built = World(database_url)
    yield built
    built.sql_engine.dispose()


@pytest.fixture(params=KINDS)
def reads(request: pytest.FixtureRequest, database_url: str) -> Iterator[Reads]:
    with opened(request.param, database_url) as given:
        yield given


def test_rows_are_mappings_and_parameters_values(reads: Reads) -> None:
    with reads.reading() as fetch:
        rows = fetch(
            "SELECT n, 'a%b' AS share, n::text AS word, CAST(:gone AS bigint) AS gone, '[1]'::jsonb AS parts,"
            " ARRAY[n, 7] AS both FROM generate_series(1, :most) AS n WHERE n <> :but ORDER BY n",
            most=3,
            but=2,
            gone=None,
        )
    same = {"share": "a%b", "gone": None, "parts": [1]}
    assert rows == [{"n": n, "word": str(n), "both": [n, 7], **same} for n in (1, 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_can_be_changed(kind: str, world: World) -> None:
    world.submit()
    with (
        opened(kind, world.database_url) as reads,
        pytest.raises(Exception, match="read-only transaction"),
        reads.reading() as fetch,
    ):
        fetch("DELETE FROM jobs RETURNING id")
    assert world.one("SELECT count(*) FROM jobs") > 0


@pytest.mark.parametrize(("consistent", "seen"), [(False, [1, 2]), (True, [1, 1])])
@pytest.mark.parametrize("kind", KINDS)
def test_a_consistent_look_sees_one_moment(kind: str, consistent: bool, seen: list[int], world: World) -> None:
    world.submit()
    with opened(kind, world.database_url) as reads, reads.reading(consistent=consistent) as fetch:
        counts = [fetch("SELECT count(*) AS n FROM sweeps")[0]["n"]]
        world.submit()
        counts.append(fetch("SELECT count(*) AS n FROM sweeps")[0]["n"])
    assert counts == seen


def test_a_connection_that_was_ended_is_made_anew(world: World) -> None:
    with opened("plain", world.database_url) as reads:
        with reads.reading() as fetch:
            pid = fetch("SELECT pg_backend_pid() AS pid")[0]["pid"]
        world.do("SELECT pg_terminate_backend(:pid)", pid=pid)
        with pytest.raises(NotReachable, match="did not answer"), reads.reading() as fetch:
            fetch("SELECT 1")
        with reads.reading() as fetch:
            assert fetch("SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_without_tables_names_the_remedy(kind: str, empty_database_url: str) -> None:
    with (
        opened(kind, empty_database_url) as reads,
        pytest.raises(UsageError, match="run `ddqueue db upgrade`"),
        reads.reading() as fetch,
    ):
        fetch("SELECT * FROM jobs")


@pytest.mark.parametrize("kind", KINDS)
def test_a_password_that_is_refused_is_not_repeated(kind: str, database_url: str) -> None:
    password = Address.parse(database_url).password
    assert password
    with (
        opened(kind, database_url.replace(password, "not-the-password")) as reads,
        pytest.raises(NotReachable, match="password authentication failed") as away,
        reads.reading() as fetch,
    ):
        fetch("SELECT 1")
    assert "not-the-password" not in str(away.value)


def test_a_mistake_of_ours_stays_what_it_is(reads: Reads) -> None:
    with pytest.raises(Exception, match="syntax error") as mistake, reads.reading() as fetch:
        fetch("SELECT FROM WHERE")
    assert isinstance(mistake.value, psycopg.Error) or isinstance(mistake.value.__cause__, psycopg.Error)
