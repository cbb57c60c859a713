"""A sweep whose cells are visited twice around a control cell, on a simulated box, to the end."""

from __future__ import annotations

import json

from installation import Installation, sweep_text

TURNS = [
    ("baseline", 1, True),
    ("b4 t4 none", 1, False),
    ("b8 t4 none", 1, False),
    ("baseline", 2, True),
    ("b8 t4 none", 2, False),
    ("b4 t4 none", 2, False),
    ("baseline", 3, True),
]
CONTROL_OVER_TIME = """
SELECT visit, started_at, points -> 0 -> 'n' AS repeats FROM results WHERE control ORDER BY started_at
"""


def test_visits_run_in_order_and_are_pooled_in_the_table(installation: Installation) -> None:
    text = sweep_text(
        "visits",
        cells=["{block_size: 8, budget: 4, topk: 4}", "{block_size: 8, budget: 8, topk: 4}"],
        points=["{concurrency: 1, context: 60, output: 16}"],
        more={"baseline": "true"},
    )
    sweep = installation.submit(text + "  visits: 2\n  control: {cell: baseline, every: 2}\n")
    installation.start_all("sim-rtx6000")
    jobs = installation.wait_final(sweep)
    assert [(job["label"], job["visit"], job["control"], job["state"]) for job in jobs] == [
        (*turn, "succeeded") for turn in TURNS
    ]
    assert jobs == sorted(jobs, key=lambda job: job["started_at"]), "run in the order planned"

    table = installation.run("results", sweep).stdout.splitlines()
    rows = [line.split() for line in table if "[simulated] " in line and "±" in line]
    assert [(row[0], row[-1]) for row in rows] == [("baseline", "3/3"), ("b4", "2/2"), ("b8", "2/2")]
    by_visit = installation.run("results", sweep, "--by-visit").stdout.splitlines()
    rows = [line.split() for line in by_visit if "[simulated] " in line and "±" in line]
    assert [(row[0], row[-1]) for row in rows] == [
        (label.split()[0], "(control)" if control else str(visit)) for label, visit, control in TURNS
    ]
    listed = installation.json("results", sweep)["jobs"]
    assert [(job["label"], job["visit"], job["control"]) for job in listed] == TURNS
    assert [point["n"] for job in listed for point in job["points"]] == [3] * 7

    control = json.loads(installation.run("sql", CONTROL_OVER_TIME, "--json").stdout)
    assert [(row["visit"], row["repeats"]) for row in control] == [(1, 3), (2, 3), (3, 3)]
