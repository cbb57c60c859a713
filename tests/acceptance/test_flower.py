"""Flower as a person uses it: a real server, a real worker, a running attempt; over HTTP as a browser asks."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from installation import PATIENCE_S, Installation, sweep_text
from ruamel.yaml import YAML

from ddqueue.domain.queueing import NextJob
from ddqueue.queue.app import make_app
from ddqueue.queue.events import EventSender
from ddqueue.queue.flower import COLUMNS, RUNTIME_BUCKETS_S
from ddqueue.queue.wakeups import CeleryWakeups

HOST = "sim-rtx6000"
USER, PASSWORD = "night-shift", "correct,horse=battery"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Browser:
    """Asks one Flower; answers are (status, text)."""

    url: str
    authorization: str | None = None

    def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        headers = {} if self.authorization is None else {"Authorization": self.authorization}
        request = urllib.request.Request(self.url + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def json(self, path: str) -> Any:
        status, text = self.ask(path)
        assert status == 200, text
        return json.loads(text)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def start_flower(installation: Installation) -> tuple[subprocess.Popen[bytes], Browser]:
    process = installation.start("flower", "--port", "0")
    log = max(installation.home.glob("flower-port-0-*.log"), key=lambda path: path.stat().st_mtime_ns)
    url = eventually(lambda: re.search(r"Flower is at (http://127\.0\.0\.1:\d+)/", log.read_text()), log.read_text)[1]
    return process, Browser(url, basic(USER, PASSWORD))


def eventually(look: Callable[[], Any], logs: Callable[[], str]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, logs()
        time.sleep(0.2)
    return found


@pytest.fixture
def flower(installation: Installation) -> Iterator[Browser]:
    installation.set("DDQUEUE_FLOWER_USER", USER)
    installation.set("DDQUEUE_FLOWER_PASSWORD", PASSWORD)
    _, browser = start_flower(installation)
    return browser


def test_no_start_without_a_password(installation: Installation) -> None:
    refused = installation.run("flower", code=2)
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert "set DDQUEUE_FLOWER_USER (or DDQUEUE_FLOWER_USER_FILE) and DDQUEUE_FLOWER_PASSWORD (or" in refused.stderr
    half = installation.run("flower", code=2, DDQUEUE_FLOWER_USER="somebody")
    assert "set DDQUEUE_FLOWER_PASSWORD (or DDQUEUE_FLOWER_PASSWORD_FILE)" in half.stderr


@pytest.mark.parametrize("path", ["/", "/tasks", "/api/tasks", "/metrics", "/broker", "/static/css/flower.css", "/no"])
def test_every_page_wants_the_right_password(flower: Browser, path: str) -> None:
    wrong = [
        None,
        basic(USER, "wrong"),
        basic("other", PASSWORD),
        # A list of logins divided by commas would hold this one.
        basic("horse=battery", ""),
        basic(USER, "pässword"),
        "Basic !!!",
        "Bearer " + basic(USER, PASSWORD).split()[1],
    ]
    assert [Browser(flower.url, header).ask(path)[0] for header in wrong] == [401] * len(wrong)
    assert flower.ask(path)[0] == (404 if path == "/no" else 200)
    assert Browser(flower.url).ask("/healthcheck") == (200, "OK")


def running_row(installation: Installation, flower: Browser, sweep: str) -> dict[str, Any]:
    """The one task of the sweep, once it shows that it measures."""

    def look() -> dict[str, Any] | None:
        rows = [row for row in flower.json("/api/tasks").values() if row["name"].startswith(sweep)]
        return rows[0] if rows and rows[0]["state"] == "MEASURE" else None

    found = eventually(look, lambda: f"{flower.json('/api/tasks')}\n{installation.logs()}")
    assert isinstance(found, dict)
    return found


LONG = ["{concurrency: 1, context: 4096, output: 256}"]


def test_a_running_attempt_can_be_read_and_not_be_touched(installation: Installation, flower: Browser) -> None:
    sweep = installation.submit(sweep_text("watched", points=LONG))
    installation.start_all(HOST)
    row = running_row(installation, flower, sweep)
    (job,) = installation.jobs(sweep)
    assert row["name"] == "watched@1 kimi-k2.6"
    assert row["args"] == f"job {job['job_id']} on {HOST}: TP8 b8 t4 w2048"
    assert re.fullmatch(r"measure C=1 4k repeat \d", row["result"])

    _page_shows(flower, row)
    _nothing_can_be_changed(flower, row["uuid"])
    assert [one["state"] for one in installation.wait_final(sweep)] == ["succeeded"]

    done = eventually(
        lambda: [one for one in flower.json("/api/tasks").values() if one["state"] == "SUCCESS"], installation.logs
    )
    assert [one["uuid"] for one in done] == [row["uuid"]]


def test_a_wake_up_that_nobody_takes_is_no_row(flower: Browser, redis_url: str) -> None:
    app = make_app(redis_url)
    for number in range(3):
        CeleryWakeups(app).wake(NextJob(number, HOST, "night@2", "kimi-k2.6", "b8 t4 w2048", "EP8"))

    def told() -> dict[str, Any]:
        # Sent after the wake-ups, so that whatever they would show is there by now.
        EventSender(app, "gpu@somewhere").tell("marker", "measure", "after them")
        return flower.json("/api/tasks")  # type: ignore[no-any-return]

    assert list(eventually(told, lambda: "the marker never came")) == ["marker"]


def _page_shows(flower: Browser, row: dict[str, Any]) -> None:
    status, page = flower.ask("/tasks")
    assert status == 200
    heads = re.findall(r'<th data-column="(\w+)">', page)
    assert heads == list(COLUMNS)
    # What the page's own script asks for to fill the table.
    asked = "&".join(f"columns[{number}][data]={name}" for number, name in enumerate(heads))
    path = f"/tasks/datatable?draw=1&start=0&length=10&order[0][column]=4&order[0][dir]=desc&{asked}"
    status, table_text = flower.ask(path, "POST")
    assert status == 200, table_text
    table = json.loads(table_text)
    shown = {one["uuid"]: one for one in table["data"]}[row["uuid"]]
    assert (shown["name"], shown["args"], shown["worker"]) == (row["name"], row["args"], f"gpu@{HOST}")
    assert shown["result"].startswith("measure C=1 4k")
    assert flower.ask(f"/task/{row['uuid']}")[0] == 200


def _nothing_can_be_changed(flower: Browser, task_id: str) -> None:
    refused = [
        f"/api/task/revoke/{task_id}?terminate=true&signal=SIGKILL",
        f"/api/task/abort/{task_id}",
        "/api/task/rate-limit/ddqueue.run_job?workername=gpu@sim-rtx6000&ratelimit=1",
        "/api/task/timeout/ddqueue.run_job?workername=gpu@sim-rtx6000&hard=1",
        "/api/task/send-task/ddqueue.run_job",
        "/api/task/apply/ddqueue.run_job",
        f"/api/worker/shutdown/gpu@{HOST}",
        f"/api/worker/pool/restart/gpu@{HOST}",
        f"/api/worker/pool/grow/gpu@{HOST}?n=3",
        f"/api/worker/queue/cancel-consumer/gpu@{HOST}?queue=gpu.{HOST}",
        "/tasks",
    ]
    for path in refused:
        status, text = flower.ask(path, "POST")
        assert (status, "ddqueue cancel" in text) == (403, True), path
        assert Browser(flower.url).ask(path, "POST")[0] == 401
    assert [flower.ask("/tasks", method)[0] for method in ("PUT", "DELETE", "PATCH", "OPTIONS")] == [403] * 4


def test_no_page_and_no_process_list_tells_a_secret(
    installation: Installation, flower: Browser, redis_url: str
) -> None:
    installation.start("worker", "--host", HOST)
    eventually(lambda: f"gpu@{HOST}" in flower.json("/api/workers?refresh=true"), installation.logs)
    pages = "".join(flower.ask(path)[1] for path in ("/", "/broker", f"/worker/gpu@{HOST}", "/api/workers", "/tasks"))
    assert f"gpu.{HOST}" in pages
    secret = urllib.request.urlparse(redis_url).password or "no password"  # type: ignore[attr-defined]
    assert secret not in pages
    assert PASSWORD not in pages
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.name != str(os.getpid())]
    ours = [line for line in lines if b"flower" in line]
    assert len(ours) >= 1
    assert not [line for line in ours if secret.encode() in line or PASSWORD.encode() in line]


def saved_whole(folder: Path, since: float) -> bool:
    """Whether a save begun after `since` is complete: Flower writes beside the old files, then replaces each."""
    found = list(folder.iterdir())
    written = [path.stat().st_mtime for path in found if ".tmp" not in path.name]
    return bool(written) and len(written) == len(found) and min(written) > since


def test_what_was_seen_outlives_a_kill(installation: Installation, redis_url: str) -> None:
    secret = installation.home / "flower-password"
    secret.write_text(PASSWORD + "\n")
    secret.chmod(0o600)
    installation.set("DDQUEUE_FLOWER_USER", USER)
    installation.set("DDQUEUE_FLOWER_PASSWORD_FILE", str(secret))
    process, browser = start_flower(installation)
    sweep = installation.submit(sweep_text("remembered"))
    installation.start_all(HOST)
    installation.wait_final(sweep)

    def ended(browser: Browser) -> list[str]:
        return [one["args"] for one in browser.json("/api/tasks").values() if one["state"] == "SUCCESS"]

    (seen,) = eventually(lambda: ended(browser), installation.logs)
    saved = installation.home / "flower"
    before = time.time()
    eventually(lambda: saved_whole(saved, before), installation.logs)
    assert {path.stat().st_mode & 0o077 for path in [saved, *saved.iterdir()]} == {0}
    process.send_signal(signal.SIGKILL)
    process.wait()
    again, browser = start_flower(installation)
    assert ended(browser) == [seen]
    again.terminate()
    assert again.wait(60) == 0


def test_metrics_are_those_that_the_documents_and_the_dashboard_name(
    installation: Installation, flower: Browser
) -> None:
    sweep = installation.submit(sweep_text("counted"))
    installation.start_all(HOST)
    installation.wait_final(sweep)
    finished = f'flower_events_total{{task="counted@1 kimi-k2.6",type="task-succeeded",worker="gpu@{HOST}"}} 1.0'
    text = eventually(lambda: (got := flower.ask("/metrics")[1]) and finished in got and got, installation.logs)
    assert isinstance(text, str)
    limits = re.findall(r'flower_task_runtime_seconds_bucket\{le="([\d.]+)"', text)
    assert [float(limit) for limit in limits] == list(RUNTIME_BUCKETS_S)
    known = set(re.findall(r"^(?:# TYPE )?(flower_\w+)", text, re.MULTILINE))
    for document in ("docs/live-view.md", "deploy/grafana-dashboard.json", "deploy/prometheus.yml"):
        named = set(re.findall(r"\bflower_[a-z_]+\b", (ROOT / document).read_text()))
        assert named <= known, document
        assert named or document.endswith("prometheus.yml")


def test_the_examples_of_a_deployment_can_be_read() -> None:
    scrape = YAML(typ="safe").load((ROOT / "deploy" / "prometheus.yml").read_text())["scrape_configs"][0]
    assert (scrape["metrics_path"], set(scrape["basic_auth"])) == ("/metrics", {"username", "password_file"})
    assert scrape["static_configs"][0]["targets"] == ["127.0.0.1:5555"]
    panels = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == 6
    for panel in panels:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert all("flower_" in target["expr"] for target in panel["targets"])
