"""`ddqueue report` of a sweep that ran on two simulated boxes, one configuration of it failing."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from installation import Installation, sweep_text

from ddqueue.report.html.browser import find_browser

HOSTS = ("sim-rtx6000", "sim-b300")
HYPOTHESIS = "trees pay <script>alert(1)</script> & \"small\" ones 'win'"
SWEEP = sweep_text(
    "reported",
    HOSTS,
    cells=[
        "{block_size: 8, budget: 4, topk: 4, window: 2048}",
        "{block_size: 8, budget: 8, topk: 4, window: 2048}",
        "{block_size: 8, budget: 16, topk: 4, window: 2048, args.sim-fault: oom@capture}",
    ],
    points=["{concurrency: 1, context: 60, output: 32}", "{concurrency: 4, context: 60, output: 16}"],
    more={"baseline": "true", "hypothesis": json.dumps(HYPOTHESIS)},
)


@pytest.fixture
def reported(installation: Installation) -> tuple[Installation, str]:
    sweep = installation.submit(SWEEP + "# </pre><script>alert(2)</script>\n")
    installation.start_all(*HOSTS)
    installation.wait_final(sweep)
    return installation, sweep


def test_one_page_tells_what_came_of_a_sweep(reported: tuple[Installation, str]) -> None:
    installation, sweep = reported
    said = installation.run("report", sweep, "-o", "out.html").stdout
    assert re.fullmatch(r"wrote out\.html, [\d,]+ kB\n", said)
    text = (installation.home / "out.html").read_text(encoding="utf-8")

    assert "SIMULATED: software GPUs, no measurement of hardware" in text
    assert "<script" not in text
    assert not re.search(r"https?:|url\(|@import", text)
    assert html.escape(HYPOTHESIS) in text
    assert html.escape("# </pre><script>alert(2)</script>") in text
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == [
        "The answer",
        "What came of it",
        "All configurations",
        "Throughput against per-user speed",
        "PCIe against NVLink",
        "Throughput against tree budget",
        "Acceptance by depth",
        "Does speculation pay?",
        "Failures",
        "Noise and drift",
        "Where the time went",
        "Power, clocks and heat",
        "Provenance",
        "The sweep file",
    ]
    assert text.count('class="plot"') == text.count('class="simulated"') > 8
    # What failed is there with its class, the deciding line and the remedy.
    assert text.count("OOM_CAPTURE") >= 4
    assert "CUDA out of memory" in text
    assert "lower args.mem-fraction-static" in text
    # Not one cell was visited twice, so that no lead may be called real.
    assert "beyond noise, floor" not in text


def test_the_other_forms_have_the_same_numbers(reported: tuple[Installation, str]) -> None:
    installation, sweep = reported
    found = json.loads(installation.run("report", sweep, "--format", "json", "-o", "-").stdout)
    assert found["results"] == installation.json("results", sweep)
    assert found["results"]["jobs"][0]["points"][0]["mean_tok_s"] > 0

    markdown = installation.run("report", sweep, "--format", "md", "-o", "-").stdout
    shown = {line for line in markdown.splitlines() if line.startswith("| b4 t4 w2048 | ")}
    results = installation.run("results", sweep, "--format", "markdown").stdout
    speeds = re.findall(r"^\| b4 t4 w2048 \S*\s*\| ([\d.]+ ±[\d.]+)", results, re.M)
    assert len(speeds) == len(HOSTS)
    assert all(any(speed in line for line in shown) for speed in speeds)

    assert installation.run("report", sweep).stdout.startswith(f"wrote {sweep}.html")
    assert (installation.home / f"{sweep}.html").exists()
    installation.run("report", sweep, "-o", "out.md")
    assert (installation.home / "out.md").read_text().startswith(f"# {sweep}\n")
    _check_picture(installation, sweep)


def _check_picture(installation: Installation, sweep: str) -> None:
    """Where there is no browser one line says what is missing."""
    if find_browser() is None:
        assert "png needs a browser" in installation.run("report", sweep, "-o", "out.png", code=1).stderr
        return
    installation.run("report", sweep, "-o", "out.png")
    assert (installation.home / "out.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_a_sweep_that_waits_has_a_report_and_mistakes_are_explained(installation: Installation) -> None:
    sweep = installation.submit(sweep_text("waiting"))
    text = installation.run("report", sweep, "-o", "-").stdout
    assert "no configuration has been ranked yet" in text
    assert "1 queued" in text
    assert "Where the time went" not in text

    assert "did you mean waiting?" in installation.run("report", "waitin", code=2).stderr
    nowhere = installation.run("report", sweep, "-o", "no/such/folder/x.html", code=2).stderr
    assert "no/such/folder/x.html cannot be written: No such file or directory" in nowhere
    assert (
        "a picture cannot go to a terminal"
        in installation.run("report", sweep, "--format", "png", "-o", "-", code=2).stderr
    )
    assert [path.name for path in Path(installation.home).glob(".*")] == [], "no half-written file is left"
    without = installation.run("report", sweep, "-o", "x.png", code=1, PATH="/nonexistent").stderr
    assert "png needs a browser, and there is none of chromium" in without
