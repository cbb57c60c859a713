"""Everything a report is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from ddqueue.domain.sweep import Point
from ddqueue.report.cells import Server
from ddqueue.report.judgement import JudgedCell, Judgement
from ddqueue.report.pairs import JudgedSweep, Pair, against_baselines
from ddqueue.report.point_names import point_heads

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ReportData:
    """A judged sweep, with the rows of `PostgresReportReader` beside it. `made_at` is when they were read."""

    judged: JudgedSweep
    sweep: Row
    hosts: Sequence[Row]
    attempts: Sequence[Row]
    telemetry: Sequence[Row]
    made_at: datetime
    version: str

    @property
    def judgement(self) -> Judgement:
        return self.judged.judgement

    @property
    def points(self) -> tuple[Point, ...]:
        return self.judgement.points

    @cached_property
    def heads(self) -> dict[Point, str]:
        """What each point is called in a table or title."""
        return dict(zip(self.points, point_heads(self.points), strict=True))

    @cached_property
    def servers(self) -> list[Server]:
        """Every host and parallelism, in the order of the table."""
        return [server for host in self.judgement.hosts for server in self.judgement.servers(host)]

    def server_name(self, server: Server) -> str:
        """The host's name, with the parallelism."""
        return f"{server[0]} {server[1]}"

    def cells(self, server: Server) -> list[JudgedCell]:
        """The configurations of one server, in the order of the file."""
        return [cell for cell in self.judgement.cells if cell.measured.server == server]

    def baseline(self, server: Server) -> JudgedCell | None:
        """The server's cell without speculation."""
        return next((cell for cell in self.cells(server) if cell.measured.row["baseline"]), None)

    def simulated_on(self, host: str) -> bool:
        """Whether anything measured on the host is simulated."""
        return any(row["simulated"] for row in self.judgement.rows if row["host"] == host)

    @cached_property
    def simulated(self) -> bool:
        """Whether anything in the report is."""
        return any(row["simulated"] for row in self.judgement.rows)

    @cached_property
    def against_baselines(self) -> list[Pair]:
        """Every configuration beside the baseline of its server; empty where there is none, or nothing beside it."""
        has_baseline = any(cell.measured.row["baseline"] for cell in self.judgement.cells)
        has_others = any(not cell.measured.row["baseline"] for cell in self.judgement.cells)
        if not (has_baseline and has_others):
            return []
        return against_baselines(self.judged)
