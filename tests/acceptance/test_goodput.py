"""Goodput of a sweep: planned with its limits, measured against them, stored, and shown."""

from __future__ import annotations

import pytest
from installation import Installation, sweep_text

HOST = "sim-rtx6000"
LOOSE, STRICT = "{ttft_ms: 100000000, tpot_ms: 100000000}", "{ttft_ms: 0.001}"


def limited(name: str, limits: str) -> str:
    text = sweep_text(name, points=["{concurrency: 4, context: 60, output: 16}"])
    return text.replace("measure:\n", f"measure:\n  goodput: {limits}\n")


def test_requests_within_the_limits_are_counted(installation: Installation) -> None:
    (installation.home / "loose.yaml").write_text(limited("loose", LOOSE))
    planned = installation.run("plan", "loose.yaml").stdout
    assert "Goodput counts requests with TTFT ≤ 1e+08 ms and TPOT ≤ 1e+08 ms" in planned
    loose = installation.submit(limited("loose", LOOSE))
    strict = installation.submit(limited("strict", STRICT))
    installation.start_all(HOST)
    for sweep in (loose, strict):
        assert [job["state"] for job in installation.wait_final(sweep)] == ["succeeded"]

    (job,) = installation.json("results", loose)["jobs"]
    (point,) = job["points"]
    assert point["goodput_output_tok_s"] == pytest.approx(point["mean_tok_s"])
    assert point["goodput_requests_s"] == pytest.approx(point["mean_tok_s"] / 16)
    document = installation.json("results", strict)
    (point,) = document["jobs"][0]["points"]
    assert document["goodput_limits"] == {"ttft_ms": 0.001, "tpot_ms": None, "e2e_ms": None}
    assert (point["goodput_requests_s"], point["goodput_output_tok_s"]) == (0, 0)
    assert "goodput on sim-rtx6000: TTFT ≤ 0.001 ms" in installation.run("results", strict).stdout

    kept = "SELECT sum((ttft_ms <= 100000000 AND tpot_ms <= 100000000)::int) AS n, count(*) AS all FROM samples"
    rows = installation.json("sql", kept)
    assert rows[0]["n"] == rows[0]["all"] > 0
