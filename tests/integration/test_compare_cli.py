"""`ddqueue compare` as a person runs it, on stored sweeps with a planted difference: no timing is involved."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from storage_world import POINTS, World, a_measurement, a_sweep

from ddqueue.cli.main import main
from ddqueue.domain.configuration import Cell
from ddqueue.domain.sweep import Control, Sweep

NOISE = 0.01
PLANTED = 0.06


def a_controlled_sweep(name: str = "kimi-ddtree") -> Sweep:
    """A baseline and two trees on two hosts, each visited three times, the baseline as control."""
    sweep = a_sweep(name)
    control = Control(Cell("kimi", "sim").hash, 2)
    return replace(sweep, measure=replace(sweep.measure, visits=3, control=control))


def measure_all(world: World, sweep: Sweep, factors: dict[str, float], seed: int) -> None:
    """Every job of the sweep, with noise; a cell's number is 100 tok/s times its factor, and twice that on the b300."""
    random = Random(seed)
    world.submit(sweep)
    for host, speed in (("rtx6000", 1.0), ("b300", 2.0)):
        query = "SELECT j.id FROM jobs j WHERE j.host = :host AND j.state = 'queued' ORDER BY j.position"
        for job_id in world.column(query, host=host):
            label = world.one(
                "SELECT c.label FROM cells c JOIN jobs j ON j.sweep_id = c.sweep_id AND j.cell_hash = c.hash"
                " WHERE j.id = :id",
                id=job_id,
            )
            claim = world.claim(job_id, host)
            for point in POINTS:
                for repeat in range(1, 5):
                    tok_s = 100 * speed * factors.get(label, 1.0) * random.gauss(1, NOISE)
                    changes: dict[str, Any] = {"step_time_ms": 2500 / tok_s}
                    if label == "baseline":
                        changes |= dict.fromkeys(("acceptance_length", "verifies", "correct_drafts", "draft_histogram"))
                    else:
                        changes |= {"acceptance_length": 3.6 * random.gauss(1, NOISE)}
                    world.attempts.record_measurement(claim, a_measurement(point, repeat, tok_s, **changes))
            world.succeed(claim)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    """Two revisions of one sweep. b16 is faster than b8 by the planted difference; the second revision is faster than
    the first in b8 alone."""
    world = World(database_url)
    measure_all(world, a_controlled_sweep(), {"baseline": 0.5, "b16 t4 w2048": 1 + PLANTED}, seed=1)
    measure_all(
        world,
        a_controlled_sweep(),
        {"baseline": 0.5, "b8 t4 w2048": 1 + PLANTED, "b16 t4 w2048": 1 + PLANTED},
        seed=2,
    )
    yield world
    world.sql_engine.dispose()


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


class Compare:
    """`ddqueue compare ARGUMENTS...` in this process: what is tested is what it finds and says."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("DDQUEUE_DATABASE_URL", world.database_url)
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["ddqueue", "compare", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, printed.out, printed.err)

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self(*arguments, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        return dict(json.loads(done.stdout))


@pytest.fixture
def compare(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Compare:
    return Compare(world, monkeypatch, capsys)


def beyond_noise(pair: dict[str, Any]) -> list[bool | None]:
    return [point["throughput"]["beyond_noise"] for point in pair["points"]]


def test_a_planted_difference_is_found_and_its_absence_too(compare: Compare) -> None:
    first, second = ("kimi-ddtree@1", "kimi-ddtree@2")
    pairs = compare.json("b8", "b16", "--sweep", first)["pairs"]
    assert [(pair["a"]["host"], pair["a"]["label"], pair["b"]["label"]) for pair in pairs] == [
        ("rtx6000", "b8 t4 w2048", "b16 t4 w2048"),
        ("b300", "b8 t4 w2048", "b16 t4 w2048"),
    ]
    assert [beyond_noise(pair) for pair in pairs] == [[True, True]] * 2
    for point in pairs[0]["points"]:
        assert point["throughput"]["ratio_low"] < 1 + PLANTED < point["throughput"]["ratio_high"]
    level = compare.json("b8", "b16", "--sweep", second)["pairs"]
    assert not any(True in beyond_noise(pair) for pair in level)


def test_words_and_numbers_side_by_side(compare: Compare) -> None:
    done = compare("b8", "b16", "--sweep", "kimi-ddtree@1", "--host", "rtx6000")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "rtx6000 EP8 kimi-ddtree@1 (simulated):  A = b8 t4 w2048, B = b16 t4 w2048"
    assert lines[5].startswith("b16 t4 w2048 beats b8 t4 w2048 at C=1 60 by ")
    assert max(map(len, lines)) <= 120


def test_two_sweeps_are_paired_by_configuration(compare: Compare) -> None:
    found = compare.json("kimi-ddtree@1", "kimi-ddtree@2")
    assert len(found["pairs"]) == 6
    moved = {(pair["a"]["host"], pair["a"]["label"]) for pair in found["pairs"] if True in beyond_noise(pair)}
    assert moved == {("rtx6000", "b8 t4 w2048"), ("b300", "b8 t4 w2048")}
    assert {pair["acceptance_agrees"] for pair in found["pairs"]} == {None, True}
    assert found["notes"] == []


def test_a_configuration_on_two_hosts(compare: Compare) -> None:
    found = compare.json("rtx6000", "b300", "--sweep", "kimi-ddtree")
    assert [pair["title"].split(" EP8")[0] for pair in found["pairs"]] == ["baseline", "b8 t4 w2048", "b16 t4 w2048"]
    for pair in found["pairs"]:
        assert beyond_noise(pair) == [True, True]
        assert pair["points"][0]["throughput"]["ratio"] == pytest.approx(2.0, rel=0.05)
    assert found["pairs"][1]["acceptance_words"] == "acceptance agrees between rtx6000 and b300"


def test_against_the_baseline(compare: Compare) -> None:
    found = compare.json("kimi-ddtree@1", "--baseline", "--host", "b300")
    assert [(pair["a"]["label"], pair["b"]["label"]) for pair in found["pairs"]] == [
        ("baseline", "b8 t4 w2048"),
        ("baseline", "b16 t4 w2048"),
    ]
    point = found["pairs"][0]["points"][0]
    # The step takes half the baseline's time here, so half a token a verify would do.
    assert point["break_even_acceptance"] == pytest.approx(0.5, rel=0.05)
    assert point["margin"] == pytest.approx(point["b"]["acceptance_length"] - point["break_even_acceptance"])
    one = compare.json("b16", "--baseline", "--sweep", "kimi-ddtree")
    assert {pair["b"]["label"] for pair in one["pairs"]} == {"b16 t4 w2048"}


def test_jobs_stand_for_their_configurations(world: World, compare: Compare) -> None:
    query = """
        SELECT min(j.id) FROM jobs AS j JOIN cells AS c ON c.sweep_id = j.sweep_id AND c.hash = j.cell_hash
        WHERE j.host = 'rtx6000' AND c.label = :label AND j.sweep_id = 1
    """
    b8, b16 = (str(world.one(query, label=label)) for label in ("b8 t4 w2048", "b16 t4 w2048"))
    (pair,) = compare.json(b8, b16)["pairs"]
    assert (pair["a"]["label"], pair["b"]["label"], beyond_noise(pair)) == ("b8 t4 w2048", "b16 t4 w2048", [True, True])


MISTAKES = [
    (["kimi-ddtre", "kimi-ddtree"], "there is no sweep 'kimi-ddtre'; did you mean kimi-ddtree?"),
    (["b8", "b16"], "there is no sweep 'b8'; `ddqueue status` lists them (a configuration or a host needs --sweep)"),
    (["b8", "b17", "--sweep", "kimi-ddtree"], "kimi-ddtree@2 has no configuration 'b17'; did you mean 'b16 t4 w2048'?"),
    (["b8", "b16 t4", "--sweep", "kimi-ddtree@9"], "sweep 'kimi-ddtree' has no revision 9"),
    (["kimi-ddtree", "kimi-ddtree@2"], "both are kimi-ddtree@2; name two sweeps or revisions"),
    (["1", "99999"], "there is no job 99999; `ddqueue status` lists the jobs of a sweep"),
    (["kimi-ddtree"], "name two things to compare, or one with --baseline"),
    (["b8", "b16", "--sweep", "kimi-ddtree", "--host", "rtx"], "there is nothing to compare on rtx; there is b300"),
]


def test_a_mistake_is_one_line(compare: Compare) -> None:
    for arguments, said in MISTAKES:
        done = compare(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"ddqueue: {said}")
        assert done.stderr.count("\n") == 1


def test_simulated_against_real_needs_a_flag(world: World, compare: Compare) -> None:
    world.do("UPDATE attempts SET simulated = false WHERE host = 'b300'")
    asked = ["rtx6000", "b300", "--sweep", "kimi-ddtree"]
    refused = compare(*asked)
    assert refused.returncode == 2
    assert "rtx6000 is simulated and b300 is not" in refused.stderr
    allowed = compare(*asked, "--simulated-against-real")
    assert allowed.returncode == 0
    assert allowed.stdout.startswith("SIMULATED AGAINST REAL")
