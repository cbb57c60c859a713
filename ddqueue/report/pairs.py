"""Which configurations are held against each other: what a person named, found and paired. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ddqueue.domain.sweep import Point
from ddqueue.errors import UsageError
from ddqueue.report.cells import Server
from ddqueue.report.judgement import JudgedCell, Judgement


@dataclass(frozen=True)
class JudgedSweep:
    """A sweep to be compared. `reference` is name@revision; `canonical` has each configuration in full, by its hash."""

    reference: str
    judgement: Judgement
    canonical: Mapping[str, Mapping[str, Any]]

    def same(self, cell: JudgedCell) -> str:
        """Equal for configurations that differ in nothing but the engine profile: two builds of the engine are two
        profiles, or one before and after it was changed."""
        return self._but_for_the_engine[cell.measured.row["cell_hash"]]

    @cached_property
    def _but_for_the_engine(self) -> dict[str, str]:
        """By the configuration's hash; written out once, for each is asked for again with every pair that it is in."""
        return {
            cell_hash: json.dumps({name: value for name, value in full.items() if name != "engine"}, sort_keys=True)
            for cell_hash, full in self.canonical.items()
        }


@dataclass(frozen=True)
class Side:
    """One of two configurations that are compared, on its host and in its sweep."""

    sweep: JudgedSweep
    cell: JudgedCell

    @property
    def points(self) -> tuple[Point, ...]:
        return self.sweep.judgement.points

    @property
    def same(self) -> str:
        return self.sweep.same(self.cell)

    @property
    def words(self) -> dict[str, str]:
        """All that tells one side from another, in the order in which it is said."""
        host, parallel = self.cell.measured.server
        return {"label": self.cell.measured.label, "host": host, "parallel": parallel, "sweep": self.sweep.reference}


@dataclass(frozen=True)
class Pair:
    """Two sides and how they are called: each by what the other is not; `title` says what they share."""

    a: Side
    b: Side

    @property
    def names(self) -> tuple[str, str]:
        here, there = self.a.words, self.b.words
        apart = [part for part in here if here[part] != there[part]]
        return " ".join(here[part] for part in apart), " ".join(there[part] for part in apart)

    @property
    def title(self) -> str:
        here, there = self.a.words, self.b.words
        return " ".join(here[part] for part in here if here[part] == there[part])

    @property
    def is_same_configuration(self) -> bool:
        return self.a.same == self.b.same

    @property
    def is_same_server(self) -> bool:
        return self.a.cell.measured.server == self.b.cell.measured.server

    @property
    def mixes_simulated_and_real(self) -> bool:
        return self.a.cell.measured.is_simulated != self.b.cell.measured.is_simulated

    @property
    def points(self) -> tuple[Point, ...]:
        """Those that both sides ask for."""
        return tuple(point for point in self.a.points if point in self.b.points)


def two_cells(sweep: JudgedSweep, a: str, b: str) -> list[Pair]:
    """Two configurations of a sweep, by their labels, on each host and parallelism that has both."""
    label_a, label_b = (_label(sweep, text) for text in (a, b))
    if label_a == label_b:
        raise UsageError(f"{a!r} and {b!r} are the same configuration, {label_a!r}; name two")
    return _on_shared_servers(
        (Side(sweep, cell) for cell in sweep.judgement.cells if cell.measured.label == label_a),
        (Side(sweep, cell) for cell in sweep.judgement.cells if cell.measured.label == label_b),
        lambda side: side.cell.measured.server,
    )


def two_servers(sweep: JudgedSweep, a: str, b: str) -> list[Pair]:
    """Every configuration on two hosts of a sweep, or with two parallelisms: `rtx6000`, or `rtx6000/EP8`."""
    server_a, server_b = (_server(sweep, text) for text in (a, b))
    if server_a == server_b:
        raise UsageError(f"{a!r} and {b!r} are the same host and parallelism; name two")
    return _on_shared_servers(
        (Side(sweep, cell) for cell in sweep.judgement.cells if cell.measured.server == server_a),
        (Side(sweep, cell) for cell in sweep.judgement.cells if cell.measured.server == server_b),
        lambda side: side.same,
    )


def two_sweeps(a: JudgedSweep, b: JudgedSweep) -> list[Pair]:
    """Every configuration that both sweeps have, on the same host and with the same parallelism; where each sweep has
    one such server only, on those two."""
    if a.reference == b.reference:
        raise UsageError(
            f"both are {a.reference}; name two sweeps or revisions, or --sweep {a.reference} and two cells"
        )
    sides_a, sides_b = ([Side(sweep, cell) for cell in sweep.judgement.cells] for sweep in (a, b))
    if not {side.same for side in sides_a} & {side.same for side in sides_b}:
        theirs = f"{_some_labels(a)} against {_some_labels(b)}"
        raise UsageError(f"{a.reference} and {b.reference} have no configuration in common: {theirs}")
    pairs = _on_shared_servers(sides_a, sides_b, lambda side: (side.cell.measured.server, side.same))
    servers_a, servers_b = ({side.cell.measured.server for side in sides} for sides in (sides_a, sides_b))
    if not pairs and len(servers_a) == len(servers_b) == 1:
        pairs = _on_shared_servers(sides_a, sides_b, lambda side: side.same)
    if not pairs:
        raise UsageError(
            f"{a.reference} and {b.reference} share configurations but no host with the same parallelism: "
            f"{_servers_words(servers_a)} against {_servers_words(servers_b)}"
        )
    return pairs


def against_baselines(sweep: JudgedSweep, label: str | None = None) -> list[Pair]:
    """Every configuration, or the one of that label, against the baseline of the same host and parallelism."""
    wanted = None if label is None else _label(sweep, label)
    sides = [Side(sweep, cell) for cell in sweep.judgement.cells]
    baselines = [side for side in sides if side.cell.measured.row["baseline"]]
    if not baselines:
        raise UsageError(f"{sweep.reference} has no baseline; submit it with `baseline: true`")
    others = [
        side for side in sides if not side.cell.measured.row["baseline"] and wanted in (None, side.cell.measured.label)
    ]
    if not others:
        raise UsageError(f"{sweep.reference} has nothing but its baseline to compare with it")
    return [
        Pair(baseline, side)
        for side in others
        for baseline in baselines
        if baseline.cell.measured.server == side.cell.measured.server
    ]


def cell_of_job(sweep: JudgedSweep, host: str, parallel: str, cell_hash: str) -> Side:
    """The configuration that a job is a visit of, with all its visits."""
    key = (host, parallel, cell_hash)
    return Side(sweep, next(cell for cell in sweep.judgement.cells if cell.measured.key == key))


def two_jobs(a: Side, b: Side) -> list[Pair]:
    """The configurations of two jobs, wherever they ran."""
    if a.sweep.reference == b.sweep.reference and a.cell.measured.key == b.cell.measured.key:
        raise UsageError(f"both jobs are visits of one configuration, {a.cell.measured.label!r}; name two")
    return [Pair(a, b)]


def names_servers(sweep: JudgedSweep, *texts: str) -> bool:
    """Whether each text names a host of the sweep, or a host and parallelism."""
    return all(text.partition("/")[0] in sweep.judgement.hosts for text in texts)


def _on_shared_servers(a: Iterable[Side], b: Iterable[Side], key: Callable[[Side], object]) -> list[Pair]:
    others = {key(side): side for side in b}
    return [Pair(side, others[key(side)]) for side in a if key(side) in others]


def _label(sweep: JudgedSweep, text: str) -> str:
    """The label that `text` is, or begins, word by word; or whose configuration's hash it is."""
    hashes = {cell.measured.row["cell_hash"]: cell.measured.label for cell in sweep.judgement.cells}
    labels = list(dict.fromkeys(hashes.values()))
    if text in labels or text in hashes:
        return hashes.get(text, text)
    begun = [label for label in labels if label.startswith(f"{text} ")]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise UsageError(f"{text!r} may be any of {_quoted(begun)} of {sweep.reference}; write one in full")
    if names_servers(sweep, text):
        raise UsageError(f"{text!r} is a host of {sweep.reference}: name two hosts, or two configurations")
    near = _near(text, [*labels, *sweep.judgement.hosts])
    hint = f"did you mean {_quoted(near, 'or')}?" if near else f"it has {_some_labels(sweep)}"
    raise UsageError(f"{sweep.reference} has no configuration {text!r}; {hint}")


def _near(text: str, names: Sequence[str]) -> list[str]:
    """Names whose first words are like those of the text: a label is rarely written in full."""
    words = len(text.split())
    beginnings = {name: " ".join(name.split()[:words]) for name in names}
    near = difflib.get_close_matches(text, beginnings.values(), n=3)
    return sorted((name for name in names if beginnings[name] in near), key=lambda name: near.index(beginnings[name]))


def _server(sweep: JudgedSweep, text: str) -> Server:
    host, slash, parallel = text.partition("/")
    servers = sweep.judgement.servers(host)
    found = [server for server in servers if not slash or server[1].lower() == parallel.lower()]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{host}/{label}" for _, label in servers)
    raise UsageError(f"{text!r} is not one host and parallelism of {sweep.reference}; it has {there}")


def _some_labels(sweep: JudgedSweep, most: int = 6) -> str:
    labels = list(dict.fromkeys(cell.measured.label for cell in sweep.judgement.cells))
    return ", ".join(labels[:most]) + (", ..." if len(labels) > most else "")


def _servers_words(servers: Iterable[Server]) -> str:
    return ", ".join(sorted(f"{host} {parallel}" for host, parallel in servers))


def _quoted(texts: Sequence[str], last: str = "and") -> str:
    quoted = [repr(text) for text in texts]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"
