"""The results of a sweep for programs: one JSON document, numbers unrounded, units in the names. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ddqueue.domain.comparison import CellComparison
from ddqueue.domain.noise import NoiseFloor
from ddqueue.domain.ranking import Place, Ranking
from ddqueue.domain.statistics import mean_interval
from ddqueue.domain.sweep import Point, Repeats
from ddqueue.report.cells import Server
from ddqueue.report.coding import drops_of
from ddqueue.report.judgement import ControlDrift, JudgedCell, Judgement
from ddqueue.report.noise_notes import drift_words
from ddqueue.report.point_names import uses
from ddqueue.report.verdicts import verdict_words
from ddqueue.report.visits import Row, measured


def results_document(sweep: str, judgement: Judgement) -> dict[str, Any]:
    """`goodput_limits` in milliseconds, `jobs` (one a visit, in the order run), and over all visits `cells` (verdicts),
    `noise` (floors), `drift` of the control cell, and `ranking`: one a host and point, fastest first, with the use that
    the point stands for."""
    named = uses(judgement.points)
    return {
        "sweep": sweep,
        "goodput_limits": None if (limits := judgement.measure.goodput) is None else limits.to_json(),
        "jobs": [_job(row, judgement) for row in judgement.rows],
        "cells": [_cell(cell, judgement.points) for cell in judgement.cells],
        "noise": [_noise(server, point, floor) for (server, point), floor in judgement.floors.items()],
        "drift": [_drift(control) for control in judgement.drifts],
        "ranking": [_ranking(ranking, named.get(ranking.point)) for ranking in judgement.rankings],
    }


def shape(point: Point) -> dict[str, int]:
    """A point as the view `points` names its parts."""
    return {
        "concurrency": point.concurrency,
        "context_tokens": point.context,
        "output_tokens_asked": point.output,
    }


def compared(comparison: CellComparison) -> dict[str, Any]:
    """A comparison: `ratio` with its 95% interval, `floor_fraction` 0.013 being 1.3%; null where it is unknown."""
    ratio = comparison.ratio
    return {
        "ratio": ratio.mean if ratio else None,
        "ratio_low": ratio.low if ratio else None,
        "ratio_high": ratio.high if ratio else None,
        "p_value": comparison.p_value,
        "floor_fraction": comparison.floor,
        "verdict": comparison.verdict,
        "beyond_noise": comparison.is_beyond_noise,
        "hangs_on_few_repeats": comparison.hangs_on_few_repeats,
    }


def _job(row: Row, judgement: Judgement) -> dict[str, Any]:
    points = [found for point in judgement.points if (found := _point(row, point, judgement.measure.repeats))]
    drops = drops_of(row, judgement.baselines)
    return {
        "job_id": row["job_id"],
        "host": row["host"],
        "parallel": row["parallel"],
        "visit": row["visit"],
        "control": row["control"],
        "cell_hash": row["cell_hash"],
        "label": row["label"],
        "baseline": row["baseline"],
        "out_of_distribution": row["out_of_distribution"],
        "simulated": row["simulated"],
        "hypothesis": row["hypothesis"],
        "state": row["state"],
        "failure": row["failure"],
        "evidence": row["evidence"],
        "acceptance_length": row["acceptance_length"],
        "coding": row.get("coding"),
        "correctness_drops": [{**asdict(drop), "words": drop.words} for drop in drops],
        "points": points,
    }


def _point(row: Row, point: Point, repeats: Repeats) -> dict[str, Any] | None:
    found = measured(row, point)
    if found is None:
        return None
    interval = mean_interval(found["values_tok_s"], repeats=repeats)
    return {
        **found,
        "low_tok_s": interval.low if interval else None,
        "high_tok_s": interval.high if interval else None,
    }


def _cell(cell: JudgedCell, points: Sequence[Point]) -> dict[str, Any]:
    host, parallel, cell_hash = cell.measured.key
    verdict = cell.verdict
    return {
        "host": host,
        "parallel": parallel,
        "cell_hash": cell_hash,
        "label": cell.measured.label,
        "ranked": verdict.is_ranked,
        "reasons": list(verdict.reasons),
        "marks": list(verdict.marks),
        "verdict": verdict_words(cell, points) or verdict.words or "ranked",
    }


def _noise(server: Server, point: Point, floor: NoiseFloor) -> dict[str, Any]:
    return {
        "host": server[0],
        "parallel": server[1],
        **shape(point),
        "floor_fraction": floor.fraction,
        "visits": floor.visits,
        "cells": floor.cells,
        "words": floor.words,
    }


def _drift(control: ControlDrift) -> dict[str, Any]:
    trend = control.drift
    return {
        "host": control.server[0],
        "parallel": control.server[1],
        "label": control.label,
        "visits": control.visits,
        "shown": trend.is_shown if trend else None,
        "total_fraction": trend.total_fraction if trend else None,
        "per_hour_fraction": trend.per_hour_fraction if trend else None,
        "p_value": trend.p_value if trend else None,
        "words": drift_words(control),
    }


def _ranking(ranking: Ranking, use: str | None) -> dict[str, Any]:
    return {
        "host": ranking.host,
        **shape(ranking.point),
        "use": use,
        "places": [_place(place) for place in ranking.places],
        "level_with_first": [place.candidate.label for place in ranking.level_with_first],
        "unranked": [candidate.label for candidate in ranking.unranked],
        "words": ranking.words,
    }


def _place(place: Place) -> dict[str, Any]:
    against = place.against_first
    return {
        "place": place.number,
        "name": place.candidate.label,
        "parallel": place.candidate.parallelism,
        "mean_tok_s": place.mean_tok_s,
        "first_against_it": compared(against) if against else None,
    }
