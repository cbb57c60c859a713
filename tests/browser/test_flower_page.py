"""Flower in a real browser while an attempt runs: what a person reads in its rows, and what nobody can do there."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from installation import PATIENCE_S, Installation, sweep_text

from ddqueue.queue.flower import COLUMNS
from ddqueue.report.html.browser import Tab

InBrowser = Callable[[Callable[[Tab], Awaitable[Any]]], Any]

HOST = "sim-rtx6000"
USER, PASSWORD = "night-shift", "correct-horse"
DESKTOP_PX = 1280
POINTS = ["{concurrency: 1, context: 4096, output: 256}", "{concurrency: 8, context: 60, output: 256}"]

ROWS = """
[...document.querySelectorAll('#tasks-table tbody tr')]
  .map(row => [...row.children].map(cell => cell.innerText.trim()))
  .filter(cells => cells.length > 1)
"""

HEADS = "[...document.querySelectorAll('#tasks-table thead th')].map(cell => cell.innerText.trim())"

READABLE = 6
"""So many columns say everything; the others may have to be scrolled to."""

# What a person cannot read: beyond the window, cut, or under another column's head.
HIDDEN = """
(() => {
  const cells = [...document.querySelectorAll('#tasks-table tbody tr:first-child td')].slice(0, READABLE);
  const heads = [...document.querySelectorAll('.dataTables_scrollHead th')];
  const cut = [...document.querySelectorAll('#tasks-table th, #tasks-table td, #tasks-table td *')].filter(
    cell => cell.scrollWidth > cell.clientWidth + 1 && getComputedStyle(cell).overflowX !== 'visible');
  return {page: document.documentElement.scrollWidth, window: innerWidth,
          beyond: cells.filter(cell => cell.getBoundingClientRect().right > innerWidth + 1).map(cell => cell.innerText),
          cut: cut.filter(cell => cells.some(one => one.contains(cell))).map(cell => cell.innerText),
          beside: cells.map((cell, at) => [cell, heads[at]]).filter(([cell, head]) =>
            Math.abs(cell.getBoundingClientRect().left - head.getBoundingClientRect().left) > 3
          ).map(([cell]) => cell.innerText)};
})()
"""

BUTTONS = """
[...document.querySelectorAll('button, input[type=submit], a.btn')]
  .filter(one => one.offsetParent !== null)
  .map(one => (one.innerText || one.value || one.getAttribute('aria-label') || '').trim())
"""

POSTS = """
Promise.all(PATHS.map(path => fetch(path, {method: 'POST'}).then(
  async answer => [path, answer.status, await answer.text()])))
"""


@pytest.fixture
def installation(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Installation]:
    made = Installation(tmp_path / "home", database_url, redis_url)
    made.set("DDQUEUE_FLOWER_USER", USER)
    made.set("DDQUEUE_FLOWER_PASSWORD", PASSWORD)
    yield made
    made.stop()


@pytest.fixture
def address(installation: Installation) -> str:
    """`127.0.0.1:port` of a Flower that runs."""
    installation.start("flower", "--port", "0")
    deadline = time.monotonic() + PATIENCE_S
    while not (found := re.search(r"Flower is at http://(127\.0\.0\.1:\d+)/", installation.logs())):
        assert time.monotonic() < deadline, installation.logs()
        time.sleep(0.2)
    return found[1]


async def value(tab: Tab, script: str) -> Any:
    said = await tab.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
    assert "exceptionDetails" not in said, said
    return said["result"].get("value")


async def sign_in(tab: Tab, address: str, password: str) -> list[int]:
    """Open the tasks as somebody who has typed this password; the statuses of the page itself."""
    login = base64.b64encode(f"{USER}:{password}".encode()).decode()
    await tab.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Basic {login}"})
    await tab.resize(DESKTOP_PX, 900)
    await tab.open(f"http://{address}/tasks")
    answers = [event["params"] for event in tab.events if event["method"] == "Network.responseReceived"]
    return [one["response"]["status"] for one in answers if one["type"] == "Document"]


async def row_when(tab: Tab, address: str, wanted: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """The newest row, once it is as wanted, by column; the page is loaded anew as a person does."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        await tab.open(f"http://{address}/tasks")
        await asyncio.sleep(0.5)  # the table asks for its rows after the page has been loaded
        rows = [dict(zip(COLUMNS, cells, strict=True)) for cells in await value(tab, ROWS)]
        if rows and wanted(rows[0]):
            return rows[0]
        assert time.monotonic() < deadline, rows


def complaints(tab: Tab) -> list[str]:
    """What the console and the log of the browser hold against the pages."""
    thrown = [event["params"] for event in tab.events if event["method"] == "Runtime.exceptionThrown"]
    errors = [
        event["params"]
        for event in tab.events
        if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "assert")
    ]
    logged = [event["params"]["entry"] for event in tab.events if event["method"] == "Log.entryAdded"]
    return [json.dumps(one) for one in [*thrown, *errors, *(one for one in logged if one["level"] == "error")]]


def test_a_wrong_password_shows_nothing(in_browser: InBrowser, address: str) -> None:
    async def look(tab: Tab) -> tuple[list[int], str, bool]:
        statuses = await sign_in(tab, address, "wrong")
        return (
            statuses,
            await value(tab, "document.body.innerText"),
            await value(tab, "!!document.querySelector('table')"),
        )

    statuses, text, has_table = in_browser(look)
    assert statuses
    assert set(statuses) == {401}
    # A browser that asks nobody for another password shows the refusal, or an empty page.
    assert text.strip() in ("", "Flower wants the user and password that `ddqueue flower` was started with.")
    assert not has_table


def test_a_running_sweep_is_read_in_a_row_and_cannot_be_touched(
    in_browser: InBrowser, installation: Installation, address: str, tmp_path: Path
) -> None:
    sweep = installation.submit(sweep_text("night", points=POINTS))
    installation.start_all(HOST)
    (job,) = installation.jobs(sweep)

    async def look(tab: Tab) -> None:
        assert (await sign_in(tab, address, PASSWORD))[-1] == 200
        running = await row_when(tab, address, lambda row: row["state"] == "MEASURE")
        assert running["name"] == "night@1 kimi-k2.6"
        assert running["args"] == f"job {job['job_id']} on {HOST}: TP8 b8 t4 w2048"
        assert re.fullmatch(r"measure C=\d+ (4k|60) repeat \d+", running["result"])
        assert running["received"] == "a few seconds ago" or "minute" in running["received"]
        (tmp_path / "running.png").write_bytes(await tab.screenshot())

        assert len(await value(tab, HEADS)) == len(COLUMNS)
        hidden = await value(tab, HIDDEN.replace("READABLE", str(READABLE)))
        assert hidden["page"] <= hidden["window"] == DESKTOP_PX
        assert (hidden["beyond"], hidden["cut"], hidden["beside"]) == ([], [], [])
        assert complaints(tab) == []
        await nothing_can_be_changed(tab, address)

        assert [one["state"] for one in await asyncio.to_thread(installation.wait_final, sweep)] == ["succeeded"]
        ended = await row_when(tab, address, lambda row: row["state"] == "SUCCESS")
        assert (ended["args"], ended["result"]) == (running["args"], "succeeded")
        (tmp_path / "ended.png").write_bytes(await tab.screenshot())

    in_browser(look)


async def nothing_can_be_changed(tab: Tab, address: str) -> None:
    """No button offers it, and the browser, which has signed in, is refused it."""
    (task_id,) = await value(tab, "fetch('/api/tasks').then(answer => answer.json()).then(Object.keys)")
    for page in (f"/task/{task_id}", f"/worker/gpu@{HOST}", "/workers", "/broker", "/tasks"):
        await tab.open(f"http://{address}{page}")
        offered = [text for text in await value(tab, BUTTONS) if CONTROLS.search(text)]
        assert offered == [], page
    paths = [
        f"/api/task/revoke/{task_id}?terminate=true",
        f"/api/task/abort/{task_id}",
        "/api/task/async-apply/ddqueue.run_job",
        f"/api/task/rate-limit/ddqueue.run_job?workername=gpu@{HOST}&ratelimit=1",
        f"/api/worker/shutdown/gpu@{HOST}",
        f"/api/worker/pool/restart/gpu@{HOST}",
        f"/api/worker/pool/shrink/gpu@{HOST}?n=1",
        f"/api/worker/queue/cancel-consumer/gpu@{HOST}?queue=gpu.{HOST}",
    ]
    refused = await value(tab, POSTS.replace("PATHS", json.dumps(paths)))
    assert [(path, status) for path, status, _ in refused] == [(path, 403) for path in paths]
    assert all("ddqueue cancel" in text for *_, text in refused)


CONTROLS = re.compile(r"revoke|terminate|abort|shut|restart|grow|shrink|autoscale|rate|time ?out|consumer|apply", re.I)
"""Words on a button that would change something."""
