"""Cells that turn out to run the same are measured once."""

from __future__ import annotations

from installation import Installation, sweep_text


def test_a_setting_that_changes_nothing_is_named_and_not_measured_twice(installation: Installation) -> None:
    cells = [
        "{block_size: 8, budget: 8}",
        "{block_size: 8, budget: 8, args.page-size: 1}",
        "{block_size: 8, budget: 4}",
    ]
    sweep = installation.submit(sweep_text("same", cells=cells))
    installation.start_all("sim-rtx6000")
    first, second, third = installation.wait_final(sweep)
    assert [job["state"] for job in (first, second, third)] == ["succeeded", "failed", "succeeded"]
    assert second["failure"] == "CONFIG_OVERRIDDEN"
    assert second["evidence"] == (
        f"runs exactly what job {first['job_id']} ({first['label']}) runs, and is not measured twice:"
        " page_size is 1 here and not asked there"
    )
    shown = installation.show(second["job_id"])
    (attempt,) = shown["attempts"]
    assert attempt["measurements"] == []
    assert attempt["difference"] == {}
    stop = next(phase for phase in attempt["phases"] if phase["name"] == "stop")
    assert stop["detail"] == "clean"
