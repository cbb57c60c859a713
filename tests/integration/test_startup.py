"""What a command imports: Python's start is most of the time that a question to the database takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from known_sweep import stored_known_sweep

HEAVY = (
    "aiohttp",
    "alembic",
    "asyncssh",
    "billiard",
    "celery",
    "fabric",
    "flower",
    "kombu",
    "numpy",
    "paramiko",
    "pynvml",
    "redis",
    "rich",
    "ruamel",
    "scipy",
    "sqlalchemy",
    "tornado",
)
"""Distributions that a command which only asks can do without, by the name that is imported."""

WATCHED = """
import sys
from ddqueue.cli.main import main
sys.argv = ["ddqueue", *sys.argv[1:]]
try:
    main()
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def imported(*arguments: str, **environment: str) -> set[str]:
    """What a fresh interpreter has imported when the command has ended well."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("status", "--help"), ("hosts", "--help")])
def test_help_imports_no_driver_at_all(arguments: tuple[str, ...]) -> None:
    assert imported(*arguments).isdisjoint({*HEAVY, "psycopg"})


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("status", "--json"),
        ("status", "ddtree-block8"),
        ("hosts",),
        ("show", "1"),
        ("results", "ddtree-block8"),
        ("results", "ddtree-block8", "--by-visit"),
        ("compare", "ddtree-block8", "--baseline"),
        ("report", "ddtree-block8", "-o", "-"),
    ],
)
def test_a_command_that_only_asks_imports_little(database_url: str, arguments: tuple[str, ...]) -> None:
    with stored_known_sweep(database_url):
        found = imported(*arguments, DDQUEUE_DATABASE_URL=database_url)
    assert "psycopg" in found
    assert found.isdisjoint(HEAVY)
