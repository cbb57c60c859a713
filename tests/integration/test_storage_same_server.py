"""Which measured job ran on an equal server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from storage_world import RTX, World, a_sweep

from ddqueue.domain.queueing import Claim
from ddqueue.ports import SameServer


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    made = World(database_url)
    yield made
    made.sql_engine.dispose()


def configured(
    world: World, job_id: int, effective_hash: str = "abc", succeeds: bool = True, host: str = "rtx6000"
) -> Claim:
    """An attempt on the job that recorded this hash, and has ended well or still runs."""
    claim = world.claim(job_id, host)
    world.attempts.record_configuration(claim, {"page_size": job_id}, {}, {}, effective_hash)
    if succeeds:
        world.succeed(claim)
    return claim


def test_an_equal_server_is_found_with_what_was_asked_of_it(world: World) -> None:
    world.submit()
    first, second, third = world.jobs("rtx6000")
    configured(world, first, "other")
    configured(world, second)
    mine = configured(world, third, succeeds=False)
    assert world.attempts.same_server(mine, "abc") == SameServer(second, "b8 t4 w2048", {"page_size": second})
    assert world.attempts.same_server(mine, "nothing ran this") is None


def test_only_an_accepted_attempt_of_another_job_here_counts(world: World) -> None:
    world.submit()
    first, second, _ = world.jobs("rtx6000")
    elsewhere = world.jobs("b300")[0]
    configured(world, elsewhere, host="b300")
    lost = configured(world, first, succeeds=False)
    world.attempts.requeue_dead("rtx6000", "it died")
    mine = configured(world, second, succeeds=False)
    assert lost.job_id != mine.job_id
    assert world.attempts.same_server(mine, "abc") is None
    world.succeed(mine)
    assert world.attempts.same_server(mine, "abc") is None, "a job is not its own duplicate"


def test_another_sweep_is_another_question(world: World) -> None:
    world.submit()
    configured(world, world.jobs("rtx6000")[0])
    for job_id in world.jobs("rtx6000")[1:]:
        configured(world, job_id, f"hash of {job_id}")
    again = world.submit()
    job_id = world.one(f"SELECT min(id) FROM jobs WHERE sweep_id = {again.sweep_id} AND host = 'rtx6000'")
    assert world.attempts.same_server(configured(world, job_id, succeeds=False), "abc") is None


def test_another_visit_of_the_cell_is_no_duplicate(world: World) -> None:
    sweep = a_sweep(hosts=[RTX])
    world.submit(replace(sweep, measure=replace(sweep.measure, visits=2)), hosts=[RTX])
    query = "SELECT id FROM jobs JOIN cells ON hash = cell_hash WHERE label = :label ORDER BY visit"
    first, second = world.column(query, label="b8 t4 w2048")
    configured(world, first)
    again = configured(world, second, succeeds=False)
    assert world.attempts.same_server(again, "abc") is None
    world.succeed(again)
    other = configured(world, world.column(query, label="b16 t4 w2048")[1], succeeds=False)
    assert world.attempts.same_server(other, "abc") == SameServer(first, "b8 t4 w2048", {"page_size": first})
