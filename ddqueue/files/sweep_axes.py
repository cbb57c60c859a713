"""Reads what a sweep varies: `cells`, `grid`, `zip`, `exclude` and `limit`, as typed settings that know their lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from ddqueue.domain.configuration import Scalar
from ddqueue.domain.expansion import expand, matches, size
from ddqueue.files.typed import Field, Section
from ddqueue.files.values import (
    Owned,
    argument_name,
    argument_value,
    check_argument_owner,
    check_variable,
    variable_value,
)

ARGUMENT, VARIABLE = "args.", "env."
AXES = ("speculation", "block_size", "budget", "topk", "window")
DEFAULT_LIMIT, MAX_LIMIT = 256, 10_000

_LARGEST = {"block_size": 1024, "budget": 65_536, "topk": 1024, "window": 100_000_000}
_VALUES_REMEDY = "Write one value, or a list of values: [4, 8]."
_SETTINGS_REMEDY = "Write settings in { }: {block_size: 8, budget: 8, topk: 4, window: 2048}."


@dataclass(frozen=True)
class Setting:
    """One value on one axis; two are equal when they say the same, wherever they stand (true is not 1)."""

    said: str
    value: Scalar = field(compare=False)
    place: Field | None = field(default=None, compare=False)

    @classmethod
    def of(cls, value: Scalar, place: Field | None = None) -> Setting:
        return cls(json.dumps(value), value, place)


Settings = dict[str, Setting]
"""Axis (`budget`, `args.mem-fraction-static`) to value; a value of None says "none"."""

_NOTHING: Settings = dict.fromkeys(("budget", "topk", "window"), Setting.of(None))
"""What a speculating cell means by not giving these, so that `exclude: [{window: none}]` finds it."""


class SweepAxes:
    """The axes of one sweep file."""

    def __init__(self, root: Section) -> None:
        self._root = root
        self._problems = root.problems
        before = len(self._problems)
        self._listed = self._read_listed("cells", _SETTINGS_REMEDY)
        self._grid = self._read_axes("grid")
        self._together = self._read_axes("zip")
        self._excluded = self._read_listed("exclude", "Write partial settings: [{budget: 16, topk: 6}].")
        self._check_together()
        limit = root.get("limit")
        self._limit = (limit.whole(1, MAX_LIMIT) if limit else None) or DEFAULT_LIMIT
        self._sound = len(self._problems) == before

    def settings(self) -> list[Settings]:
        """Every cell's settings in the file's order, without the excluded ones; none when there are too many.

        The size is computed before anything is built, so a grid of a billion cells is refused at once.
        """
        listed = [settings for _, settings in self._listed]
        count = size(len(listed), self._grid, self._together)
        if count > self._limit:
            places = [self._root.get(key) for key in ("grid", "zip", "cells")]
            place = next(place for place in places if place is not None)
            remedy = f"Take values out, or raise `limit:` (at most {MAX_LIMIT:,})."
            place.refuse(f"{count:,} cells are more than the limit of {self._limit:,}", remedy)
            return []
        if not self._sound:
            return listed
        return self._without_excluded(list(expand(listed, self._grid, self._together)))

    @property
    def speculates(self) -> bool:
        """Whether any cell gives a block size."""
        axes = {*self._grid, *self._together, *(axis for _, settings in self._listed for axis in settings)}
        return "block_size" in axes

    def _without_excluded(self, found: list[Settings]) -> list[Settings]:
        full = [{**_NOTHING, **settings} if "block_size" in settings else settings for settings in found]
        for place, partial in self._excluded:
            if not any(matches(settings, partial) for settings in full):
                place.refuse("no cell matches this exclude", "Correct it, or take it out.")
        return [
            settings
            for settings, whole in zip(found, full, strict=True)
            if not any(matches(whole, partial) for _, partial in self._excluded)
        ]

    def _read_listed(self, key: str, remedy: str) -> list[tuple[Field, Settings]]:
        field = self._root.get(key)
        listed = []
        for item in (field.sequence(remedy) if field else None) or ():
            section = item.mapping(remedy)
            if section is None:
                continue
            if not len(section):
                item.refuse("it is empty", remedy)
            section.allow(AXES, (ARGUMENT, VARIABLE))
            before = len(self._problems)
            settings: Settings = {}
            for name, value in section:
                axis = read_axis_name(name, value)
                setting = read_setting(axis, value) if axis else None
                if axis and setting:
                    self._put_once(settings, axis, setting, value)
            if len(self._problems) == before:  # else what is left of it would be blamed for what is missing
                listed.append((item, settings))
        return listed

    def _read_axes(self, key: str) -> dict[str, list[Setting]]:
        field = self._root.get(key)
        section = field.mapping("Write axes: {block_size: 8, budget: [4, 8], topk: 4}.") if field else None
        if section is None:
            return {}
        section.allow(AXES, (ARGUMENT, VARIABLE))
        if field is not None and not len(section):
            field.refuse("it has no axis", "Write axes: {block_size: 8, budget: [4, 8], topk: 4}.")
        axes: dict[str, list[Setting]] = {}
        for name, value in section:
            axis = read_axis_name(name, value)
            if axis is None:
                continue
            if axis in axes:
                value.refuse(f"{axis} is given twice", "Keep one of them.")
            read = [read_setting(axis, item) for item in value.one_or_many(_VALUES_REMEDY)]
            axes[axis] = [setting for setting in read if setting is not None]
        return axes

    def _put_once(self, settings: Settings, axis: str, setting: Setting, place: Field) -> None:
        if axis in settings:
            place.refuse(f"{axis} is given twice", "Keep one of them.")
        settings[axis] = setting

    def _check_together(self) -> None:
        section = self._root.get("zip")
        lengths = {axis: len(values) for axis, values in self._together.items()}
        if section is None:
            return
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{axis} {length}" for axis, length in lengths.items())
            section.refuse(f"its axes differ in length: {listed}", "Give each axis equally many values, or use grid.")
        for axis in sorted(self._grid.keys() & self._together.keys()):
            section.refuse(f"{axis} is an axis of grid too", "Keep it in one of them.")


def read_axis_name(name: str, place: Field) -> str | None:
    """The canonical name of an axis; None for one that is no axis or that ddqueue owns."""
    owned = Owned.always()
    if name.startswith(ARGUMENT):
        argument = argument_name(name.removeprefix(ARGUMENT), place)
        return ARGUMENT + argument if argument and check_argument_owner(argument, place, owned) else None
    if name.startswith(VARIABLE):
        return name if check_variable(name.removeprefix(VARIABLE), place, owned) else None
    return name if name in AXES else None


def read_setting(axis: str, place: Field) -> Setting | None:
    """One typed value of an axis, or None after noting why it is none."""
    if axis.startswith(ARGUMENT):
        value = argument_value(place)
        return None if value is None else Setting.of(value[0], place)
    if axis.startswith(VARIABLE):
        text = variable_value(place)
        return None if text is None else Setting.of(text, place)
    if axis == "speculation":
        if place.is_none:
            return Setting.of(None, place)
        place.refuse(f"{place.said} is no setting of speculation", "Write none, or give a block_size to speculate.")
        return None
    if place.is_none and axis != "block_size":
        return Setting.of(None, place)
    if place.is_none:
        place.refuse("a block size cannot be none", "For a cell without speculation write {speculation: none}.")
        return None
    least, otherwise = (2, "") if axis == "block_size" else (1, ", or none")
    number = place.whole(least, _LARGEST[axis], otherwise)
    return None if number is None else Setting.of(number, place)
