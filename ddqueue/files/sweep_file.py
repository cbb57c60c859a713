"""Reads a sweep file against an inventory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ddqueue.domain.configuration import Cell
from ddqueue.domain.inventory import EngineProfile, Inventory, Model
from ddqueue.domain.sweep import OutOfDistribution, Sweep, SweepCell, job_count
from ddqueue.files.problems import Problems, suggestion
from ddqueue.files.sweep_axes import SweepAxes
from ddqueue.files.sweep_cells import CellMaker, owned_when_speculating
from ddqueue.files.sweep_control import read_control
from ddqueue.files.sweep_hosts import check_hosts, read_hosts, read_parallel
from ddqueue.files.sweep_measure import measure_section, read_measure
from ddqueue.files.typed import Field, Section
from ddqueue.files.values import Owned, read_arguments, read_variables
from ddqueue.files.yaml12 import parse, read_text

Thing = TypeVar("Thing", Model, EngineProfile)

KEYS = (
    *("name", "hypothesis", "model", "engine", "hosts", "parallel", "baseline", "args", "env"),
    *("cells", "grid", "zip", "exclude", "limit", "out_of_distribution", "measure"),
)
"""Every key of a sweep file."""

MAX_JOBS = 20_000
"""Months of work for any host; more is a slip of the pen."""


def read_sweep(path: Path, inventory: Inventory) -> Sweep:
    """The sweep in `path`, expanded and checked against `inventory`.

    Raises:
        FileError: the file cannot be used; with every problem found in it.
    """
    return sweep_from_text(read_text(path, "a sweep file"), str(path), inventory)


def sweep_from_text(text: str, file: str, inventory: Inventory) -> Sweep:
    """Like `read_sweep`, for a text in hand; `file` names it in messages."""
    problems = Problems(file)
    root = Section(parse(text, problems), "", problems)
    root.allow(KEYS)

    name_field = root.need("name", "Name the sweep: `name: kimi-block8`.")
    name = name_field.name() if name_field else None
    model = _named(root, "model", inventory.models, inventory.file)
    engine = _named(root, "engine", inventory.engines, inventory.file)
    hypothesis = _hypothesis(root)
    out_of_distribution = _out_of_distribution(root, hypothesis)
    baseline_field = root.get("baseline")
    baseline = (baseline_field.flag() if baseline_field else None) or False

    axes = SweepAxes(root)
    owned = owned_when_speculating(engine) if engine and axes.speculates else Owned.always()
    args, env = read_arguments(root.get("args"), owned), read_variables(root.get("env"), owned)
    settings = axes.settings()
    hosts = read_hosts(root, inventory)
    check_hosts(hosts, inventory, model, engine, axes.speculates)
    parallel = read_parallel(root, hosts, inventory)
    section = measure_section(root)
    measure = read_measure(section, model)

    asked: list[Cell] = []
    distinct: list[SweepCell] = []
    maker = None
    if model is not None and engine is not None:
        maker = CellMaker(model, engine, args, env, out_of_distribution)
        cells = [maker.cell(one) for one in settings]
        asked = [*([maker.baseline()] if baseline else []), *(cell for cell in cells if cell is not None)]
        if not asked and not len(problems):
            excluded = root.get("exclude")
            if excluded is not None:
                excluded.refuse("it leaves no cell", "Exclude less.")
            else:
                problems.add(root.line, "cells", "the sweep has no cell", "Write cells, a grid, or baseline: true.")
        distinct = maker.named(asked)
        control = section.get("control") if section else None
        if control is not None:
            measure = replace(measure, control=read_control(control, maker, distinct))
    problems.check()
    if name is None or model is None or engine is None or maker is None:
        raise AssertionError("whatever is missing was noted as a problem")

    sweep = Sweep(
        name=name,
        model=model.name,
        engine=engine.name,
        hosts=tuple(hosts),
        parallel=parallel,
        cells=tuple(distinct),
        measure=measure,
        hypothesis=hypothesis,
        out_of_distribution=out_of_distribution,
        simulated=engine.simulated,
        file_name=Path(file).name,
        file_text=text,
        folded=len(asked) - len(distinct),
    )
    _check_size(sweep, (section.get("visits") if section else None) or root.get("measure"))
    problems.check()
    return sweep


def _check_size(sweep: Sweep, place: Field | None) -> None:
    """Computed before any job is built; `place` is where a person asks for most of them."""
    jobs = job_count(sweep)
    if place is not None and jobs > MAX_JOBS:
        servers = sum(len(sweep.parallel[host]) for host in sweep.hosts)
        visits = f"{sweep.measure.visits} visits of {len(sweep.cells):,} cells"
        remedy = "Ask for fewer visits, cells, hosts or parallelisms."
        place.refuse(f"{visits}, {servers} times, are {jobs:,} jobs, more than {MAX_JOBS:,}", remedy)


def _named(root: Section, key: str, known: Mapping[str, Thing], inventory_file: str) -> Thing | None:
    field = root.need(key, f"Name one of the inventory's: {', '.join(sorted(known)) or 'it has none'}.")
    name = field.word(f"Name one {key}.") if field else None
    if field is None or name is None:
        return None
    if name not in known:
        field.refuse(f"{inventory_file} has no {key} {name!r}", suggestion(name, known))
    return known.get(name)


def _hypothesis(root: Section) -> str | None:
    field: Field | None = root.get("hypothesis")
    text = field.text("Write what you expect, in words; in quotes when it is a number.") if field else None
    return None if text is None else text.strip()


def _out_of_distribution(root: Section, hypothesis: str | None) -> OutOfDistribution:
    field = root.get("out_of_distribution")
    word = field.word("Write refuse or allow.") if field else OutOfDistribution.REFUSE.value
    if field is None or word is None:
        return OutOfDistribution.REFUSE
    if word not in [choice.value for choice in OutOfDistribution]:
        field.refuse(f"{field.said} is neither refuse nor allow", "Write refuse or allow.")
        return OutOfDistribution.REFUSE
    if word == OutOfDistribution.ALLOW and hypothesis is None and root.get("hypothesis") is None:
        field.refuse("it allows a gamble without a hypothesis", "Write `hypothesis:` and what you expect to see.")
    return OutOfDistribution(word)
