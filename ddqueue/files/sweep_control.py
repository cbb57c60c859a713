"""Reads which cell of a sweep is its control, and how often it is visited: `measure: {control: {cell, every}}`."""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.sweep import Control, SweepCell
from ddqueue.files.sweep_axes import ARGUMENT, AXES, VARIABLE, Settings, read_axis_name, read_setting
from ddqueue.files.sweep_cells import CellMaker
from ddqueue.files.typed import Field
from ddqueue.files.yaml12 import MapNode

MAX_EVERY = 10_000
_CELL_REMEDY = "Write `baseline`, a cell's name as `ddqueue plan` shows it, or its settings in { }."
_BASELINE_REMEDY = "Write `baseline: true` in the sweep, or name another cell."
_NAMES_SHOWN = 6


def read_control(field: Field, maker: CellMaker, cells: Sequence[SweepCell]) -> Control | None:
    """The control that `field` asks for, one of the sweep's distinct `cells`; None for none, or after noting a
    problem."""
    if field.is_none:
        return None
    section = field.mapping("Write {cell: baseline, every: 5}.")
    if section is None:
        return None
    # Where a cell of the file could not be read, the one meant here may be missing for that reason alone.
    readable = not len(field.problems)
    section.allow(("cell", "every"))
    cell, every = section.need("cell", _CELL_REMEDY), section.need("every", "Write after how many jobs: every: 5.")
    found = _one_of(cells, cell, maker) if cell and readable else None
    distance = every.whole(1, MAX_EVERY) if every else None
    return None if found is None or distance is None else Control(found.cell.hash, distance)


def _one_of(cells: Sequence[SweepCell], place: Field, maker: CellMaker) -> SweepCell | None:
    written_out = isinstance(place.node, MapNode)
    meant = _hash_of_settings(place, maker) if written_out else place.word(_CELL_REMEDY)
    if meant is None:
        return None
    matching = [one for one in cells if meant.strip() == (one.cell.hash if written_out else one.label)]
    if len(matching) > 1:
        place.refuse(f"{place.said} names {len(matching)} cells", "Write the settings of one of them in { }.")
    elif not matching:
        said = "cell with these settings" if written_out else f"cell {place.said!r}"
        needs_baseline = meant == "baseline" and not any(one.cell.is_baseline for one in cells)
        place.refuse(f"the sweep has no {said}", _BASELINE_REMEDY if needs_baseline else _names(cells))
    return matching[0] if len(matching) == 1 else None


def _hash_of_settings(place: Field, maker: CellMaker) -> str | None:
    """The hash of the cell that these settings make, or None after noting why they make none."""
    before = len(place.problems)
    section = place.mapping(_CELL_REMEDY)
    settings: Settings = {}
    if section is not None:
        section.allow(AXES, (ARGUMENT, VARIABLE))
        for name, value in section:
            axis = read_axis_name(name, value)
            setting = read_setting(axis, value) if axis else None
            if axis and setting:
                settings[axis] = setting
    made = maker.cell(settings) if len(place.problems) == before else None
    return None if made is None else made.hash


def _names(cells: Sequence[SweepCell]) -> str:
    more = f" and {len(cells) - _NAMES_SHOWN} more" if len(cells) > _NAMES_SHOWN else ""
    return f"Name one of its cells: {', '.join(one.label for one in cells[:_NAMES_SHOWN])}{more}."
