"""How the URL of a database is read."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url

from ddqueue.errors import UsageError
from ddqueue.storage.address import Address


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ddqueue:secret@10.0.0.1:5433/queue",
        "postgresql://ddqueue:p%40s%2Fs%3A%25@db.example:5432/queue",
        "postgresql://a:p#ss/w?rd@h/x",
        "postgresql+psycopg://a:b@h/x",
        "postgresql://a@h/x",
        "postgresql://h/x",
        "postgresql://a:b@[::1]:5432/x",
        "postgresql:///x?host=/run/postgresql",
        "postgresql://a:b@h/x?sslmode=require&connect_timeout=5",
    ],
)
def test_a_url_is_read_as_sqlalchemy_does(url: str) -> None:
    theirs, ours = make_url(url), Address.parse(url)
    assert (ours.user, ours.password) == (theirs.username, theirs.password)
    assert (ours.host, ours.port, ours.database) == (theirs.host, theirs.port, theirs.database)
    assert dict(ours.options) == dict(theirs.query)


def test_how_long_both_ends_wait_stands_in_every_connection() -> None:
    arguments = Address.parse("postgresql://a:b@h:5433/x?sslmode=require").connection_arguments("me", 5)
    wanted = {"user": "a", "password": "b", "host": "h", "port": 5433, "dbname": "x", "sslmode": "require"}
    assert wanted.items() <= arguments.items()
    assert arguments["application_name"] == "me"
    assert "-c statement_timeout=5000ms" in arguments["options"]
    assert arguments["tcp_user_timeout"] == 4000


@pytest.mark.parametrize("url", ["mysql://root:hunter2@h/x", "hunter2", "postgresql://a:hunter2@h:port/x", ""])
def test_what_is_no_url_of_postgres_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError, match="postgresql://") as refused:
        Address.parse(url)
    assert "hunter2" not in str(refused.value)


def test_a_password_is_not_printed() -> None:
    address = Address.parse("postgresql://a:hunter2@h:5433/x")
    assert "hunter2" not in repr(address)
    assert address.place == "h:5433/x"
    assert Address.parse("postgresql:///x").place == "the local socket:5432/x"
