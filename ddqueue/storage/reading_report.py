"""What a report tells beyond the results: the submitted file, attempts with their steps, and what the GPUs did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddqueue.storage.reads import Reads, Row
from ddqueue.storage.sql_files import sql


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

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def rows(self, sweep_id: int) -> ReportRows:
        """Raises NotReachable when Postgres does not answer."""
        with self._reads.reading(consistent=True) as fetch:
            phases: dict[int, list[Row]] = {}
            for phase in fetch(sql("report_phases"), sweep_id=sweep_id):
                phases.setdefault(phase["attempt_id"], []).append(phase)
            attempts = fetch(sql("report_attempts"), sweep_id=sweep_id)
            return ReportRows(
                sweep=fetch(sql("report_sweep"), sweep_id=sweep_id)[0],
                hosts=fetch(sql("report_hosts"), sweep_id=sweep_id),
                attempts=[{**attempt, "phases": phases.get(attempt["attempt_id"], [])} for attempt in attempts],
                telemetry=fetch(sql("report_telemetry"), sweep_id=sweep_id),
            )
