"""The simulated server against what SGLang 0.5.15 was seen to answer and to log (tests/data/sglang)."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sim_server import DDTREE, SimServer, generation, running

from ddqueue.sim.gpus import SimulatedGpus

DATA = Path(__file__).parent.parent / "data" / "sglang"
REAL: dict[str, Any] = json.loads((DATA / "replies-0.5.15.json").read_text())
DFLASH = (
    *("--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", "/simulated/draft"),
    *("--speculative-num-draft-tokens", "8", "--speculative-draft-window-size", "2048"),
)
ONLY_SIMULATED = {"simulated", "simulation", "speculative_ddtree_budget"}
ONLY_SIMULATED_STATE = {"speculative_ddtree_topk"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimServer]:
    arguments = ("--weight-version", "tag-1", "--served-model-name", "kimi", "--context-length", "16384")
    with running(tmp_path_factory.mktemp("sim"), *DFLASH, *arguments, "--enable-metrics") as one:
        one.wait_ready()
        yield one


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimServer]:
    with running(tmp_path_factory.mktemp("sim")) as one:
        one.wait_ready()
        yield one


def shape(value: Any) -> Any:
    """Keys and kinds of value, all the way down; a list is its first element's kind."""
    if isinstance(value, Mapping):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_a_stream_of_generate(server: SimServer) -> None:
    events = server.events("/generate", generation(64))
    assert events[-1] == b"[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    real = REAL["generate_stream"]
    for ours, theirs in ((chunks[0], real["first"]), (chunks[1], real["second"]), (chunks[-1], real["last"])):
        assert shape(ours) == shape(theirs)
    counts = [chunk["meta_info"]["completion_tokens"] for chunk in chunks]
    assert counts[0] == 1
    assert counts[-1] == 64
    assert counts == sorted(set(counts))
    assert len(counts) < 64, "a chunk carries several tokens under speculation"
    for chunk, following in pairwise(chunks):
        assert following["text"].startswith(chunk["text"])
        assert following["output_ids"][: len(chunk["output_ids"])] == chunk["output_ids"]
        assert chunk["meta_info"]["finish_reason"] is None
        assert len(chunk["output_ids"]) == chunk["meta_info"]["completion_tokens"]
    assert {chunk["meta_info"]["weight_version"] for chunk in chunks} == {"tag-1"}
    assert len({chunk["meta_info"]["id"] for chunk in chunks}) == 1


def test_the_totals_of_an_answer_agree_with_each_other(server: SimServer) -> None:
    meta = server.generate(100)["meta_info"]
    histogram = meta["spec_correct_drafts_histogram"]
    assert meta["spec_verify_ct"] == sum(histogram)
    assert meta["spec_num_correct_drafts"] == sum(drafts * count for drafts, count in enumerate(histogram))
    assert meta["spec_num_proposed_drafts"] == 7 * meta["spec_verify_ct"]
    assert meta["spec_accept_length"] == pytest.approx(100 / meta["spec_verify_ct"])
    assert meta["finish_reason"] == {"type": "length", "length": 100}
    assert meta["request_finished_ts"] - meta["request_received_ts"] == pytest.approx(meta["e2e_latency"])


def test_an_answer_without_speculation_has_no_speculative_fields(baseline: SimServer) -> None:
    baseline.generate(4, "the same prompt")
    again = baseline.generate(4, "the same prompt")
    assert shape(again) == shape(REAL["generate_repeated_baseline"])
    assert (again["meta_info"]["prompt_tokens"], again["meta_info"]["cached_tokens"]) == (3, 2)
    chunks = baseline.events("/generate", generation(5))[:-1]
    assert [json.loads(chunk)["meta_info"]["completion_tokens"] for chunk in chunks] == [1, 2, 3, 4, 5]


def test_an_answer_that_may_stop_by_itself(server: SimServer) -> None:
    body = {"text": "hello", "sampling_params": {"max_new_tokens": 4000, "temperature": 0}}
    first, second = server.json("POST", "/generate", body), server.json("POST", "/generate", body)
    assert first["meta_info"]["finish_reason"]["type"] == "stop"
    assert first["meta_info"]["completion_tokens"] < 4000
    assert first["text"] == second["text"]


def test_a_chat(server: SimServer) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 16}
    answer = server.json("POST", "/v1/chat/completions", body)
    assert shape(answer) == shape(REAL["chat"])
    assert answer["metadata"] == {"weight_version": "tag-1"}
    assert answer["model"] == "kimi"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 16


def test_a_stream_of_chat(server: SimServer) -> None:
    body = {
        "messages": [{"role": "user", "content": "Complete def f(x): please"}],
        "max_tokens": 24,
        "stream_options": {"include_usage": True},
    }
    events = server.events("/v1/chat/completions", body)
    assert events[-1] == b"[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    real = REAL["chat_stream"]
    pairs = (
        (chunks[0], real["first"]),
        (chunks[1], real["second"]),
        (chunks[-2], real["finish"]),
        (chunks[-1], real["usage"]),
    )
    for ours, theirs in pairs:
        assert shape(ours) == shape(theirs)
    text = "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks[:-1])
    whole = server.json("POST", "/v1/chat/completions", body)["choices"][0]["message"]["content"]
    assert text == whole


def test_server_info_has_only_real_names_with_real_kinds(server: SimServer) -> None:
    info = server.json("GET", "/server_info")
    assert info.keys() - REAL["server_info_types"].keys() == ONLY_SIMULATED
    (state,) = info["internal_states"]
    state_types = REAL["server_info_types"] | REAL["internal_state_types"]
    assert state.keys() - state_types.keys() == ONLY_SIMULATED_STATE | {"speculative_ddtree_budget"}
    for values, types in ((info, REAL["server_info_types"]), (state, state_types)):
        differing = {
            name: (type(value).__name__, types[name])
            for name, value in values.items()
            if name in types and "NoneType" not in (type(value).__name__, types[name])
            if {type(value).__name__, types[name]} - {"int", "float"} and type(value).__name__ != types[name]
        }
        assert differing == {}


def test_server_info_says_what_runs_and_that_it_is_simulated(server: SimServer) -> None:
    info = server.json("GET", "/server_info")
    assert info == server.json("GET", "/get_server_info")
    assert info["version"] == "0.5.15-sim"
    assert info["simulated"] is True
    assert info["simulation"]["box"]["name"] == "nvlink"
    assert "not measured" in info["simulation"]["box"]["provenance"]
    assert (info["status"], info["weight_version"], info["served_model_name"]) == ("ready", "tag-1", "kimi")
    asked = {
        "speculative_algorithm": "DFLASH",
        "speculative_num_draft_tokens": 8,
        "speculative_draft_window_size": 2048,
        "speculative_eagle_topk": 1,
        "max_running_requests": 48,
    }
    assert {name: info[name] for name in asked} == asked


def test_a_tree_is_reported_with_its_width(tmp_path: Path) -> None:
    with running(tmp_path, *DDTREE, environment={"SGLANG_DDTREE_MAX_TOPK": "6"}) as one:
        one.wait_ready()
        info = one.json("GET", "/server_info")
        assert (info["speculative_algorithm"], info["speculative_ddtree_budget"]) == ("DDTREE", 8)
        state = info["internal_states"][0]
        assert (state["max_speculative_num_draft_tokens"], state["speculative_ddtree_topk"]) == (9, 6)
        meta = one.generate(64)["meta_info"]
        assert meta["spec_num_proposed_drafts"] == 8 * meta["spec_verify_ct"]


def test_model_info_and_the_model_list(server: SimServer) -> None:
    assert shape(server.json("GET", "/model_info")) == shape(REAL["model_info"])
    assert [model["id"] for model in server.json("GET", "/v1/models")["data"]] == ["kimi"]


def test_refusals(server: SimServer) -> None:
    for name, body in (
        ("too_long", generation(4, list(range(1, 36_001)))),
        ("bad_temperature", {"text": "x", "sampling_params": {"temperature": -1}}),
    ):
        status, reply = server.ask("POST", "/generate", body)
        assert status == REAL[name][0]
        assert json.loads(reply) == json.loads(REAL[name][1])


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/generate", {}, "Either text or input_ids should be provided"),
        ("/generate", {"input_ids": []}, "input_ids must be a list of integers that is not empty"),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 0}}, "max_new_tokens must be at least 1"),
        ("/generate", generation(20_000), "You requested a total of 20001 tokens: 1 tokens from the input messages"),
        ("/v1/chat/completions", {"messages": []}, "messages must be a list"),
        ("/tokenize", {"prompt": 5}, "prompt must be a string"),
        ("/generate", [], "the body must be a JSON object"),
    ],
)
def test_more_refusals(server: SimServer, path: str, body: Any, words: str) -> None:
    status, reply = server.ask("POST", path, body)
    assert status == 400
    assert words in json.loads(reply)["error"]["message"]


def test_flush(server: SimServer) -> None:
    prompt = list(range(500))
    server.generate(4, prompt)
    assert server.generate(4, prompt)["meta_info"]["cached_tokens"] == 499
    status, reply = server.ask("POST", "/flush_cache")
    assert [status, reply.decode()] == REAL["flush"]
    assert server.generate(4, prompt)["meta_info"]["cached_tokens"] == 0
    assert server.ask("POST", "/abort_request", {"rid": "nobody"}) == (REAL["abort"][0], REAL["abort"][1].encode())


def test_tokens_there_and_back(server: SimServer) -> None:
    reply = server.json("POST", "/tokenize", {"prompt": "hello big world"})
    assert reply == server.json("POST", "/v1/tokenize", {"prompt": "hello big world"})
    assert (reply["count"], len(reply["tokens"]), reply["max_model_len"]) == (3, 3, 16384)
    assert server.generate(4, "hello big world")["meta_info"]["prompt_tokens"] == 3
    assert server.json("POST", "/tokenize", {"prompt": ["a b", "c"]})["count"] == [2, 1]
    answer = server.generate(6)
    assert server.json("POST", "/detokenize", {"tokens": answer["output_ids"]}) == {"text": answer["text"]}


def test_metrics_have_real_names_and_kinds(server: SimServer) -> None:
    text = server.ask("GET", "/metrics")[1].decode()
    types = dict(re.findall(r"# TYPE sglang:(\w+) (\w+)", text))
    assert types
    assert {name: REAL["metric_types"].get(name) for name in types} == types


def test_no_metrics_unless_asked_for(baseline: SimServer) -> None:
    assert baseline.ask("GET", "/metrics")[0] == 404


def test_a_whole_life_in_the_log_in_the_real_order(tmp_path: Path) -> None:
    block16 = (*DFLASH[:5], "16")
    with running(tmp_path, *block16, "--cuda-graph-max-bs", "32") as one:
        one.wait_ready()
        one.ask("GET", "/get_server_info")
        one.ask("GET", "/get_model_info")
        one.generate(200)
        one.ask("POST", "/flush_cache")
        one.process.send_signal(signal.SIGTERM)
        one.wait_exit()
        assert missing("log-dflash-block16.txt", one.log) is None


@pytest.mark.parametrize(
    ("arguments", "extract"),
    [
        ((*DFLASH, "--speculative-eagle-topk", "4", "--speculative-num-steps", "7"), "log-topk-overridden.txt"),
        (("--mem-fraction-static", "0.0005"), "log-kv-too-small.txt"),
        (("--sim-fault", "crash@ready"), "log-scheduler-killed.txt"),
        (("--tp-size", "8"), "log-too-few-gpus.txt"),
    ],
)
def test_troubles_in_the_real_words(tmp_path: Path, arguments: tuple[str, ...], extract: str) -> None:
    SimulatedGpus.create(tmp_path / "gpus", 4, "Simulated GPU", 10_000)
    with running(tmp_path, *arguments, environment={"DDQUEUE_SIM_GPUS": str(tmp_path / "gpus")}) as one:
        if extract == "log-topk-overridden.txt":
            one.wait_ready()
        else:
            one.wait_exit()
        assert missing(extract, one.log) is None


def missing(extract: str, log: str) -> str | None:
    """The first line of the real extract that has no like in `log` after the one before it; None when all have."""
    ours = iter(form(line) for line in re.split(r"[\r\n]", log))
    for line in re.split(r"[\r\n]", (DATA / extract).read_text()):
        wanted = form(line)
        if not any(one.startswith(wanted) for one in ours):
            return line
    return None


def form(line: str) -> str:
    """A line without what differs from run to run: times, numbers, models, paths, the drawn bar."""
    line = line.replace(" ...)", "")
    line = re.sub(r"'[^']*/[^']*'|File \"[^\"]*\"", "PATH", line)
    line = re.sub(r"(type|model)=\w+", r"\1=MODEL", line)
    line = re.sub(r"\|[^|]*\|", "|BAR|", line)
    return re.sub(r"\d+(\.\d+)?", "N", line)
