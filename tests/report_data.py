"""A sweep as the database would give it, small and made by a formula, for tests of what is printed and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from ddqueue.domain.sweep import Control, Measure, Point, Repeats
from ddqueue.report.html.data import ReportData
from ddqueue.report.judgement import judge_sweep
from ddqueue.report.pairs import JudgedSweep

POINTS = (Point(1, 60, 256), Point(1, 4096, 256), Point(32, 60, 256), Point(32, 4096, 256))
BEGAN = datetime(2026, 11, 29, 22, 0, tzinfo=UTC)
JOB_S = 600
HOSTS = {"rtx": ("EP8", "pcie", 1.0), "b300": ("TP8", "nvlink", 2.0)}
"""Each with its parallelism, its interconnect, and how much faster it is."""

FAILING, WRONG, BEYOND = "b24 t4 w2048", "b6 t4 w2048", "bs16 b16 t4 w2048"


class SweepRows:
    """The rows of one sweep: a baseline as control, trees, one that fails, one that answers wrong, one whose block the
    drafter was not trained for. `simulated` says it of every host."""

    def __init__(
        self, simulated: bool = True, hosts: Sequence[str] = tuple(HOSTS), control_visits: int = 5, noise: float = 0.01
    ) -> None:
        self.simulated = simulated
        self.hosts = list(hosts)
        self.control_visits = control_visits
        self.noise = noise
        self.random = Random(7)
        self.cells = [
            _cell("baseline", None, None),
            _cell("b4 t4 w2048", 8, 4),
            _cell("b8 t4 w2048", 8, 8),
            _cell("b8 t4 none", 8, 8, window=None),
            _cell("b16 t4 w2048", 8, 16),
            _cell(BEYOND, 16, 16),
            _cell(WRONG, 8, 6),
            _cell(FAILING, 8, 24),
        ]
        self.evidence = "CUDA out of memory at capture\nrank 3: tried to allocate 448 MiB"
        self.hypothesis = "small budgets win at C=32, larger ones at long context"
        self.file_text = "# trees\nname: trees\n"
        self.results: list[dict[str, Any]] = []
        self.repeats: list[dict[str, Any]] = []
        self.attempts: list[dict[str, Any]] = []
        self.telemetry: list[dict[str, Any]] = []

    def data(self) -> ReportData:
        """Made anew from whatever the cells and texts are now."""
        for host in self.hosts:
            self._run(host)
        measure = Measure(POINTS, Repeats(3, 3), control=Control("hash-baseline", 2))
        judgement = judge_sweep(self.results, self.repeats, measure)
        canonical = {cell["cell_hash"]: _canonical(cell) for cell in self.cells}
        return ReportData(
            judged=JudgedSweep("trees@1", judgement, canonical),
            sweep=self._sweep(),
            hosts=[self._host(host) for host in self.hosts],
            attempts=self.attempts,
            telemetry=self.telemetry,
            made_at=BEGAN + timedelta(hours=12),
            version="0.0",
        )

    def _run(self, host: str) -> None:
        visits = [(cell, 1) for cell in self.cells]
        for visit in range(2, self.control_visits + 1):
            visits.insert(visit * 2 - 2, (self.cells[0], visit))
        for position, (cell, visit) in enumerate(visits):
            self._visit(host, cell, visit, position)

    def _visit(self, host: str, cell: Mapping[str, Any], visit: int, position: int) -> None:
        job_id = len(self.results) + 1
        began = BEGAN + timedelta(seconds=position * (JOB_S + 30))
        failed = cell["label"] == FAILING
        repeats = [] if failed else self._repeats(host, cell, job_id, began)
        self.repeats += repeats
        self.attempts.append(self._attempt(host, cell, job_id, began, failed, visit))
        if visit == 1 and not failed:
            self.telemetry += [self._gpus(host, cell, point) for point in POINTS]
        points = [_point(repeats, point) for point in POINTS] if repeats else None
        self.results.append(
            {
                **cell,
                "job_id": job_id,
                "sweep_id": 1,
                "sweep": "trees",
                "revision": 1,
                "model": "kimi",
                "engine": "sim",
                "hypothesis": self.hypothesis,
                "host": host,
                "gpu_kind": "a GPU",
                "parallel": HOSTS[host][0],
                "position": position,
                "visit": visit,
                "control": cell["baseline"],
                "simulated": self.simulated,
                "state": "failed" if failed else "succeeded",
                "failure": "OOM_CAPTURE" if failed else None,
                "evidence": self.evidence if failed else None,
                "tries": 1,
                "attempts": 1,
                "points": points,
                "acceptance_length": None if failed or cell["baseline"] else _acceptance(repeats),
                "n_valid": len(repeats),
                "n_invalid": 0,
                "coding_asked": True,
                "coding": None if failed else [_coding(cell)],
                "created_at": BEGAN,
                "started_at": began,
                "finished_at": began + timedelta(seconds=JOB_S),
            }
        )

    def _repeats(self, host: str, cell: Mapping[str, Any], job_id: int, began: datetime) -> list[dict[str, Any]]:
        start = 1 + self.noise * self.random.uniform(-1, 1)
        found = []
        for number in range(3):
            for at, point in enumerate(POINTS):
                histogram = _histogram(cell)
                drafts = sum(depth * count for depth, count in enumerate(histogram or ()))
                speed = _speed_tok_s(cell, point) * HOSTS[host][2] * start
                found.append(
                    {
                        "job_id": job_id,
                        "host": host,
                        "parallel": HOSTS[host][0],
                        "cell_hash": cell["cell_hash"],
                        "start": job_id,
                        "started_at": began + timedelta(seconds=100 + (number * len(POINTS) + at) * 30),
                        "concurrency": point.concurrency,
                        "context_tokens": point.context,
                        "output_tokens_asked": point.output,
                        "reasons": [],
                        "marks": [],
                        "output_throughput_tok_s": speed * (1 + self.noise / 2 * self.random.uniform(-1, 1)),
                        "step_time_ms": _step_ms(cell, point) / HOSTS[host][2],
                        "acceptance_length": 1 + drafts / sum(histogram) if histogram else None,
                        "verifies": sum(histogram) if histogram else None,
                        "correct_drafts": drafts if histogram else None,
                        "draft_histogram": histogram,
                    }
                )
        return found

    def _attempt(
        self, host: str, cell: Mapping[str, Any], job_id: int, began: datetime, failed: bool, visit: int
    ) -> dict[str, Any]:
        steps = (("launch", 1), ("ready", 60), ("warm up", 39), ("measure", 400), ("coding", 80), ("stop", 20))
        phases, at_s = [], 0
        for name, duration_s in steps[:2] if failed else steps:
            started_at = began + timedelta(seconds=at_s)
            phases.append({"name": name, "started_at": started_at, "duration_s": float(duration_s), "detail": ""})
            at_s += duration_s
        return {
            "attempt_id": job_id,
            "job_id": job_id,
            "number": 1,
            "host": host,
            "parallel": HOSTS[host][0],
            "cell_hash": cell["cell_hash"],
            "label": cell["label"],
            "visit": visit,
            "control": cell["baseline"],
            "started_at": began,
            "ended_at": began + timedelta(seconds=at_s),
            "outcome": "failed" if failed else "succeeded",
            "failure": "OOM_CAPTURE" if failed else None,
            "evidence": self.evidence if failed else None,
            "simulated": self.simulated,
            "provenance": {
                "gpus": [{"name": "a GPU", "memory_total_mib": 98304}] * 8,
                "driver": "600.1",
                "engine": "sim",
                "build": {"version": "0.5.15", "revision": "abc123"},
                "argv": ["python", "-m", "server", "--label", cell["label"]],
                "environment": {"TOPK": "4"},
            },
            "difference": {},
            "phases": phases,
        }

    def _gpus(self, host: str, cell: Mapping[str, Any], point: Point) -> dict[str, Any]:
        return {
            "host": host,
            "parallel": HOSTS[host][0],
            "cell_hash": cell["cell_hash"],
            "concurrency": point.concurrency,
            "context_tokens": point.context,
            "output_tokens_asked": point.output,
            "gpus": 8,
            "power_w": 3200.0,
            "sm_clock_mhz": 2300.0,
            "sm_clock_min_mhz": 2100.0,
            "sm_clock_max_mhz": 2400.0,
            "temperature_max_c": 65,
            "memory_used_max_mib": 90112,
            "energy_per_token_j": 3200.0 / _speed_tok_s(cell, point),
        }

    def _sweep(self) -> dict[str, Any]:
        return {
            "name": "trees",
            "revision": 1,
            "model": "kimi",
            "engine": "sim",
            "hypothesis": self.hypothesis,
            "simulated": self.simulated,
            "imported": None,
            "submitted_at": BEGAN,
            "file_name": "/somewhere/trees.yaml",
            "file_text": self.file_text,
            "began_at": BEGAN if self.attempts else None,
            "ended_at": max((one["ended_at"] for one in self.attempts), default=None),
        }

    def _host(self, host: str) -> dict[str, Any]:
        return {
            "name": host,
            "gpus": 8,
            "gpu_kind": "a GPU",
            "interconnect": HOSTS[host][1],
            "simulated": self.simulated,
        }


def _cell(label: str, block_size: int | None, budget: int | None, window: int | None = 2048) -> dict[str, Any]:
    return {
        "cell_hash": f"hash-{label}",
        "label": label,
        "cell_position": 0,
        "block_size": block_size,
        "budget": budget,
        "topk": None if budget is None else 4,
        "draft_window": None if budget is None else window,
        "baseline": budget is None,
        "out_of_distribution": block_size == 16,
    }


def _canonical(cell: Mapping[str, Any]) -> dict[str, Any]:
    sizes = ("block_size", "budget", "topk")
    speculation = {name: cell[name] for name in sizes} | {"window": cell["draft_window"]}
    return {"model": "kimi", "engine": "sim", "speculation": None if cell["baseline"] else speculation}


def _speed_tok_s(cell: Mapping[str, Any], point: Point) -> float:
    """Trees double the speed of one user, and large ones cost under load."""
    alone = 70.0 / (1 + point.context / 1000)
    if cell["baseline"]:
        return alone * point.concurrency**0.7
    load = 1 + cell["budget"] * point.concurrency / 400
    beyond = 0.5 if cell["out_of_distribution"] else 1.0
    return alone * point.concurrency**0.7 * 2.2 * beyond * (1 + cell["budget"] / 100) / load


def _step_ms(cell: Mapping[str, Any], point: Point) -> float:
    acceptance = _acceptance_of(_histogram(cell))
    return acceptance * point.concurrency**0.3 * 1000 / _speed_tok_s(cell, point)


def _histogram(cell: Mapping[str, Any]) -> list[int] | None:
    if cell["baseline"]:
        return None
    if cell["out_of_distribution"]:
        return [10, 20, 30, 40, 50, 60, 70, 300, 2, 0, 0, 0, 0, 0, 0, 0]
    return [40, 60, 80, 100, 120, 80, 60, 40]


def _acceptance_of(histogram: Sequence[int] | None) -> float:
    return 1.0 if histogram is None else 1 + sum(d * count for d, count in enumerate(histogram)) / sum(histogram)


def _acceptance(repeats: Sequence[Mapping[str, Any]]) -> float:
    return 1 + sum(one["correct_drafts"] for one in repeats) / sum(one["verifies"] for one in repeats)


def _coding(cell: Mapping[str, Any]) -> dict[str, Any]:
    outcome = "failed" if cell["label"] == WRONG else "passed"
    outcomes = {name: [outcome] * 4 for name in ("spans", "hosts")}
    return {
        "suite": "core",
        "suite_digest": "d",
        "concurrency": 8,
        "asked": 8,
        "judged": 8,
        "passed": 8 if outcome == "passed" else 0,
        "no_answer": 0,
        "no_code": 0,
        "not_asked": 0,
        "not_graded": 0,
        "outcomes": outcomes,
    }


def _point(repeats: Sequence[Mapping[str, Any]], point: Point) -> dict[str, Any]:
    key = (point.concurrency, point.context, point.output)
    own = [one for one in repeats if (one["concurrency"], one["context_tokens"], one["output_tokens_asked"]) == key]
    values = [one["output_throughput_tok_s"] for one in own]
    drafting = [one for one in own if one["verifies"]]
    return {
        "concurrency": point.concurrency,
        "context_tokens": point.context,
        "output_tokens_asked": point.output,
        "n": len(values),
        "n_invalid": 0,
        "mean_tok_s": sum(values) / len(values),
        "sd_tok_s": None,
        "values_tok_s": values,
        "ttft_ms": 100.0,
        "acceptance_length": _acceptance(drafting) if drafting else None,
        "verifies": sum(one["verifies"] for one in drafting) or None,
        "correct_drafts": sum(one["correct_drafts"] for one in drafting) if drafting else None,
        "step_time_ms": sum(one["step_time_ms"] for one in own) / len(own),
    }
