"""Reads what a sweep measures: `measure: {points, repeats, coding, prompts, visits, prune, goodput}`; its control cell
is read by sweep_control."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import fields

from ddqueue.domain.coding import BUILT_IN_SUITES
from ddqueue.domain.inventory import Model
from ddqueue.domain.latency_limits import LatencyLimits
from ddqueue.domain.sweep import Coding, Measure, Point, Repeats
from ddqueue.files.problems import nearest
from ddqueue.files.typed import Field, Section
from ddqueue.files.yaml12 import ScalarNode

MAX_POINTS = 256
MAX_REPEATS = 100
MAX_VISITS = 100
_LARGEST = {"concurrency": 4096, "context": 10_000_000, "output": 1_000_000}
_POINTS_REMEDY = "Write a list: [{concurrency: 1, context: [60, 1024], output: 256}]."
_PROMPTS_REMEDY = "Write the path that a text file has on every host, such as /data/prompts.txt."
_GOODPUT_REMEDY = "Write what a request must keep: {ttft_ms: 2000, tpot_ms: 50}, or e2e_ms."
_PRUNE_REMEDY = "Write dominated, or leave prune out to measure every cell whole."
_SUITE_REMEDY = (
    f"Write {', '.join(BUILT_IN_SUITES)}, or the path that a folder of *.jsonl problems has on every host, such as"
    " /data/problems."
)
_WITHIN_REMEDY = "Write a share of the mean, such as 3% or 0.03."


def measure_section(root: Section) -> Section | None:
    """The `measure:` of a sweep, or None after noting that there is none."""
    field = root.need("measure", f"Write `measure:` and under it `points:`. {_POINTS_REMEDY}")
    return field.mapping("Write points, and if you like repeats and coding.") if field else None


def read_measure(section: Section | None, model: Model | None) -> Measure:
    """What `measure:` asks for, but for its control cell; without points where a problem was noted."""
    if section is None:
        return Measure(points=())
    section.allow(("points", "repeats", "coding", "prompts", "visits", "control", "prune", "goodput"))
    repeats, coding, prompts = section.get("repeats"), section.get("coding"), section.get("prompts")
    visits, prune, goodput = section.get("visits"), section.get("prune"), section.get("goodput")
    return Measure(
        points=_points(section.need("points", _POINTS_REMEDY), model),
        repeats=_repeats(repeats) if repeats else Repeats(),
        coding=None if coding is None or coding.is_none else _coding(coding),
        prompts=None if prompts is None or prompts.is_none else prompts.text(_PROMPTS_REMEDY),
        visits=(visits.whole(1, MAX_VISITS) if visits else None) or 1,
        prune=prune is not None and not prune.is_none and _prune(prune),
        goodput=None if goodput is None or goodput.is_none else _goodput(goodput),
    )


def _goodput(field: Field) -> LatencyLimits | None:
    section = field.mapping(_GOODPUT_REMEDY)
    if section is None:
        return None
    names = tuple(limit.name for limit in fields(LatencyLimits))
    section.allow(names)
    given = {name: limit for name in names if (limit := section.get(name)) is not None}
    if not given:
        field.refuse("goodput without a limit is the throughput", _GOODPUT_REMEDY)
        return None
    return LatencyLimits(**{name: _milliseconds(limit) for name, limit in given.items()})


def _milliseconds(field: Field) -> float | None:
    value = field.node.value if isinstance(field.node, ScalarNode) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        field.refuse(f"{field.said} is no time in milliseconds", "Write a number above 0, such as 2000.")
        return None
    return float(value)


def _prune(field: Field) -> bool:
    word = field.word(_PRUNE_REMEDY)
    if word not in (None, "dominated"):
        field.refuse(f"{field.said} names nothing that can be given up", _PRUNE_REMEDY)
    return word == "dominated"


def _points(field: Field | None, model: Model | None) -> tuple[Point, ...]:
    points: dict[Point, None] = {}
    for item in (field.sequence(_POINTS_REMEDY) if field else None) or ():
        section = item.mapping(_POINTS_REMEDY)
        if section is None:
            continue
        section.allow(tuple(_LARGEST))
        axes = [_axis(section, name) for name in _LARGEST]
        count = math.prod(len(axis) for axis in axes)
        if count + len(points) > MAX_POINTS:
            item.refuse(f"more than {MAX_POINTS} points on every server", "Take values out.")
            continue
        for concurrency, context, output in itertools.product(*axes):
            _check_length(item, context + output, model)
            points[Point(concurrency, context, output)] = None
    return tuple(points)


def _axis(section: Section, name: str) -> list[int]:
    remedy = f"Write {name}: a whole number, or a list of them."
    field = section.need(name, remedy)
    values = [item.whole(1, _LARGEST[name]) for item in field.one_or_many(remedy)] if field else []
    return [value for value in values if value is not None]


def _check_length(item: Field, tokens: int, model: Model | None) -> None:
    if model is not None and model.context_length is not None and tokens > model.context_length:
        problem = f"context and output are {tokens} tokens and {model.name} holds {model.context_length}"
        item.refuse(problem, "Take the longest ones out.")


def _repeats(field: Field) -> Repeats:
    section = field.mapping("Write {min: 3, max: 10, within: 3%}.")
    if section is None:
        return Repeats()
    section.allow(("min", "max", "within"))
    least, most, within = section.get("min"), section.get("max"), section.get("within")
    minimum = least.whole(1, MAX_REPEATS) if least else None
    maximum = most.whole(1, MAX_REPEATS) if most else None
    if minimum is not None and maximum is not None and minimum > maximum:
        field.refuse(f"min {minimum} is more than max {maximum}", "Write min no larger than max.")
    default = Repeats()
    minimum = minimum or min(default.minimum, maximum or default.minimum)
    return Repeats(
        minimum=minimum,
        maximum=maximum or max(default.maximum, minimum),
        within=(_share(within) if within else None) or default.within,
    )


def _share(field: Field) -> float | None:
    node = field.node
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, str) and (match := re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%", value)):
        value = float(match.group(1)) / 100
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        field.refuse(f"{field.said} is not a share", _WITHIN_REMEDY)
        return None
    if not 0 < value < 1:
        remedy = f"Write {node.text}%." if isinstance(node, ScalarNode) and 1 <= value < 100 else _WITHIN_REMEDY
        field.refuse(f"{field.said} is no share between 0 and 1", remedy)
        return None
    return float(value)


def _coding(field: Field) -> Coding | None:
    section = field.mapping("Write {suite: core5, concurrency: [1, 32]}.")
    if section is None:
        return None
    section.allow(("suite", "concurrency"))
    suite = section.need("suite", "Name the suite: core5.")
    name = _suite(suite) if suite else None
    concurrency = (1,) if section.get("concurrency") is None else tuple(dict.fromkeys(_axis(section, "concurrency")))
    return None if name is None or not concurrency else Coding(name, concurrency)


def _suite(field: Field) -> str | None:
    """A built-in suite's name, or the path of a folder, which is read where the servers run."""
    text = field.text(_SUITE_REMEDY)
    if text is None or text in BUILT_IN_SUITES or text.startswith("/"):
        return text
    if "/" in text:
        field.refuse(f"{field.said} is not a full path", "Write it from / on, as it is on every host.")
        return None
    guess = nearest(text, BUILT_IN_SUITES)
    field.refuse(f"there is no suite {field.said}", f"Did you mean {guess}?" if guess else _SUITE_REMEDY)
    return None
