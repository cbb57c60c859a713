"""The views that compare (break_even, pairs, pareto, noise, depths) give what the domain's functions give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from known_sweep import (
    B4,
    B8,
    B16,
    BASELINE,
    BS16,
    DIFFERS,
    FACTORS,
    LONG,
    NVLINK,
    PCIE,
    SHORT,
    acceptance,
    histogram_of,
    known_sweep,
    point_of,
    rows,
    step_ms,
    stored_known_sweep,
    visits,
)
from sqlalchemy import Engine
from storage_world import World, a_measurement

from ddqueue.domain.configuration import Cell, Speculation
from ddqueue.domain.depths import depths
from ddqueue.domain.measurement import Summary
from ddqueue.domain.noise import noise_floor
from ddqueue.domain.statistics import ratio_interval
from ddqueue.domain.sweep import Measure, SweepCell

SWEEP = "sweep = 'ddtree-block8'"


@pytest.fixture
def known(database_url: str) -> Iterator[Engine]:
    with stored_known_sweep(database_url) as sql_engine:
        yield sql_engine


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    made = World(database_url)
    yield made
    made.sql_engine.dispose()


def test_break_even_is_the_step_time_over_the_baselines(known: Engine) -> None:
    given = rows(known, f"SELECT * FROM break_even WHERE {SWEEP}")
    assert len(given) == 7 * 3
    for row in given:
        factor = FACTORS[row["label"]][point_of(row)]
        accepted = acceptance(row["host"], row["label"])
        assert row["baseline_step_time_ms"] == pytest.approx(step_ms(row["host"], BASELINE, point_of(row)))
        assert (row["break_even_acceptance"], row["margin"]) == pytest.approx((factor, accepted - factor))
        assert row["speedup"] == pytest.approx(accepted / factor)


def test_of_several_baselines_the_one_with_the_cells_own_arguments_counts(world: World) -> None:
    tree = Speculation(8, 8, 4, 2048)
    cells = [Cell("kimi", "sim", spec, {"mem": mem}) for spec in (None, tree) for mem in (0.8, 0.9)]
    cells.append(Cell("kimi", "sim", tree, {"mem": 0.7}))
    labels = ["base 0.8", "base 0.9", "tree 0.8", "tree 0.9", "tree 0.7"]
    asked = tuple(SweepCell(cell, label) for cell, label in zip(cells, labels, strict=True))
    world.submit(replace(known_sweep(), hosts=(PCIE.name,), cells=asked, measure=Measure((SHORT,))), hosts=[PCIE])
    for job_id, step in zip(world.jobs(), (10.0, 20.0, 30.0, 30.0, 30.0), strict=True):
        claim = world.claim(job_id)
        world.attempts.record_measurement(claim, a_measurement(SHORT, step_time_ms=step))
        world.succeed(claim)
    given = rows(world.sql_engine, "SELECT label, break_even_acceptance AS needed FROM break_even ORDER BY label")
    assert {row["label"]: row["needed"] for row in given} == {"tree 0.7": 3.0, "tree 0.8": 3.0, "tree 0.9": 1.5}


def test_pairs_have_the_ratio_of_two_boxes_with_its_interval(known: Engine) -> None:
    given = rows(known, f"SELECT * FROM pairs WHERE {SWEEP}")
    assert len(given) == 4 * 3
    assert {(row["host_a"], row["parallel_a"], row["host_b"], row["parallel_b"]) for row in given} == {
        ("b300", "TP8", "rtx6000", "EP8")
    }
    for row in given:
        a, b = (visits(host, row["label"], point_of(row)) for host in (NVLINK.name, PCIE.name))
        means = [[sum(visit) / 3 for visit in cell] if row["baseline"] else cell[0] for cell in (a, b)]
        interval = ratio_interval(means[1], means[0])
        assert interval is not None
        # The view takes the ratio of means and the delta method, the domain goes by logarithms.
        assert (row["throughput_ratio"], row["throughput_ratio_low"], row["throughput_ratio_high"]) == pytest.approx(
            (interval.mean, interval.low, interval.high), rel=1e-3
        )
        assert [row[f"step_time_ratio{bound}"] for bound in ("", "_low", "_high")] == pytest.approx([2.0] * 3)
        agrees = None if row["baseline"] else row["label"] != DIFFERS[1]
        assert row["acceptance_agrees"] is agrees


@pytest.mark.parametrize(
    ("there", "agrees"),
    [
        ((3.02, 3.02, 3.02), True),  # within 1%, and no spread
        ((3.10, 3.10, 3.10), False),  # beyond 1%, and no spread
        ((2.70, 3.10, 3.50), True),  # beyond 1%, and within what the repeats do by themselves
        ((3.10,), None),  # beyond 1%, and one repeat tells nothing of the spread
    ],
)
def test_acceptance_agrees_within_a_percent_or_its_own_spread(
    world: World, there: tuple[float, ...], agrees: bool | None
) -> None:
    sweep = replace(known_sweep(), measure=Measure((SHORT,)))
    world.submit(replace(sweep, cells=sweep.cells[1:2]), hosts=[PCIE, NVLINK])
    for host, lengths in (("rtx6000", (3.0, 3.0, 3.0)), ("b300", there)):
        claim = world.claim(world.jobs(host)[0], host)
        for repeat, length in enumerate(lengths, start=1):
            counted = {"verifies": 100, "correct_drafts": round(100 * length) - 100, "acceptance_length": length}
            world.attempts.record_measurement(claim, a_measurement(SHORT, repeat, **counted))
        world.succeed(claim)
    assert [row["acceptance_agrees"] for row in rows(world.sql_engine, "SELECT * FROM pairs")] == [agrees]


def test_the_front_holds_what_nothing_beats(known: Engine) -> None:
    given = rows(known, f"SELECT * FROM pareto WHERE {SWEEP}")
    assert len(given) == 9 * 3
    for row in given:
        rivals = [
            other
            for other in given
            if (other["host"], other["context_tokens"]) == (row["host"], row["context_tokens"])
            and not other["out_of_distribution"]
        ]
        gains = ("user_tok_s", "system_tok_s")
        beaten = any(
            all(other[gain] >= row[gain] for gain in gains) and any(other[gain] > row[gain] for gain in gains)
            for other in rivals
        )
        assert row["on_front"] is (not beaten and not row["out_of_distribution"]), row
    assert sum(row["on_front"] for row in given) == 6


def test_a_tie_stands_on_the_front_and_one_just_behind_does_not(world: World) -> None:
    sweep = replace(known_sweep(), hosts=(PCIE.name,), measure=Measure((SHORT,)))
    world.submit(sweep, hosts=[PCIE])
    speeds = ((100.0, 10.0), (100.0, 10.0), (100.0, 11.0), (90.0, 10.0), (120.0, 5.0))
    for job_id, (tok, itl) in zip(world.jobs(), speeds, strict=True):
        claim = world.claim(job_id)
        summary = Summary(itl, itl, itl, itl)
        world.attempts.record_measurement(claim, a_measurement(SHORT, tok_s=tok, itl_ms=summary))
        world.succeed(claim)
    given = rows(world.sql_engine, "SELECT label, on_front FROM pareto")
    # The last one is the fastest at both, and out of distribution: it takes nobody's place.
    assert {row["label"]: row["on_front"] for row in given} == {
        BASELINE: True,
        B4: True,
        B8: False,
        B16: False,
        BS16: False,
    }


def test_the_noise_floor_is_the_domains(known: Engine) -> None:
    given = rows(known, f"SELECT * FROM noise WHERE {SWEEP}")
    assert len(given) == 2 * 3
    for row in given:
        control = visits(row["host"], BASELINE, point_of(row))
        floor = noise_floor(control)
        assert floor is not None
        assert floor.repeat is not None
        assert (row["visits"], row["cells"], row["degrees_of_freedom"]) == (3, 1, 2)
        assert row["control_visits_tok_s"] == pytest.approx([sum(visit) / 3 for visit in control])
        assert row["floor_fraction"] == pytest.approx(floor.fraction, rel=1e-5)
        assert row["visit_sd_fraction"] == pytest.approx(floor.visit.variance**0.5)
        assert row["repeat_sd_fraction"] == pytest.approx(floor.repeat.variance**0.5)


def test_every_cell_with_two_starts_adds_to_the_floor_and_one_start_gives_none(world: World, known: Engine) -> None:
    (single,) = rows(known, "SELECT * FROM noise WHERE sweep = 'ddtree-again'")
    assert (single["visits"], single["cells"], single["floor_fraction"]) == (0, 0, None)
    assert single["control_visits_tok_s"] is None
    sweep = replace(known_sweep(), name="twice", hosts=(PCIE.name,), measure=Measure((SHORT,), visits=2))
    submitted = world.submit(replace(sweep, cells=sweep.cells[:2]), hosts=[PCIE])
    measured: dict[str, list[list[float]]] = {}
    base = 100.0
    for job in world.reader.jobs(submitted.sweep_id):
        claim = world.claim(job["job_id"])
        base *= 1.013
        visit = [base, base * 1.004]
        measured.setdefault(job["label"], []).append(visit)
        for repeat, value in enumerate(visit, start=1):
            world.attempts.record_measurement(claim, a_measurement(SHORT, repeat, value))
        world.succeed(claim)
    (row,) = rows(known, "SELECT * FROM noise WHERE sweep = 'twice'")
    floor = noise_floor(*measured.values())
    assert floor is not None
    assert (row["visits"], row["cells"], row["degrees_of_freedom"]) == (4, 2, 2)
    assert row["floor_fraction"] == pytest.approx(floor.fraction, rel=1e-5)


def test_repeats_carried_over_belong_to_the_start_that_measured_them(world: World) -> None:
    sweep = replace(known_sweep(), hosts=(PCIE.name,), measure=Measure((SHORT,)))
    world.submit(replace(sweep, cells=sweep.cells[:1]), hosts=[PCIE])
    (job_id,) = world.jobs()
    lost = world.claim(job_id)
    for repeat, value in ((1, 100.0), (2, 101.0)):
        world.attempts.record_measurement(lost, a_measurement(SHORT, repeat, value))
    world.attempts.requeue_dead(PCIE.name, "gone")
    claim = world.claim(job_id)
    world.attempts.record_measurement(claim, a_measurement(SHORT, 3, 104.0))
    carried = """
        INSERT INTO measurements (attempt_id, carried_from, concurrency, context_tokens, output_tokens_asked, repeat,
            started_at, wall_s, requests_completed, requests_failed, prompt_tokens, output_tokens,
            output_throughput_tok_s, valid, reasons, marks, client, simulated)
        SELECT :new, attempt_id, concurrency, context_tokens, output_tokens_asked, repeat,
            started_at, wall_s, requests_completed, requests_failed, prompt_tokens, output_tokens,
            output_throughput_tok_s, valid, reasons, marks, client, simulated
        FROM measurements WHERE attempt_id = :old"""
    world.do(carried, new=claim.attempt_id, old=lost.attempt_id)
    world.succeed(claim)
    (row,) = rows(world.sql_engine, "SELECT * FROM noise")
    floor = noise_floor([[100.0, 101.0], [104.0]])
    assert floor is not None
    assert (row["visits"], row["floor_fraction"]) == (2, pytest.approx(floor.fraction, rel=1e-5))


def test_depths_are_the_domains(known: Engine) -> None:
    for label in (B4, BS16):
        histogram = histogram_of(PCIE.name, label)
        assert histogram is not None
        expected = depths([3 * count for count in histogram])
        given = rows(
            known,
            f"SELECT * FROM depths WHERE {SWEEP} AND host = 'rtx6000' AND label = '{label}'"
            f" AND concurrency = 1 AND context_tokens = {LONG.context} ORDER BY depth",
        )
        assert [row["depth"] for row in given] == list(range(1, len(histogram)))
        assert [row["reached"] for row in given] == list(expected.reached)
        assert [row["accepted_share"] for row in given] == pytest.approx(list(expected.accepted))
