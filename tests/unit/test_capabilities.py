"""What a build is asked, how its answer is read, and when it need not be asked again. The interpreters are real
processes: scripts that print a captured usage, and the simulated server's own."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.preflight.build import Build
from ddqueue.engine.capabilities import BuildReader, can_start, interpreter_of, package_of
from ddqueue.engine.usage import flags_of
from ddqueue.processes import carriers

CAPTURED = Path(__file__).parents[1] / "data" / "logs" / "sglang-0.5.15" / "badflag.log"
SIM = (sys.executable, "-m", "ddqueue.sim.server")
PROBE = Path(sys.modules[BuildReader.__module__].__file__ or "").with_name("build_probe.py")


# Reading a usage


def test_a_captured_usage_of_a_real_build() -> None:
    flags = flags_of(CAPTURED.read_text())
    assert len(flags) == 439
    for name in ("model-path", "tp-size", "ep-size", "weight-version", "cuda-graph-max-bs-decode", "cuda-graph-max-bs"):
        assert flags[name] == ()
    assert flags["speculative-algorithm"] == ()
    assert flags["load-format"][:3] == ("auto", "pt", "safetensors")
    assert flags["lora-target-modules"][-1] == "all"
    assert {"no-lora-strict-loading", "model-checksum", "metrics-host"} <= set(flags)
    # What was complained of is not what there is.
    assert "speculative-ddtree-budget" not in flags


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="server", description="Not --this-one.")
    made.add_argument("--model-path", "--model", required=True, help="Use --gone-flag no more.")
    made.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=1)
    made.add_argument("--speculative-algorithm", choices=["EAGLE", "DFLASH"], help="One of them, see --hidden-help.")
    made.add_argument("--levels", nargs="*", choices=["a", "b"])
    made.add_argument("--on", "-o", action="store_true", help="x")
    made.add_argument("--both", action=argparse.BooleanOptionalAction)
    made.add_argument("--secret", help=argparse.SUPPRESS)
    made.add_argument_group("more").add_argument("--in-group", metavar="{PLACE}")
    return made


def test_aliases_and_choices_in_a_full_help() -> None:
    assert flags_of(parser().format_help()) == {
        "help": (),
        "model-path": (),
        "model": (),
        "tensor-parallel-size": (),
        "tp-size": (),
        "speculative-algorithm": ("EAGLE", "DFLASH"),
        "levels": ("a", "b"),
        "on": (),
        "both": (),
        "no-both": (),
        "in-group": ("PLACE",),
    }


@pytest.mark.parametrize(
    "text", ["", "Traceback (most recent call last):\n  x --flag", "\0\xff garbage --flag", "usage:"]
)
def test_a_text_without_a_usage(text: str) -> None:
    assert flags_of(text) == {}


@given(st.text() | st.text(alphabet="usage: -{}[]ab,\n").map("usage: ".__add__))
def test_no_text_makes_it_raise(text: str) -> None:
    assert all(name and not name.startswith("-") for name in flags_of(text))


# Asking a build


class FakeBuild:
    """A `python` that answers the probe with `identity` and --help with `help_text`, and counts how often."""

    def __init__(self, folder: Path, body: str = "") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.identity: dict[str, object] = {"version": "0.5.15", "torch": "2.11.0", "cuda": "13.0", "stamp": [1]}
        (folder / "help.txt").write_text(CAPTURED.read_text())
        script = folder / "python3"
        script.write_text(
            f"#!/bin/sh\ncd {folder}\n"
            'if [ "$1" = -c ]; then echo probe >> asked; cat identity.json; exit 0; fi\n'
            f"echo help >> asked\n{body or 'cat help.txt; exit 0'}\n"
        )
        script.chmod(0o755)
        self.command = (str(script), "-m", "sglang.launch_server")

    def ask(self, reader: BuildReader, environment: Mapping[str, str] | None = None) -> Build:
        (self.folder / "identity.json").write_text("a line of some import's\n" + json.dumps(self.identity))
        return reader.ask(self.command, environment or {})

    @property
    def helped(self) -> int:
        return (self.folder / "asked").read_text().split().count("help")


def test_a_build_is_asked_once_and_again_when_its_installation_changes(tmp_path: Path) -> None:
    fake, told = FakeBuild(tmp_path / "bin"), list[str]()
    reader = BuildReader(tmp_path / "kept", tell=told.append)
    first = fake.ask(reader)
    assert (first.version, first.torch, first.cuda, first.revision) == ("0.5.15", "2.11.0", "13.0", None)
    assert "weight-version" in first.flags
    assert fake.ask(reader) == first
    assert fake.ask(BuildReader(tmp_path / "kept")) == first
    assert fake.helped == 1
    assert told == [f"asking {fake.command[0]} which flags it has; the answer is kept"]

    fake.identity["stamp"] = [2]
    fake.ask(reader)
    assert fake.helped == 2
    fake.identity["version"] = "0.5.16"
    assert fake.ask(reader).version == "0.5.16"
    assert fake.helped == 3
    other = FakeBuild(tmp_path / "other")
    other.ask(reader)
    assert other.helped == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"flags": 3}', b"\xff\xfe", b'{"version": 1, "flags": {"a": 1}}']
)
def test_a_kept_answer_that_something_else_wrote_is_asked_again(tmp_path: Path, content: bytes) -> None:
    fake, reader = FakeBuild(tmp_path / "bin"), BuildReader(tmp_path / "kept")
    first = fake.ask(reader)
    [kept] = (tmp_path / "kept").iterdir()
    kept.write_bytes(content)
    assert fake.ask(reader) == first
    assert fake.helped == 2
    assert fake.ask(reader) == first
    assert fake.helped == 2


def test_where_nothing_can_be_kept_the_answer_still_counts(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where a folder should be")
    fake, reader = FakeBuild(tmp_path / "bin"), BuildReader(tmp_path / "kept")
    assert fake.ask(reader).flags
    assert fake.ask(reader).flags
    assert fake.helped == 2


def test_a_build_that_nobody_can_identify_is_asked_every_time(tmp_path: Path) -> None:
    fake = FakeBuild(tmp_path / "bin")
    script = tmp_path / "serve"
    script.write_text(f"#!/bin/sh\n{fake.command[0]} --help\n")
    script.chmod(0o755)
    reader = BuildReader(tmp_path / "kept")
    for _ in range(2):
        build = reader.ask((str(script),), {})
        assert (build.version, build.problem) == (None, "")
        assert "tp-size" in build.flags
    assert fake.helped == 2


def test_a_help_that_hangs_is_ended_with_its_children_and_asked_again(tmp_path: Path) -> None:
    fake = FakeBuild(tmp_path / "bin", "sleep 1000 & wait")
    reader = BuildReader(tmp_path / "kept", limit_s=0.5)
    build = fake.ask(reader, {"FAKE_BUILD_MARK": str(tmp_path)})
    assert build.problem == f"{fake.command[0]} gave no usage within 0.5 s"
    assert build.flags == {}
    deadline = time.monotonic() + 30
    while carriers("FAKE_BUILD_MARK", str(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not (tmp_path / "kept").exists()


def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        if (tmp_path / "bin/asked").exists() and fake.helped:
            raise Stopped

    fake = FakeBuild(tmp_path / "bin", "sleep 1000")
    with pytest.raises(Stopped):
        fake.ask(BuildReader(tmp_path / "kept", should_stop=stop))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("head -c 20000 /dev/urandom; exit 0", "gave no usage (exit code 0)"),
        ("exit 0", "gave no usage (exit code 0): it printed nothing"),
        ("echo 'RuntimeError: no driver' >&2; exit 1", "gave no usage (exit code 1): RuntimeError: no driver"),
    ],
)
def test_an_answer_that_is_no_usage(tmp_path: Path, body: str, problem: str) -> None:
    build = FakeBuild(tmp_path / "bin", body).ask(BuildReader(tmp_path / "kept"))
    assert problem in build.problem
    assert build.version == "0.5.15"
    assert not list((tmp_path / "kept").glob("*"))


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    command = (str(tmp_path / "bin/python"), "-m", "sglang.launch_server")
    assert not can_start(command)
    with pytest.raises(AttemptFailure, match=r"cannot start .*: No such file or directory") as caught:
        BuildReader(tmp_path / "kept").ask(command, {})
    assert caught.value.failure is Failure.BAD_ARGS


def test_a_package_that_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(AttemptFailure, match="No module named 'nosuchpackage'") as caught:
        BuildReader(tmp_path / "kept").ask((sys.executable, "-m", "nosuchpackage.launch_server"), {})
    assert caught.value.failure is Failure.BAD_ARGS


def test_the_interpreter_and_the_package_of_a_command(tmp_path: Path) -> None:
    script = tmp_path / "sglang"
    script.write_text("#!/opt/sglang/bin/python3.12\n")
    script.chmod(0o755)
    assert interpreter_of(("/opt/x/bin/python3.12", "-m", "sglang.launch_server")) == "/opt/x/bin/python3.12"
    assert interpreter_of((str(script), "serve")) == "/opt/sglang/bin/python3.12"
    assert interpreter_of(("/bin/sh", "-c", "true")) is None
    assert interpreter_of((str(tmp_path / "gone"),)) is None
    assert package_of(("python", "-u", "-m", "sglang.launch_server")) == "sglang"
    assert package_of((str(script), "serve")) == "sglang"


# The simulated server, and the probe itself


def test_the_simulated_server_answers_like_any_build(tmp_path: Path) -> None:
    reader = BuildReader(tmp_path / "kept")
    build = reader.ask(SIM, {"DDQUEUE_SIM_BOX": "no such box"})
    assert build.problem == ""
    assert build.version == "0.1.0"
    aliases = {"tp-size", "tensor-parallel-size", "cuda-graph-max-bs", "speculative-dflash-block-size"}
    assert aliases | {"model-path", "speculative-ddtree-budget", "weight-version", "sim-fault"} <= set(build.flags)
    assert "tp" not in build.flags
    assert reader.ask(SIM, {}) == build
    assert len(list((tmp_path / "kept").iterdir())) == 1


def probe(package: str, path: Path) -> dict[str, object]:
    words = [sys.executable, "-c", PROBE.read_text(), package]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": str(path)}, capture_output=True, check=True, cwd=path)
    return dict(json.loads(done.stdout))


def install(path: Path, package: str, release: str, **files: str) -> Path:
    """A package as an installer leaves it. Importing it would raise."""
    (path / package).mkdir(parents=True)
    (path / package / "__init__.py").write_text("raise SystemExit('imported')")
    metadata = path / f"{package}-{release}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {release}\n")
    for name, text in files.items():
        (path / package / f"{name}.py").write_text(text)
    return metadata


def test_the_probe_imports_nothing_and_reads_versions(tmp_path: Path) -> None:
    metadata = install(tmp_path, "madeupengine", "0.5.15", _version="__commit_id__ = commit_id = 'g1ba1089'\n")
    install(tmp_path, "torch", "2.11.0+cu130", version="__version__ = '2.11.0'\ncuda: Optional[str] = '13.0'\n")
    install(tmp_path, "nvidia_nccl_cu13", "2.28.9")
    found = probe("madeupengine", tmp_path)
    stamp = found.pop("stamp")
    versions = {"version": "0.5.15", "torch": "2.11.0+cu130", "cuda": "13.0", "nccl": "2.28.9"}
    assert found == {**versions, "revision": "g1ba1089"}

    # Another file in the folder changes nothing, an installation does.
    (tmp_path / "madeupengine/new.py").write_text("")
    assert probe("madeupengine", tmp_path)["stamp"] == stamp
    os.utime(metadata, ns=(1, 1))
    assert probe("madeupengine", tmp_path)["stamp"] != stamp


def test_the_probe_of_a_wheel_from_a_commit(tmp_path: Path) -> None:
    metadata = install(tmp_path, "madeupengine", "0.5.15")
    (metadata / "direct_url.json").write_text(json.dumps({"url": "x", "vcs_info": {"vcs": "git", "commit_id": "abc"}}))
    assert probe("madeupengine", tmp_path)["revision"] == "abc"


def test_the_probe_of_an_editable_checkout(tmp_path: Path) -> None:
    metadata = install(tmp_path, "madeupengine", "0.5.15")
    (metadata / "direct_url.json").write_text(json.dumps({"url": "x", "dir_info": {"editable": True}}))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "madeupengine"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    clean = probe("madeupengine", tmp_path)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert clean["revision"] == head

    (tmp_path / "madeupengine/__init__.py").write_text("changed = 1")
    os.utime(tmp_path / "madeupengine/__init__.py", ns=(2**62, 2**62))
    changed = probe("madeupengine", tmp_path)
    assert changed["revision"] == f"{head}-dirty"
    assert changed["stamp"] != clean["stamp"]


def test_the_probe_of_nothing(tmp_path: Path) -> None:
    found = probe("nosuchpackage", tmp_path)
    assert {name: found[name] for name in ("version", "revision")} == {"version": None, "revision": None}
