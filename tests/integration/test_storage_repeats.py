"""What judging a sweep reads: every repeat of accepted attempts, and the start of the server it was measured on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from storage_world import POINTS, World, a_measurement, a_sweep

from ddqueue.domain.failures import Failure
from ddqueue.domain.measurement import Invalid
from ddqueue.domain.retry import Decision
from ddqueue.domain.states import AttemptOutcome, JobState
from ddqueue.errors import UsageError


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    world = World(database_url)
    world.submit()
    yield world
    world.sql_engine.dispose()


def test_repeats_of_accepted_attempts_only_valid_or_not(world: World) -> None:
    good, bad, _ = world.jobs()
    claim = world.claim(good)
    world.attempts.record_measurement(claim, a_measurement(POINTS[0], 1, 144.0))
    world.attempts.record_measurement(claim, a_measurement(POINTS[0], 2, 100.0, reasons=(Invalid.SHORT_OUTPUT,)))
    world.succeed(claim)
    failed = world.claim(bad)
    world.attempts.record_measurement(failed, a_measurement(POINTS[0], 1, 1.0))
    world.attempts.finish(failed, AttemptOutcome.FAILED, Decision(JobState.FAILED), Failure.OOM_RUN, "at step 4")
    first, second = world.reader.repeats(1)
    assert (first["job_id"], first["output_throughput_tok_s"], first["reasons"]) == (good, 144.0, [])
    assert (first["concurrency"], first["context_tokens"], first["output_tokens_asked"]) == (1, 60, 256)
    assert (second["output_throughput_tok_s"], second["reasons"]) == (100.0, ["SHORT_OUTPUT"])
    assert first["start"] == second["start"]
    assert first["draft_histogram"] == [10, 20, 110]


def test_a_repeat_that_was_carried_over_names_the_start_it_was_measured_on(world: World) -> None:
    job_id, *_ = world.jobs()
    earlier = world.claim(job_id)
    world.attempts.record_configuration(earlier, {}, {}, {}, "same")
    world.attempts.record_measurement(earlier, a_measurement(POINTS[0], 1, 144.0))
    world.attempts.requeue_dead("rtx6000", "the box lost power")
    later = world.claim(job_id)
    world.attempts.record_configuration(later, {}, {}, {}, "same")
    assert len(world.attempts.carry_over(later, "same")) == 1
    world.attempts.record_measurement(later, a_measurement(POINTS[0], 2, 145.0))
    world.succeed(later)
    carried, own = sorted(world.reader.repeats(1), key=lambda row: row["output_throughput_tok_s"])
    attempts = world.column("SELECT id FROM attempts WHERE job_id = :id ORDER BY number", id=job_id)
    assert [carried["start"], own["start"]] == attempts


def test_what_names_a_cell(world: World) -> None:
    cells = world.reader.cells(1)
    assert [cell["label"] for cell in cells] == ["baseline", "b8 t4 w2048", "b16 t4 w2048"]
    assert cells[1]["canonical"] == a_sweep().cells[1].cell.canonical()
    named = world.reader.job_names(world.jobs()[1])
    assert named == {
        "sweep_id": 1,
        "sweep": "kimi-ddtree@1",
        "host": "rtx6000",
        "parallel": "EP8",
        "cell_hash": cells[1]["cell_hash"],
    }
    with pytest.raises(UsageError, match="there is no job 999; `ddqueue status` lists the jobs of a sweep"):
        world.reader.job_names(999)
