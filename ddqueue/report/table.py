"""The table of a sweep: one a host, one row a configuration, one column a point.

Pure: takes a judged sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddqueue.domain.pooling import FEWEST_VISITS, over_visits
from ddqueue.domain.states import JobState
from ddqueue.domain.sweep import Repeats
from ddqueue.report.coding import DROP_MARK, NOT_MEASURED, Baselines, baseline_scores, coding_text, drops_of
from ddqueue.report.goodput import Goodput, goodput_of
from ddqueue.report.grid import Grid
from ddqueue.report.judgement import Judgement
from ddqueue.report.leaders import Leaders, leaders_of
from ddqueue.report.noise_notes import noise_notes
from ddqueue.report.point_names import point_heads
from ddqueue.report.verdicts import verdict_notes
from ddqueue.report.visits import Row, measured

ABSENT = "-"

_NAME, _ACCEPTANCE, _CODING, _RANKED, _VISIT, _VISITS = "configuration", "accept", "coding", "ranked", "visit", "visits"

SIMULATED_MARK = "[simulated]"
OUT_OF_DISTRIBUTION_MARK = "[ood]"

_INVALID_NOTE = "*  some repeats were not valid and are left out; measurements.reasons says why"
_DROP_NOTE = f"{DROP_MARK}  of coding: worse than the baseline's; the verdict says how"
_SIMULATED_NOTE = f"{SIMULATED_MARK}  ran on software GPUs: not a measurement of hardware"
_OUT_OF_DISTRIBUTION_NOTE = (
    f"{OUT_OF_DISTRIBUTION_MARK}  out of distribution: the drafter was not trained for this block size"
)
_UNIT_NOTE = "C=n: output tokens/s at concurrency n and that context, mean ± half the 95% t interval over repeats"
_VISITS_NOTE = (
    "visits: starts of the server that gave numbers, of all; "
    f"from {FEWEST_VISITS} on the ± is over their means, else over all repeats, which share a start"
)


@dataclass(frozen=True)
class HostTable:
    """One host's table, what is said above and below it, and who leads; None while nobody does."""

    title: str
    hypothesis: str | None
    grid: Grid
    notes: tuple[str, ...]
    leaders: Leaders | None
    goodput: Goodput | None


def host_tables(sweep: str, judgement: Judgement, by_visit: bool = False) -> list[HostTable]:
    """The tables of `sweep` (`name@revision`), in the order in which its hosts first appear.

    Visits of a configuration are pooled in one row, or printed `by_visit` in the order given.
    """
    return [_host_table(sweep, host, judgement, by_visit) for host in judgement.hosts]


def configuration(row: Row, name: str) -> str:
    """The configuration's name with its marks."""
    words = [name]
    if row["out_of_distribution"]:
        words.append(OUT_OF_DISTRIBUTION_MARK)
    if row["simulated"]:
        words.append(SIMULATED_MARK)
    return " ".join(words)


def _host_table(sweep: str, host: str, judgement: Judgement, by_visit: bool) -> HostTable:
    visits = [row for row in judgement.rows if row["host"] == host]
    cells = [cell for cell in judgement.cells if cell.measured.server[0] == host]
    rows = visits if by_visit else [cell.measured.row for cell in cells]
    baselines = baseline_scores(rows)
    verdicts = verdict_notes(cells, judgement.points)
    columns = _columns(judgement, visits, by_visit)
    body = tuple(_cells(row, baselines, judgement, verdicts.words[judgement.cell_of(row).measured.key]) for row in rows)
    grid = Grid(
        tuple(columns),
        tuple(tuple(cells[head] for head in columns) for cells in body),
        right=frozenset(range(1, len(judgement.points) + 2)),
    )
    title = f"{sweep} on {host}, {', '.join(parallel for _, parallel in judgement.servers(host))}"
    simulated = [row["simulated"] for row in rows]
    if any(simulated):
        title += " (simulated)" if all(simulated) else " (partly simulated)"
    return HostTable(
        title=title,
        hypothesis=visits[0]["hypothesis"],
        grid=grid,
        notes=(*_legend(rows, grid), *verdicts.notes, *noise_notes(judgement, host)),
        leaders=leaders_of(judgement, host),
        goodput=goodput_of(judgement, host),
    )


def _columns(judgement: Judgement, visits: Sequence[Row], by_visit: bool) -> list[str]:
    columns = [_NAME, *point_heads(judgement.points), _ACCEPTANCE]
    columns += [_CODING] if any(row.get("coding_asked") for row in visits) else []
    columns += [_RANKED]
    if any(row["visit"] > 1 for row in visits):
        columns += [_VISIT if by_visit else _VISITS]
    return columns


def _cells(row: Row, baselines: Baselines, judgement: Judgement, verdict: str) -> dict[str, str]:
    """Every column that there may be, with its text."""
    heads = point_heads(judgement.points)
    cells = {_NAME: configuration(row, judgement.cell_of(row).name)}
    if row["state"] == JobState.SUCCEEDED:
        acceptance = row["acceptance_length"]
        repeats = judgement.measure.repeats
        for head, point in zip(heads, judgement.points, strict=True):
            cells[head] = throughput(measured(row, point), repeats)
        cells[_ACCEPTANCE] = ABSENT if acceptance is None else f"{acceptance:.2f}"
        cells[_CODING] = coding_text(row, drops_of(row, baselines))
    else:
        # The state stands where the first number would: a row without numbers says at once why it has none.
        reason = f"{row['state']}: {row['failure']}" if row["failure"] else str(row["state"])
        cells |= dict.fromkeys((*heads, _ACCEPTANCE, _CODING), ABSENT) | {heads[0]: reason}
    return cells | {_RANKED: verdict, _VISIT: _visit(row), _VISITS: row.get("visits", "")}


def _visit(row: Row) -> str:
    return f"{row['visit']} (control)" if row["control"] else str(row["visit"])


def throughput(found: Mapping[str, Any] | None, repeats: Repeats) -> str:
    """`145.2 ±1.3`; a single repeat says so instead of an interval; a star where repeats were left out."""
    if found is None:
        return NOT_MEASURED
    values = found["values_tok_s"]
    if not values:
        return "invalid *"
    interval = over_visits(found.get("visits_tok_s") or [values], repeats)
    text = f"{values[0]:.1f} (n=1)" if interval is None else f"{interval.mean:.1f} ±{interval.half_width:.1f}"
    return f"{text} *" if found["n_invalid"] else text


def _legend(rows: Sequence[Row], grid: Grid) -> list[str]:
    """What the signs of the table mean, as far as it has any."""
    notes = [_UNIT_NOTE]
    if _VISITS in grid.heads:
        notes.append(_VISITS_NOTE)
    if any(row["out_of_distribution"] for row in rows):
        notes.append(_OUT_OF_DISTRIBUTION_NOTE)
    if any(row["simulated"] for row in rows):
        notes.append(_SIMULATED_NOTE)
    starred = {head for cells in grid.rows for head, text in zip(grid.heads, cells, strict=True) if text.endswith("*")}
    if starred - {_CODING}:
        notes.append(_INVALID_NOTE)
    if _CODING in starred:
        notes.append(_DROP_NOTE)
    return notes
