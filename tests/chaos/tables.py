"""Reads the queue's tables at the end of a run, with the commit time of each row."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from .history import Tables

_COMMITTED = "extract(epoch FROM pg_xact_commit_timestamp(xmin))::double precision AS committed_at"

_QUERIES = {
    "sweeps": "SELECT id, name, revision FROM sweeps ORDER BY id",
    "jobs": "SELECT id, sweep_id, host, state, tries, failure FROM jobs ORDER BY id",
    "attempts": "SELECT id, job_id, number, fence, host, outcome, failure, evidence, runner_pid FROM attempts"
    " ORDER BY id",
    "events": f"SELECT id, kind, sweep_id, job_id, attempt_id, host, detail, {_COMMITTED} FROM events ORDER BY id",
    "measurements": "SELECT attempt_id, repeat FROM measurements ORDER BY id",
}

_OF_ATTEMPTS = """
SELECT c.table_name
FROM information_schema.columns AS c
JOIN information_schema.tables AS t USING (table_schema, table_name)
WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.column_name = 'attempt_id'
ORDER BY c.table_name
"""


def read(url: str) -> Tables:
    """Everything that the checker needs; every table that has rows of attempts is audited, whatever its name."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        rows = {name: tuple(connection.execute(query).fetchall()) for name, query in _QUERIES.items()}
        audited = [row["table_name"] for row in connection.execute(_OF_ATTEMPTS).fetchall()]
        writes = [row for table in audited for row in _writes(connection, table, "attempt_id")]
        writes += _writes(connection, "attempts", "id")
        return Tables(**rows, writes=tuple(writes))


def _writes(connection: psycopg.Connection[dict[str, Any]], table: str, column: str) -> list[dict[str, Any]]:
    query = sql.SQL(
        "SELECT {label} AS table, {column} AS attempt_id,"
        " extract(epoch FROM pg_xact_commit_timestamp(xmin))::double precision AS committed_at"
        " FROM {table} WHERE {column} IS NOT NULL"
    ).format(label=sql.Literal(table), column=sql.Identifier(column), table=sql.Identifier(table))
    return connection.execute(query).fetchall()
