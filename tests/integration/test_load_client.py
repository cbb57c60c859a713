"""The real load client, a process of its own, against a server of known timing that keeps its own truth."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from ddqueue.domain.client_bound import client_trouble
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.measurement import Invalid, PointRun
from ddqueue.domain.metrics.summary import measure
from ddqueue.domain.sweep import Point
from ddqueue.errors import UsageError
from ddqueue.measure.limits import Limits
from ddqueue.measure.load import TICK_S
from ddqueue.measure.process import ClientProcess

SERVER = Path(__file__).parents[1] / "known_timing_server.py"
TAG = "known-timing"
QUICK = ("--first-token-s", "0.02", "--gap-s", "0.002")
SHORT = Limits(connect_s=5, first_token_s=5, idle_s=2, total_s=30)

Serve = Callable[..., str]


def go_on() -> None:
    """Nothing asks this run to stop."""


@contextmanager
def server(*options: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(SERVER), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().split()[1]}"
        finally:
            process.kill()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server with these options; returns its URL."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(server(*options))


def truth(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url + "/truth") as answer:
        told: dict[str, Any] = json.load(answer)
    return told


def one_run(url: str, point: Point, limits: Limits | None = None, requests: int | None = None) -> PointRun:
    with ClientProcess(requests, limits) as client:
        return client.run(url, point, 0, "salt", go_on)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_numbers_are_the_servers_own(serve: Serve, concurrency: int) -> None:
    url = serve()
    run = one_run(url, Point(concurrency, 60, 64))
    measured, told = measure(run, TAG), truth(url)["requests"]
    assert measured.valid
    assert (measured.requests_completed, len(told)) == (concurrency, concurrency)
    assert {request["prompt_tokens"] for request in told} == {60}
    assert (measured.prompt_tokens, measured.output_tokens) == (60 * concurrency, 64 * concurrency)

    # What follows from the records alone is exact.
    assert [tokens for _, tokens in run.requests[0].arrivals] == list(range(4, 65, 4))
    assert (measured.acceptance_length, measured.verifies) == (4.0, 15 * concurrency)
    assert measured.draft_histogram == (0, 0, 0, 15 * concurrency)
    assert measured.itl_ms is not None
    assert measured.step_time_ms == pytest.approx(4 * measured.itl_ms.mean)
    assert measured.output_throughput_tok_s == pytest.approx(64 * concurrency / measured.wall_s)

    # Times are compared with the server's own, which slows down with this machine just as the client does.
    sent = [request["sent"] for request in told]
    first_ms = fmean(request["sent"][0][0] - request["received"] for request in told) * 1000
    per_token_ms = fmean((at[-1][0] - at[0][0]) / 60 for at in sent) * 1000
    wall_s = max(at[-1][0] for at in sent) - min(request["received"] for request in told)
    assert measured.ttft_ms is not None
    assert measured.ttft_ms.mean == pytest.approx(first_ms, rel=0.25)
    assert measured.itl_ms.mean == pytest.approx(per_token_ms, rel=0.25)
    assert measured.wall_s == pytest.approx(wall_s, rel=0.25)
    assert run.client["in_flight_mean"] == pytest.approx(concurrency, rel=0.25)


def test_requests_beyond_the_concurrency_reuse_its_connections_and_are_sent_once(serve: Serve) -> None:
    url = serve(*QUICK)
    run = one_run(url, Point(4, 60, 8), requests=10)
    told = truth(url)
    assert measure(run, TAG).valid
    assert [request.index for request in run.requests] == list(range(10))
    # One connection for the tokenizer, one for asking the truth.
    assert (told["attempts"], told["connections"]) == (10, 4 + 2)


def test_one_process_serves_every_run_and_no_prompt_comes_twice(serve: Serve) -> None:
    url = serve(*QUICK)
    point = Point(4, 60, 32)
    with ClientProcess() as client:
        warm = client.run(url, point, 0, "salt", go_on, warm_up=True)
        pid = client.pid
        runs = [client.run(url, point, repeat, "salt", go_on) for repeat in range(2)]
        assert client.pid == pid
        assert pid is not None
    assert not Path(f"/proc/{pid}").exists()
    assert [request.output_tokens for request in warm.requests] == [16] * 4
    assert (warm.point.output, runs[1].point, runs[1].repeat) == (16, point, 1)
    assert runs[0].client["prompts"] == "text"
    assert len({tuple(request["input_ids_head"]) for request in truth(url)["requests"]}) == 12


def test_a_server_without_a_tokenizer_gets_random_ids_of_the_same_length(serve: Serve) -> None:
    url = serve("--no-tokenizer", *QUICK)
    run = one_run(url, Point(2, 33, 8))
    assert run.client["prompts"] == "random ids"
    assert [request.prompt_tokens for request in run.requests] == [33, 33]


def test_prompts_are_cut_from_a_persons_own_text(serve: Serve, tmp_path: Path) -> None:
    url = serve(*QUICK)
    text = tmp_path / "prompts.txt"
    text.write_text(" ".join("abcdefghijklmnopqrstuvwxyz"[: index % 26 + 1] for index in range(400)))
    with ClientProcess() as client:
        run = client.run(url, Point(8, 20, 8), 1, "salt", go_on, False, str(text))
    assert run.client["prompts"] == "own text"
    assert [request.prompt_tokens for request in run.requests] == [20] * 8
    heads = {tuple(request["input_ids_head"]) for request in truth(url)["requests"]}
    assert len(heads) > 1, "each begins at a place of its own"


@pytest.mark.parametrize(
    ("size", "options", "failure", "words"),
    [
        (None, (), Failure.BAD_ARGS, "cannot be read on this host"),
        (50, (), Failure.BAD_ARGS, "20 tokens need more than 120"),
        (5000, ("--no-tokenizer",), Failure.BAD_ARGS, "the server cannot tokenize"),
    ],
)
def test_a_text_that_cannot_be_used(
    serve: Serve, tmp_path: Path, size: int | None, options: tuple[str, ...], failure: Failure, words: str
) -> None:
    text = tmp_path / "prompts.txt"
    if size is not None:
        text.write_text("word " * (size // 5))
    with ClientProcess() as client, pytest.raises(AttemptFailure, match=words) as refused:
        client.run(serve(*options, *QUICK), Point(1, 20, 8), 1, "salt", go_on, False, str(text))
    assert refused.value.failure is failure


@pytest.mark.parametrize("mode", ["split", "plain", "empty-last", "no-waits"])
def test_every_framing_gives_the_same_answer(serve: Serve, mode: str) -> None:
    measured = measure(one_run(serve("--mode", mode, *QUICK), Point(3, 60, 30)), TAG)
    assert measured.reasons == ()
    assert (measured.output_tokens, measured.acceptance_length) == (90, 4.0)


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("error-object", "ServerError: CUDA error: out of memory"),
        ("no-done", "ClosedEarly: the connection closed after 2 events without [DONE]"),
        ("silent", "IdleTimeout: silent for 2 s after the answer had begun"),
        ("unavailable", 'HttpError: 503 {"error": {"message": "Server is starting\\u0000"}}'),
        (
            "bad-request",
            'HttpError: 400 {"error": {"message": "The input (36000 tokens) is longer than the model\'s context."}}',
        ),
        ("malformed", "MalformedAnswer: event 3 is not JSON"),
        ("abort", "ServerError: aborted: Aborted by the scheduler"),
    ],
)
def test_one_failed_request_is_named_and_the_others_are_reported(serve: Serve, mode: str, error: str) -> None:
    url = serve("--mode", mode, "--faulty", "1", *QUICK)
    run = one_run(url, Point(8, 60, 24), limits=SHORT)
    failed = [request for request in run.requests if request.error is not None]
    assert len(failed) == 1
    assert (failed[0].error or "").startswith(error)
    assert truth(url)["attempts"] == 8
    measured = measure(run, TAG)
    assert measured.reasons == (Invalid.REQUESTS_FAILED,)
    assert (measured.requests_completed, measured.output_tokens) == (7, 7 * 24)
    assert measured.output_throughput_tok_s is not None


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        run = one_run(f"http://127.0.0.1:{taken.getsockname()[1]}", Point(3, 60, 8))
    assert [(request.error or "").partition(":")[0] for request in run.requests] == ["ConnectionRefusedError"] * 3
    measured = measure(run, TAG)
    assert measured.reasons == (Invalid.REQUESTS_FAILED, Invalid.NO_TOKENS)
    assert measured.output_throughput_tok_s is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--tokens", "1"), Invalid.SHORT_OUTPUT),
        (("--tokens", "12"), Invalid.SHORT_OUTPUT),
        (("--tag", "somebody-elses"), Invalid.WRONG_SERVER),
        (("--cached", "58"), Invalid.CACHED_PREFIX),
    ],
)
def test_an_answer_that_must_not_count_is_named(serve: Serve, options: tuple[str, str], reason: Invalid) -> None:
    assert measure(one_run(serve(*options, *QUICK), Point(2, 60, 16)), TAG).reasons == (reason,)


def test_when_every_request_fails_no_number_is_made_up(serve: Serve) -> None:
    url = serve("--mode", "unavailable")
    measured = measure(one_run(url, Point(32, 60, 16)), TAG)
    assert measured.reasons == (Invalid.REQUESTS_FAILED, Invalid.NO_TOKENS)
    assert (measured.requests_completed, measured.requests_failed, truth(url)["attempts"]) == (0, 32, 32)
    assert (measured.output_throughput_tok_s, measured.total_throughput_tok_s, measured.step_time_ms) == (None,) * 3
    assert (measured.ttft_ms, measured.itl_ms, measured.tpot_ms, measured.e2e_ms) == (None,) * 4
    assert (measured.cached_share, measured.acceptance_length, measured.draft_histogram) == (None,) * 3


def test_one_field_that_is_no_number_is_named_and_the_others_stay(serve: Serve) -> None:
    measured = measure(one_run(serve("--mode", "not-finite", *QUICK), Point(2, 60, 16)), TAG)
    assert measured.reasons == (Invalid.NOT_FINITE,)
    assert {request.not_finite for request in measured.requests} == {("cached_tokens",)}
    assert measured.cached_share is None
    assert (measured.output_tokens, measured.acceptance_length) == (32, 4.0)


def test_the_window_is_told_in_the_clock_that_every_process_of_the_host_shares(serve: Serve) -> None:
    url = serve(*QUICK)
    before = time.monotonic()
    run = one_run(url, Point(2, 60, 16))
    after = time.monotonic()
    assert run.started_s is not None
    assert before <= run.started_s
    assert run.started_s + run.wall_s <= after
    # Whatever a machine does, nothing is received before it was sent.
    for asked in truth(url)["requests"]:
        assert run.started_s <= asked["received"]
    first_sent = min(asked["sent"][0][0] for asked in truth(url)["requests"])
    assert min(request.arrivals[0][0] for request in run.requests) + run.started_s >= first_sent - 1e-6


def test_a_client_that_stood_still_inside_its_window_is_found_out(serve: Serve) -> None:
    url = serve("--gap-s", "0.05")
    stopped_s = 1.0
    with ClientProcess() as client:
        stopped: list[int] = []

        def stand_still_once_it_streams() -> None:
            requests = truth(url)["requests"]
            if not stopped and client.pid is not None and any(request["sent"] for request in requests):
                stopped.append(client.pid)
                os.kill(client.pid, signal.SIGSTOP)
                time.sleep(stopped_s)
                os.kill(client.pid, signal.SIGCONT)

        run = client.run(url, Point(2, 60, 256), 0, "salt", stand_still_once_it_streams)
    assert stopped
    # A poll would have ended by itself after a twentieth of a second.
    assert float(run.client["loop_lag_max_ms"]) >= (stopped_s - TICK_S) * 1000
    assert "did not look at its connections" in str(client_trouble(run))


def test_a_baseline_has_no_acceptance(serve: Serve) -> None:
    run = one_run(serve("--tokens-per-chunk", "1", *QUICK), Point(2, 60, 16))
    measured = measure(run, TAG, baseline=True)
    assert measured.valid
    assert (measured.acceptance_length, measured.verifies) == (None, None)
    assert measured.itl_ms is not None
    assert measured.step_time_ms == measured.itl_ms.mean


class Cancelled(Exception):
    """What this test's should_stop raises."""


def test_a_stop_is_passed_on_and_leaves_no_process(serve: Serve) -> None:
    url = serve("--mode", "silent", *QUICK)
    with ClientProcess() as client:
        pids: list[int | None] = []

        def stop_once_it_streams() -> None:
            pids.append(client.pid)
            if truth(url)["attempts"] == 2:
                raise Cancelled

        with pytest.raises(Cancelled):
            client.run(url, Point(2, 60, 16), 0, "salt", stop_once_it_streams)
        assert client.pid is None
    assert not Path(f"/proc/{pids[-1]}").exists()


def test_a_client_that_dies_is_an_infrastructure_failure_and_the_next_run_has_a_new_one(serve: Serve) -> None:
    url = serve(*QUICK)
    with ClientProcess() as client:
        client.run(url, Point(1, 60, 8), 0, "salt", go_on)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(AttemptFailure, match=r"the load client ended .*exit status -9") as caught:
            client.run(url, Point(1, 60, 8), 1, "salt", go_on)
        assert caught.value.failure is Failure.INFRA
        assert measure(client.run(url, Point(1, 60, 8), 2, "salt", go_on), TAG).valid


def test_an_address_that_cannot_be_used_is_the_persons_mistake_and_starts_nothing() -> None:
    with ClientProcess() as client:
        with pytest.raises(UsageError, match="http://HOST:PORT"):
            client.run("https://x", Point(1, 60, 8), 0, "salt", go_on)
        assert client.pid is None


@pytest.mark.parametrize("line", ["nonsense", "{}", '{"url": "https://x", "concurrency": 1}', "[]"])
def test_the_client_refuses_what_it_does_not_understand(line: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ddqueue.measure.client"], input=line, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("not a run request: ")
    assert "Traceback" not in done.stderr


def test_the_client_goes_when_its_parent_does(serve: Serve) -> None:
    url = serve("--mode", "silent", *QUICK)
    code = (
        "from ddqueue.measure.process import ClientProcess\n"
        "from ddqueue.domain.sweep import Point\n"
        "client = ClientProcess()\n"
        "def tell():\n"
        "    print(client.pid, flush=True)\n"
        f"client.run({url!r}, Point(2, 60, 16), 0, 'salt', tell)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        while truth(url)["attempts"] < 2:
            time.sleep(0.02)
        parent.kill()
    while Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.02)


def test_the_client_answers_a_line_by_hand(serve: Serve) -> None:
    asked = {
        "url": serve(*QUICK),
        "concurrency": 2,
        "context": 20,
        "output": 8,
        "requests": 2,
        "repeat": 0,
        "salt": "s",
    }
    done = subprocess.run(
        [sys.executable, "-m", "ddqueue.measure.client"], input=json.dumps(asked), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [request["output_tokens"] for request in json.loads(done.stdout)["requests"]] == [8, 8]
