"""What a report tells beyond the results: the submitted file, attempts with their steps, and what the GPUs did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, text

from ddqueue.storage.engine import transaction
from ddqueue.storage.statements import statement

Row = dict[str, Any]


@dataclass(frozen=True)
class ReportRows:
    """All of one moment.

    `sweep` is what was submitted, with `file_text`, and when its first attempt began and its last one ended. `hosts`
    are in the order of the file. `attempts` are host by host in the order begun, each with its `phases` in the order
    stored. `telemetry` has one row a configuration and point: power of all GPUs in watts, clocks in MHz, degrees
    Celsius, MiB, joules a token.
    """

    sweep: Row
    hosts: Sequence[Row]
    attempts: Sequence[Row]
    telemetry: Sequence[Row]


class PostgresReportReader:
    """Reads, and changes nothing."""

    def __init__(self, sql_engine: Engine) -> None:
        self._sql_engine = sql_engine

    def rows(self, sweep_id: int) -> ReportRows:
        """Raises NotReachable when Postgres does not answer."""
        with transaction(self._sql_engine) as connection:
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            phases: dict[int, list[Row]] = {}
            for phase in _fetch(connection, "report_phases", sweep_id):
                phases.setdefault(phase["attempt_id"], []).append(phase)
            attempts = _fetch(connection, "report_attempts", sweep_id)
            return ReportRows(
                sweep=_fetch(connection, "report_sweep", sweep_id)[0],
                hosts=_fetch(connection, "report_hosts", sweep_id),
                attempts=[{**attempt, "phases": phases.get(attempt["attempt_id"], [])} for attempt in attempts],
                telemetry=_fetch(connection, "report_telemetry", sweep_id),
            )


def _fetch(connection: Connection, name: str, sweep_id: int) -> list[Row]:
    return [dict(row) for row in connection.execute(statement(name), {"sweep_id": sweep_id}).mappings()]
