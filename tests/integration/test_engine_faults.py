"""Every fault the simulator knows, at a server that the real engine started: its class, its evidence, and that nothing
is left of it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from engine_world import HOST, LIMITS, SETTINGS, EngineWorld

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import SettingTemplate
from ddqueue.domain.measurement import Invalid, Measurement
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.sweep import Point
from ddqueue.engine.server import SglangServer
from ddqueue.measure.limits import Limits
from ddqueue.measure.process import ClientProcess
from ddqueue.processes import become_subreaper
from ddqueue.sim.faults import FaultKind, parse

UNDER_LOAD = Point(concurrency=2, context=60, output=400)


@dataclass(frozen=True)
class Expected:
    failure: Failure
    words: str
    """Part of the evidence."""


STARTS = {
    "crash@init": Expected(Failure.SERVER_CRASHED, "exit code: -9"),
    "crash@load": Expected(Failure.SERVER_CRASHED, "scheduler died during initialization"),
    "crash@kv": Expected(Failure.SERVER_CRASHED, "scheduler died during initialization"),
    "crash@capture": Expected(Failure.SERVER_CRASHED, "scheduler died during initialization"),
    "crash@ready": Expected(Failure.SERVER_CRASHED, "crashed with exit code -9"),
    "hang@init": Expected(Failure.NCCL_HANG, "in phase 'init distributed'"),
    "hang@load": Expected(Failure.READY_TIMEOUT, "in phase 'load weights' at 50% 4/8"),
    "hang@kv": Expected(Failure.READY_TIMEOUT, "in phase 'allocate KV cache'"),
    "hang@capture": Expected(Failure.CAPTURE_HANG, "in phase 'capture graphs' at 50% 10/20"),
    "hang@ready": Expected(Failure.READY_TIMEOUT, "in phase 'warm up'"),
    "oom@load": Expected(Failure.OOM_LOAD, "CUDA out of memory"),
    "oom@kv": Expected(Failure.KV_TOO_SMALL, "--mem-fraction-static"),
    "oom@capture": Expected(Failure.OOM_CAPTURE, "Capture cuda graph failed"),
    "not-found@model": Expected(Failure.MODEL_NOT_FOUND, "'/simulated/m'"),
    "not-found@draft": Expected(Failure.MODEL_NOT_FOUND, "'/simulated/draft'"),
    "wrong-tag": Expected(Failure.PORT_BUSY, "'another-server'"),
}
"""Faults of the start: it fails."""

CONFIRMED = {
    "wrong-setting@page_size=16": {},
    "wrong-setting@speculative_draft_window_size=4096": {"speculative_draft_window_size": ["2048", 4096]},
    "wrong-setting@speculative_ddtree_budget=4": {
        "speculative_ddtree_budget": ["12", 4],
        "max_speculative_num_draft_tokens": [13, 5],
    },
}
"""Faults that only the server's own account shows: setting -> [asked, runs]. Nobody asked for a page size."""

HARMLESS = ("slow@capture=0.1", "garbage@log")
"""Faults that a start must survive."""

SERVING = {
    "crash@serving": Expected(Failure.SERVER_CRASHED, "crashed with exit code -9"),
    "oom@run": Expected(Failure.OOM_RUN, "Prefill out of memory"),
}
"""Faults that end the server once two requests run."""

RANK_LOST = "rank-lost"
"""The server is dead and keeps its connections: whoever only waits for answers waits for a minute."""

ANSWERS = {
    "short": (Invalid.SHORT_OUTPUT,),
    "error-midstream": (Invalid.REQUESTS_FAILED,),
    "garbage@stream": (Invalid.REQUESTS_FAILED,),
    "stall@one": (Invalid.REQUESTS_FAILED,),
    "stall@all": (Invalid.REQUESTS_FAILED,),
}
"""Faults of answers: the server lives, the numbers are invalid and say why."""

KEPT = "memory-kept=0.5"

OF_CODING = {FaultKind.CORRUPT_SPECULATION, FaultKind.CORRUPT_UNDER_LOAD, FaultKind.NO_ANSWER}
"""What chat answers say, which the server's life and numbers do not show: tests/acceptance/test_coding.py."""


@pytest.fixture
def world(tmp_path: Path) -> EngineWorld:
    become_subreaper()
    return EngineWorld(tmp_path)


def test_every_fault_is_here() -> None:
    faults = [parse(text) for text in (*STARTS, *CONFIRMED, *HARMLESS, *SERVING, *ANSWERS, RANK_LOST, KEPT)]
    assert {fault.kind for fault in faults} | OF_CODING == set(FaultKind)


@pytest.mark.parametrize("fault", STARTS)
def test_a_fault_of_the_start_gives_its_class(world: EngineWorld, fault: str) -> None:
    if fault.startswith("hang"):
        # Long enough for an interpreter to start on a busy machine.
        world.limits = replace(LIMITS, no_progress_s=5.0)
    with world.simulated(fault) as server:
        found = world.failure(server)
    assert (found.failure, STARTS[fault].words in found.evidence) == (STARTS[fault].failure, True), found
    world.nothing_is_left()


@pytest.mark.parametrize("fault", CONFIRMED)
def test_a_setting_that_was_changed_is_a_difference(world: EngineWorld, fault: str) -> None:
    with world.simulated(fault) as server:
        world.wait(server)
        assert server.confirm().difference == CONFIRMED[fault]
    world.nothing_is_left()


def test_a_build_that_ignores_the_variable_for_topk_is_found_out(world: EngineWorld) -> None:
    with world.simulated(settings={**SETTINGS, "topk": SettingTemplate()}) as server:
        world.wait(server)
        assert server.confirm().difference == {"speculative_ddtree_topk": [6, 4]}


@pytest.mark.parametrize("fault", HARMLESS)
def test_what_a_start_survives_is_no_failure(world: EngineWorld, fault: str) -> None:
    world.limits = replace(LIMITS, no_progress_s=1.5)
    with world.simulated(fault) as server:
        assert world.wait(server)[-1] == "first generation"
        assert server.stop() == "clean"
    world.nothing_is_left()


@pytest.mark.parametrize("fault", SERVING)
def test_a_server_that_dies_under_load_gives_its_class(world: EngineWorld, fault: str) -> None:
    with world.simulated(fault) as server:
        world.wait(server)
        measurement, error = run(server)
        assert measurement.requests_completed == 0
        with pytest.raises(AttemptFailure) as raised:
            server.explain(error)
    found = raised.value
    assert (found.failure, SERVING[fault].words in found.evidence) == (SERVING[fault].failure, True), found
    world.nothing_is_left()


def test_a_load_on_a_server_that_lost_a_rank_ends_at_once(world: EngineWorld) -> None:
    with world.simulated(RANK_LOST) as server:
        world.wait(server)
        with pytest.raises(AttemptFailure) as raised:
            run(server, Limits(connect_s=5.0, first_token_s=600.0, idle_s=600.0, total_s=1200.0), server.watch)
        assert server.stop().startswith("it was dying, and did not end; killed pid")
    assert raised.value.failure is Failure.SERVER_CRASHED
    assert "Connection reset by peer; it said that it would end, and 1 s later" in raised.value.evidence
    world.nothing_is_left()


@pytest.mark.parametrize("fault", ANSWERS)
def test_a_fault_of_the_answers_makes_the_numbers_invalid(world: EngineWorld, fault: str) -> None:
    with world.simulated(fault) as server:
        world.wait(server)
        measurement, error = run(server)
        assert set(ANSWERS[fault]) <= set(measurement.reasons), error
        server.check_alive()
        assert server.explain(error) is None
        assert server.stop() == "clean"
    world.nothing_is_left()


def test_memory_that_outlives_its_server_is_not_the_servers_fault(world: EngineWorld) -> None:
    with world.simulated(KEPT) as server:
        world.wait(server)
        assert server.stop() == "clean"
    assert world.ownership.strays(HOST.name) == []
    assert all(gpu.memory_used_mib > 0 and not gpu.pids for gpu in world.gpus.read())


IMPATIENT = Limits(connect_s=5.0, first_token_s=10.0, idle_s=2.0, total_s=30.0)


def run(
    server: SglangServer, limits: Limits = IMPATIENT, should_stop: Callable[[], None] = lambda: None
) -> tuple[Measurement, str]:
    """Two requests at once; the measurement, and the first request's error if there was one."""
    with ClientProcess(limits=limits) as load:
        result = load.run(server.url, UNDER_LOAD, 1, "salt", should_stop)
    errors = [request.error for request in result.requests if request.error]
    return measure(result, server.tag, baseline=False), errors[0] if errors else ""
