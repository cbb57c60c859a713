"""What the report tests share: rows as the reader gives them, of a sweep whose numbers the test chooses."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ddqueue.domain.sweep import Measure, Point, Repeats
from ddqueue.report.judgement import Judgement, judge_sweep

ONE, LONG, MANY = Point(1, 60, 256), Point(1, 4096, 256), Point(32, 60, 256)
FIXED = Repeats(3, 3)
"""A rule that never decides anything by looking, so that intervals are plain t intervals."""

START = datetime(2025, 1, 2, tzinfo=UTC)
Values = Mapping[Point, Sequence[float]]


class SweepRows:
    """Collects visits; each call of `visit` is one start of a server."""

    def __init__(self, *points: Point, repeats: Repeats = FIXED) -> None:
        self.measure = Measure(points or (ONE,), repeats)
        self.rows: list[dict[str, Any]] = []
        self.repeats: list[dict[str, Any]] = []

    def visit(
        self,
        label: str,
        values: Values | None = None,
        host: str = "rtx6000",
        parallel: str = "EP8",
        state: str = "succeeded",
        histogram: Sequence[int] | None = None,
        accepts: Sequence[float] = (),
        marks: Sequence[str] = (),
        reasons: Sequence[str] = (),
        **changes: Any,
    ) -> None:
        """`values` are output tok/s at each point, repeat by repeat; `accepts` the acceptance lengths of the repeats,
        4 by default where the cell speculates. `reasons` make every repeat invalid."""
        job_id = len(self.rows) + 1
        cell_hash = hashlib.sha256(label.encode()).hexdigest()[:12]
        labels = list(dict.fromkeys(row["label"] for row in self.rows))
        baseline = label == "baseline"
        points = []
        for point, tok_s in (values or {}).items():
            valid = [] if reasons else list(tok_s)
            points.append(
                _shape(point)
                | {"n": len(valid), "n_invalid": len(tok_s) - len(valid), "values_tok_s": valid}
                | {"mean_tok_s": sum(valid) / len(valid) if valid else None, "verifies": 100, "correct_drafts": 300}
            )
            for at, number in enumerate(tok_s):
                accepted = None if baseline else accepts[at % len(accepts)] if accepts else 4.0
                self.repeats.append(
                    {"job_id": job_id, "host": host, "parallel": parallel, "cell_hash": cell_hash, "start": job_id}
                    | {"started_at": START + timedelta(hours=job_id, seconds=at), "reasons": list(reasons)}
                    | {"marks": list(marks), "output_throughput_tok_s": number, "step_time_ms": 25.0}
                    | {"acceptance_length": accepted, "verifies": None if baseline else 1000}
                    | {"correct_drafts": None if accepted is None else round(1000 * (accepted - 1))}
                    | {"draft_histogram": list(histogram) if histogram else None}
                    | _shape(point)
                )
        row = {
            "job_id": job_id,
            "host": host,
            "parallel": parallel,
            "visit": 1
            + sum((row["host"], row["parallel"], row["label"]) == (host, parallel, label) for row in self.rows),
            "control": False,
            "cell_position": labels.index(label) if label in labels else len(labels),
            "cell_hash": cell_hash,
            "label": label,
            "hypothesis": None,
            "baseline": baseline,
            "out_of_distribution": False,
            "budget": None if baseline else 8,
            "simulated": False,
            "state": state,
            "failure": None,
            "evidence": None,
            "acceptance_length": None if baseline else 4.0,
            "coding_asked": False,
            "points": points or None,
        }
        self.rows.append({**row, **changes})

    def judged(self) -> Judgement:
        return judge_sweep(self.rows, self.repeats, self.measure)


def steady(*means: float, points: Sequence[Point] = (ONE,), spread: float = 0.001) -> list[dict[Point, list[float]]]:
    """One visit for each mean: three repeats around it at every point."""
    return [{point: [mean * (1 - spread), mean, mean * (1 + spread)] for point in points} for mean in means]


def _shape(point: Point) -> dict[str, int]:
    return {
        "concurrency": point.concurrency,
        "context_tokens": point.context,
        "output_tokens_asked": point.output,
    }
