"""Continuous batching under a virtual clock: what takes part in which step, and what it costs."""

from __future__ import annotations

from random import Random

import pytest

from ddqueue.errors import UsageError
from ddqueue.sim.cost import BOXES, PCIE, box_named, expert_share
from ddqueue.sim.drafter import Drafter
from ddqueue.sim.prefix_cache import PrefixCache
from ddqueue.sim.scheduler import Generation, Scheduler, StepKind


def scheduler(drafter: Drafter | None = None, running: int = 4, tokens: int = 100_000) -> Scheduler:
    return Scheduler(PCIE, drafter, running, tokens)


def request(name: str, prompt: int = 100, output: int = 4) -> Generation:
    return Generation(name, prompt, output, Random(name))


def run(engine: Scheduler) -> list[tuple[StepKind, list[str]]]:
    """Every step until nothing is left, with who took part."""
    steps = []
    while (step := engine.begin()) is not None:
        engine.finish(step, 0.0)
        steps.append((step.kind, [one.rid for one in step.generations]))
    return steps


def test_without_speculation_every_step_gives_one_token() -> None:
    engine, only = scheduler(), request("a", output=3)
    engine.submit(only)
    assert run(engine) == [(StepKind.PREFILL, ["a"]), (StepKind.DECODE, ["a"]), (StepKind.DECODE, ["a"])]
    assert (only.output_tokens, only.verifies, only.histogram) == (3, 0, [])
    assert engine.idle


def test_a_request_that_arrives_is_prefilled_before_anybody_decodes_further() -> None:
    engine = scheduler()
    engine.submit(request("a", output=3))
    first = engine.begin()
    assert first is not None
    engine.submit(request("b", output=2))
    engine.finish(first, 0.0)
    assert run(engine) == [
        (StepKind.PREFILL, ["b"]),
        (StepKind.DECODE, ["a", "b"]),
        (StepKind.DECODE, ["a"]),
    ]


def test_no_more_run_at_once_than_allowed() -> None:
    engine = scheduler(running=2)
    for name in "abc":
        engine.submit(request(name, output=2))
    assert run(engine) == [
        (StepKind.PREFILL, ["a", "b"]),
        (StepKind.DECODE, ["a", "b"]),
        (StepKind.PREFILL, ["c"]),
        (StepKind.DECODE, ["c"]),
    ]


def test_a_request_waits_for_room_in_the_cache_but_not_for_ever() -> None:
    engine = scheduler(tokens=250)
    for name, prompt in (("a", 100), ("b", 100), ("c", 100), ("huge", 900)):
        engine.submit(request(name, prompt, output=1))
    kinds = run(engine)
    assert kinds == [
        (StepKind.PREFILL, ["a", "b"]),
        (StepKind.PREFILL, ["c"]),
        (StepKind.PREFILL, ["huge"]),
    ]


def test_prefill_goes_in_chunks() -> None:
    engine = scheduler()
    for name in "abc":
        engine.submit(request(name, 5000, output=1))
    assert [names for _, names in run(engine)] == [["a", "b"], ["c"]]


def test_an_answer_is_cut_at_its_limit_and_its_last_verify_counts_in_full() -> None:
    engine, only = scheduler(Drafter(8, 8, 8, 4)), request("a", output=64)
    engine.submit(only)
    run(engine)
    assert only.output_tokens == 64
    assert only.verifies == sum(only.histogram)
    assert only.correct_drafts == sum(count * drafts for drafts, count in enumerate(only.histogram))
    assert 1 + only.verifies + only.correct_drafts >= 64


def test_an_aborted_request_gets_nothing_more() -> None:
    engine, first, second = scheduler(), request("a"), request("b")
    engine.submit(first)
    engine.submit(second)
    step = engine.begin()
    assert step is not None
    engine.abort(first)
    assert engine.finish(step, 1.0) == [second]
    assert first.finished
    assert [names for _, names in run(engine)] == [["b"]] * 3


def test_the_same_seed_gives_the_same_steps_and_noise_stays_near_the_mean() -> None:
    def durations(noise: float, seed: int) -> list[float]:
        engine = Scheduler(PCIE, None, 4, 10**6, noise=noise, seed=seed)
        engine.submit(request("a", output=400))
        found = []
        while (step := engine.begin()) is not None:
            engine.finish(step, 0.0)
            found.append(step.duration_s)
        return found

    assert durations(0.01, 1) == durations(0.01, 1) != durations(0.01, 2)
    assert sum(durations(0.01, 1)) == pytest.approx(sum(durations(0.0, 1)), rel=0.01)


def test_verifying_more_tokens_costs_more_and_more_so_over_pcie() -> None:
    pcie, nvlink = BOXES["pcie"], BOXES["nvlink"]
    growth = [[box.step_ms(32, verify, 60) for verify in (5, 9, 13, 17)] for box in (pcie, nvlink)]
    assert all(row == sorted(row) for row in growth)
    assert growth[0][3] - growth[0][0] > 5 * (growth[1][3] - growth[1][0])
    assert all(fast < slow for fast, slow in zip(growth[1], growth[0], strict=True))


def test_speculation_pays_for_one_request_over_pcie() -> None:
    """Step time over the baseline's is the acceptance at which a tree breaks even."""
    break_even = PCIE.step_ms(1, 9, 60) / PCIE.step_ms(1, 1, 60)
    assert 1.0 < break_even < 4.0


def test_the_drafters_window_only_touches_its_own_attention() -> None:
    full, windowed = PCIE.step_ms(1, 9, 4096), PCIE.step_ms(1, 9, 4096, 2048)
    assert full - windowed == pytest.approx(PCIE.draft_kv_ms_per_k * 2.048)
    assert PCIE.step_ms(1, 9, 1000) == PCIE.step_ms(1, 9, 1000, 2048)


def test_the_share_of_experts_touched_goes_from_a_tokens_own_to_all() -> None:
    assert expert_share(1) == pytest.approx(8 / 384)
    assert expert_share(544) > 0.999


def test_an_unknown_box_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no simulated box 'hgx'; there is nvlink and pcie"):
        box_named("hgx")


def test_a_repeated_prompt_is_cached_but_for_its_last_token() -> None:
    cache = PrefixCache(10_000)
    prompt = list(range(1000))
    assert cache.cached_tokens(prompt) == 0
    cache.add(prompt)
    assert cache.cached_tokens(prompt) == 999
    assert cache.cached_tokens([*prompt[:960], *range(5)]) == 960
    assert cache.cached_tokens([7, *prompt]) == 0
    cache.clear()
    assert cache.cached_tokens(prompt) == 0


def test_the_oldest_prompts_leave_a_full_cache() -> None:
    cache = PrefixCache(128)
    first, second = [1] * 96, [2] * 96
    cache.add(first)
    cache.add(second)
    assert cache.cached_tokens(first) == 0
    assert cache.cached_tokens(second) == 95
