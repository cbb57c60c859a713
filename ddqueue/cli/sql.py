"""`ddqueue sql`."""

from __future__ import annotations

import json
import os
import shutil

import click
from sqlalchemy import URL, make_url

from ddqueue import settings
from ddqueue.errors import UsageError
from ddqueue.local import binaries
from ddqueue.local.home import Home
from ddqueue.report.grid import Grid, as_csv, as_plain
from ddqueue.storage.asking import Answer, ask


@click.command()
@click.argument("query", required=False)
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Seconds."
)
def sql(query: str | None, form: str, as_json: bool, timeout_s: float) -> None:
    """Ask the database one QUERY, read-only; without one, open psql, read-only too.

    The views `results` and `points` and the tables carry comments with units: \\d+ results shows them in psql.
    """
    database_url = settings.database_url()
    if query is None:
        _open_psql(database_url, timeout_s)
    else:
        click.echo(_rendered(ask(database_url, query, timeout_s), "json" if as_json else form))


def _rendered(answer: Answer, form: str) -> str:
    if form == "json":
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        return json.dumps(rows, indent=2, default=str)
    if form == "csv":
        return as_csv(answer.columns, [[_text(value) for value in row] for row in answer.rows])
    grid = Grid(answer.columns, tuple(tuple(_text(value) for value in row) for row in answer.rows))
    count = len(answer.rows)
    return f"{as_plain(grid)}\n({count} row{'' if count == 1 else 's'})"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def _open_psql(database_url: str, timeout_s: float) -> None:
    """Become psql. The password goes by the environment, which other users cannot read, never by the arguments."""
    program = shutil.which("psql")
    if program is None:
        home = Home(settings.home())
        program = str(binaries.find(home.binaries, None).psql)
    url = make_url(database_url)
    password = url.password or url.query.get("password")
    options = f"-c default_transaction_read_only=on -c statement_timeout={round(timeout_s * 1000)}ms"
    environment = {**os.environ, "PGOPTIONS": options, "PGAPPNAME": "ddqueue sql"}
    if password is not None:
        environment["PGPASSWORD"] = str(password)
    target = _without_password(url).render_as_string()
    try:
        os.execve(program, [program, "--dbname", target], environment)  # noqa: S606 -- no shell: the arguments are a list
    except OSError as error:
        raise UsageError(f"cannot start {program}: {error.strerror}; pass a query instead") from error


def _without_password(url: URL) -> URL:
    bare = URL.create("postgresql", username=url.username, host=url.host, port=url.port, database=url.database)
    return bare.set(query={name: value for name, value in url.query.items() if name != "password"})
