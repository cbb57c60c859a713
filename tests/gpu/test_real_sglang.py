"""The whole pipeline over a real SGLang with a pair of models whose acceptance is known."""

from __future__ import annotations

import pytest
from installation import Installation
from real import HOST, KNOWN_ACCEPTANCE, TOLERANCE, acceptance_length, mean_at, sweep_text

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def table(box: Installation, prompts: str) -> dict[str, dict[str, object]]:
    """The jobs of the main sweep, by configuration."""
    sweep = box.submit(
        sweep_text(
            "real-dflash",
            ["{block_size: 8}", "{block_size: 16}"],
            prompts=prompts,
            baseline="true",
            out_of_distribution="allow",
            hypothesis="block 16 accepts a third less than block 8, which the drafter was trained for",
        )
    )
    jobs = box.wait_final(sweep)
    return {job["label"]: box.show(job["job_id"]) for job in jobs}


def test_every_configuration_was_measured(table: dict[str, dict[str, object]]) -> None:
    assert list(table) == ["baseline", "bs8 none", "bs16 none"]
    for label, job in table.items():
        assert job["state"] == "succeeded", (label, job["failure"], job["evidence"])
        (attempt,) = job["attempts"]  # type: ignore[misc]
        assert attempt["simulated"] is False
        assert attempt["difference"] == {}
        assert all(row["valid"] for row in attempt["measurements"]), label
        assert {row["concurrency"] for row in attempt["measurements"]} == {1, 8, 32}


@pytest.mark.parametrize("label", list(KNOWN_ACCEPTANCE))
def test_acceptance_is_what_it_is_known_to_be(table: dict[str, dict[str, object]], label: str) -> None:
    low, high = KNOWN_ACCEPTANCE[label]
    assert low - TOLERANCE <= acceptance_length(table[label]) <= high + TOLERANCE


@pytest.mark.parametrize("label", list(KNOWN_ACCEPTANCE))
@pytest.mark.parametrize("concurrency", [1, 8, 32])
def test_the_margin_says_whether_a_token_comes_sooner(
    table: dict[str, dict[str, object]], label: str, concurrency: int
) -> None:
    """Whether speculation pays depends on the machine; that margin and speed agree does not."""
    base, spec = (mean_at(table[name], concurrency) for name in ("baseline", label))
    margin = spec["acceptance_length"] - spec["step_time_ms"] / base["step_time_ms"]
    sooner_by = base["itl_mean_ms"] / spec["itl_mean_ms"] - 1
    assert margin * sooner_by > 0 or abs(sooner_by) < 0.1


def test_the_engines_own_warning_is_kept(table: dict[str, dict[str, object]]) -> None:
    assert table["bs16 none"]["out_of_distribution"] is True
    assert "block size mismatch" in str(table["bs16 none"]["attempts"])
    assert "block size mismatch" not in str(table["bs8 none"]["attempts"])


def test_the_box_is_free_afterwards(box: Installation, table: dict[str, dict[str, object]]) -> None:
    from ddqueue.gpu.nvml import NvmlInspector

    assert table
    assert box.servers(HOST) == []
    assert all(not gpu.pids for gpu in NvmlInspector().read())
