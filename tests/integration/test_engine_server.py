"""A server's start, its proof of identity, its log and its end, with real processes on real ports."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from engine_world import HOST, LIMITS, TREE, EngineWorld, listens
from sim_server import wait_until

from ddqueue.domain.configuration import Cell
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import EngineProfile
from ddqueue.engine import launcher
from ddqueue.engine import output as output_module
from ddqueue.engine.http import ask
from ddqueue.engine.output import MIB, BoundedLog
from ddqueue.engine.server import SglangServer
from ddqueue.processes import become_subreaper, carriers

IMPATIENT = replace(LIMITS, no_progress_s=1.0, compile_s=30.0)


@pytest.fixture
def world(tmp_path: Path) -> EngineWorld:
    # As the attempt process does: whatever a server leaves behind is re-parented here.
    become_subreaper()
    return EngineWorld(tmp_path)


def test_a_start_is_told_phase_by_phase(world: EngineWorld) -> None:
    with world.simulated() as server:
        assert world.wait(server)[-2:] == ["serving", "first generation"]
        assert {"serving", "first generation"} <= {phase for phase, _ in world.told}
        assert server.confirm().difference == {}
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert 20_000 <= server.port < 32_000
        assert server.stop() == "clean"
        assert server.stop() == "clean"
    world.nothing_is_left()


def test_health_is_not_enough_a_generation_is(world: EngineWorld) -> None:
    with world.scripted("late-health") as server:
        assert world.wait(server)[-1] == "first generation"
    assert world.told[-1][0] == "first generation"


@pytest.mark.parametrize(
    ("script", "failure", "words"),
    [
        ("endless-generation", Failure.READY_TIMEOUT, "no progress for 1 s, in phase 'first generation'"),
        ("no-tokens", Failure.SERVER_STALLED, "the first generation failed: 200: "),
        ("stuck-bar", Failure.CAPTURE_HANG, "no progress for 1 s, in phase 'capture graphs' at 4% 1/23"),
        ("only-503", Failure.READY_TIMEOUT, "no progress for 1 s"),
        ("dead-child", Failure.MODEL_NOT_FOUND, "429 Client Error: Too Many Requests"),
        ("traceback-and-exit", Failure.SERVER_CRASHED, "exit code 1: RuntimeError: the model fell over"),
        ("another-port", Failure.PORT_BUSY, "19999"),
    ],
)
def test_a_start_that_fails_says_why(world: EngineWorld, script: str, failure: Failure, words: str) -> None:
    world.limits = IMPATIENT
    with world.scripted(script) as server:
        found = world.failure(server)
    assert (found.failure, words in found.evidence) == (failure, True), found
    assert found.may_pass == ("429" in found.evidence), "only a hub that is busy may answer next time"
    world.nothing_is_left()


def test_slow_is_not_stuck(world: EngineWorld) -> None:
    world.limits = replace(IMPATIENT, no_progress_s=2.0)
    with world.scripted("slow-bar") as server:
        assert "capture graphs" in world.wait(server)
    assert ("capture graphs", "32% 8/23 bs=8") in world.told or ("capture graphs", "32% 8/23") in world.told


def test_the_total_limit_ends_what_still_moves(world: EngineWorld) -> None:
    world.limits = replace(IMPATIENT, no_progress_s=20.0, total_s=1.0)
    with world.scripted("slow-bar") as server:
        found = world.failure(server)
    assert (found.failure, "not ready after 1 s" in found.evidence) == (Failure.READY_TIMEOUT, True)


def test_a_compiler_that_runs_makes_silence_work(world: EngineWorld) -> None:
    world.limits = IMPATIENT
    with world.scripted("compiling") as server:
        assert world.wait(server)[-1] == "first generation"
    assert any("compiling" in text for _, text in world.told)


def test_compiling_has_a_limit_of_its_own(world: EngineWorld) -> None:
    world.limits = replace(IMPATIENT, compile_s=2.0)
    with world.scripted("compiling-for-ever") as server:
        found = world.failure(server)
    assert (found.failure, "no progress for 2 s" in found.evidence) == (Failure.JIT_TIMEOUT, True)


def test_a_traceback_that_was_survived_is_not_the_end(world: EngineWorld) -> None:
    world.limits = replace(LIMITS, fatal_s=0.5)
    with world.scripted("survived-traceback") as server:
        assert world.wait(server)[-1] == "first generation"


def test_whoever_waits_can_stop_the_wait(world: EngineWorld) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        if any(phase == "first generation" for phase, _ in world.told):
            raise Stopped

    with world.scripted("endless-generation") as server, pytest.raises(Stopped):
        world.wait(server, stop)


def wait_for_end(pid: int) -> None:
    """Until the process is a zombie: whoever waits for the server is still to find that out."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@contextmanager
def listening(port: int, **answers: object) -> Iterator[int]:
    """Somebody else's server on this port, in a process of its own; yields its pid."""
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import scripted_server as s;"
        f"sys.argv += ['--port', '{port}', '--weight-version', 'x']; s.answer(**{answers!r}); print('up', flush=True);"
        "time.sleep(3600)"
    )
    folder = str(Path(__file__).parents[1])
    process = subprocess.Popen([sys.executable, "-S", "-c", code, folder], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("answers", [{"tag": "an-older-attempt"}, {"knows": False}, {"health": 503}])
def test_a_server_we_did_not_start_is_named_and_left_alone(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, answers: dict[str, object]
) -> None:
    """It answers while ours still loads: an older SGLang, something else, an SGLang that is not ready."""
    world.limits = replace(LIMITS, children_s=0.2)
    port = launcher.free_port()
    monkeypatch.setattr(launcher, "free_port", lambda: port)
    with listening(port, **answers) as pid:
        with world.scripted("loading") as server:
            found = world.failure(server)
            how = server.stop()
        words = f"port {port} is held by pid {pid} ("
        assert (found.failure, found.evidence.startswith(words)) == (Failure.PORT_BUSY, True), found
        assert how.startswith(words)
        assert listens(port)
        os.kill(pid, 0)


def test_a_server_that_lost_its_port_says_to_whom(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    port = launcher.free_port()
    monkeypatch.setattr(launcher, "free_port", lambda: port)
    world.limits = replace(LIMITS, children_s=0.2)
    with listening(port) as pid, world.scripted("ready") as server:
        wait_for_end(server.pid)
        found = world.failure(server)
    assert found.failure is Failure.PORT_BUSY
    assert "Address already in use; " in found.evidence
    assert f"port {port} is held by pid {pid} (" in found.evidence


def test_an_old_tag_on_our_own_port_is_refused(world: EngineWorld) -> None:
    with world.simulated("wrong-tag=stale") as server:
        found = world.failure(server)
    assert (found.failure, "'stale', not 'ddqueue-7-3'" in found.evidence) == (Failure.PORT_BUSY, True)


def test_the_end_is_forced_on_a_server_that_ignores_it(world: EngineWorld) -> None:
    world.limits = replace(LIMITS, stop_s=0.3, children_s=0.3)
    with world.scripted("deaf") as server:
        world.wait(server)
        how = server.stop()
        assert how.startswith("SIGTERM was not enough in 0.3 s; killed pid")
        assert not listens(server.port)
    world.nothing_is_left()


def test_what_left_the_session_is_ended_too(world: EngineWorld) -> None:
    world.limits = replace(LIMITS, children_s=0.5)
    with world.scripted("leaves-a-sleeper") as server:
        world.wait(server)
        assert listens(server.port + 1)
        how = server.stop()
        assert "killed pid" in how
        assert not listens(server.port)
        assert not listens(server.port + 1)
    world.nothing_is_left()


def test_a_rank_that_dies_alone_is_named_and_nobody_waits_for_the_others(world: EngineWorld) -> None:
    with world.scripted("two-ranks") as server:
        world.wait(server)
        server.watch()
        pids = {title: pid for (pid, _), title in server.family.ranks().items()}
        os.kill(pids["sglang::scheduler_TP1"], signal.SIGKILL)
        found = until_given_up(server)
        server.check_alive()
        assert found.failure is Failure.SERVER_CRASHED
        assert f"sglang::scheduler_TP1 (pid {pids['sglang::scheduler_TP1']}) ended, and 1 s later" in found.evidence
        assert "TP0" not in found.evidence
        assert server.stop().startswith("it was dying, and did not end; killed pid")
    world.nothing_is_left()


def test_a_server_that_says_it_ends_and_waits_for_core_dumps_is_ended(world: EngineWorld) -> None:
    with world.scripted("waits-for-core-dumps") as server:
        world.wait(server)
        found = until_given_up(server)
        assert (found.failure, "it said that it would end" in found.evidence) == (Failure.SERVER_CRASHED, True)
    world.nothing_is_left()


def test_a_server_that_serves_is_never_given_up(world: EngineWorld) -> None:
    world.limits = replace(LIMITS, fatal_s=0.0)
    with world.simulated() as server:
        world.wait(server)
        for _ in range(20):
            server.watch()
            time.sleep(0.1)
        assert server.stop() == "clean"


def until_given_up(server: SglangServer) -> AttemptFailure:
    """What `watch` raises at last."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        try:
            server.watch()
        except AttemptFailure as failure:
            return failure
        time.sleep(0.1)
    raise AssertionError("nobody noticed")


def test_a_server_that_cannot_be_started_is_a_bad_argument(world: EngineWorld) -> None:
    profile = EngineProfile("gone", {"*": ("/no/such/python", "-m", "sglang.launch_server")})
    with pytest.raises(AttemptFailure) as raised, world.launched(profile, Cell("m", "gone")):
        pass
    assert raised.value.failure is Failure.BAD_ARGS
    assert "/no/such/python: No such file or directory" in raised.value.evidence


def test_a_flush_waits_until_the_server_is_idle(world: EngineWorld) -> None:
    with world.scripted("busy-at-first") as server:
        world.wait(server)
        server.flush_cache()
        server.log.read()
        refused = server.log.tail[-3:]
    assert [line.rsplit(" ", 1)[1] for line in refused] == ["400", "400", "200"]


def test_a_flush_that_never_happens_fails_the_point(world: EngineWorld) -> None:
    world.limits = replace(LIMITS, flush_s=0.3)
    with world.scripted("always-busy") as server:
        world.wait(server)
        with pytest.raises(AttemptFailure, match=r"could not be flushed: busy for 0.3 s") as raised:
            server.flush_cache()
    assert raised.value.failure is Failure.SERVER_STALLED


def test_what_the_server_compiles_while_it_serves_is_counted(world: EngineWorld) -> None:
    with world.scripted("compiles-when-asked") as server:
        world.wait(server)
        before = server.compilations()
        assert before >= 1, "its first generation"
        assert server.compilations() == before
        ask(server.url, "POST", "/generate", {"text": "a", "sampling_params": {"max_new_tokens": 4}})
        wait_until(lambda: server.compilations() == before + 1, "the log never said so")


def test_two_hundred_mib_of_output_neither_block_nor_stay(world: EngineWorld) -> None:
    path = world.folder / "server.log"
    with world.scripted("noisy") as server:
        world.wait(server)
        wait_until(lambda: b"the last line" in end_of(path), "the server was blocked by its own output")
        assert server.stop() == "clean"
    assert path.stat().st_size < 20 * MIB
    text = path.read_bytes()
    assert text.startswith(b"[2026-11-29 11:46:10] the first line\n")
    assert b"the last line" in text[-4096:]
    assert b"\n[ddqueue left out 1" in text
    assert b"\0" not in text


def end_of(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return file.read()


def test_a_growing_log_keeps_its_ends_only(tmp_path: Path) -> None:
    output = BoundedLog(tmp_path / "log", head_bytes=MIB, tail_bytes=MIB, check_every_s=0.01)
    block = b"." * 4096
    for _ in range(30 * MIB // len(block)):
        os.write(output.fd, block)
    wait_until(lambda: output.path.stat().st_blocks * 512 < 4 * MIB, "the middle stayed on disk")
    assert output.path.stat().st_size == 30 * MIB
    output.close()
    output.close()
    assert 2 * MIB < output.path.stat().st_size < 4 * MIB


def test_where_there_are_no_holes_the_log_is_cut_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, offset: int, length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "no holes here")

    monkeypatch.setattr(output_module, "_punch_hole", refuse)
    output = BoundedLog(tmp_path / "log", head_bytes=MIB, tail_bytes=MIB, check_every_s=0.01)
    os.write(output.fd, b"first" + b"." * (10 * MIB))
    wait_until(lambda: output.path.stat().st_size == MIB, "the log was not cut back")
    os.write(output.fd, b"last")
    output.close()
    text = output.path.read_bytes()
    assert (text[:5], text[-4:], len(text)) == (b"first", b"last", MIB + 4)


def test_a_short_log_is_left_as_it_is(tmp_path: Path) -> None:
    output = BoundedLog(tmp_path / "log")
    os.write(output.fd, b"short\n")
    output.close()
    assert output.path.read_bytes() == b"short\n"


def test_a_real_build_gets_caches_that_last_and_a_person_has_the_last_word(world: EngineWorld) -> None:
    names = ("TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "SGLANG_DG_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    code = f"import os; print(*(os.environ[name] for name in {names!r}), sep='\\n')"
    profile = EngineProfile(
        "build", {"*": (sys.executable, "-S", "-c", code)}, env={"TORCHINDUCTOR_CACHE_DIR": "/elsewhere"}
    )
    with world.launched(profile, Cell("m", "build")) as server:
        world.failure(server)
    folder = world.folder / "caches" / HOST.name / "build"
    assert (world.folder / "server.log").read_text().splitlines() == [
        str(folder / "triton"),
        str(folder / "flashinfer"),
        str(folder / "deep-gemm"),
        "/elsewhere",
    ]
    assert (folder / "triton").is_dir()


def test_the_processes_carry_the_mark_and_no_secret(world: EngineWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDQUEUE_DATABASE_URL", "postgresql://u:secret@h/d")
    with world.simulated(cell=TREE) as server:
        world.wait(server)
        assert server.pid in carriers("DDQUEUE_LOCK", str(world.folder / "locks" / f"{HOST.name}.lock"))
        assert os.getsid(server.pid) == server.pid
        assert b"DDQUEUE_DATABASE_URL" not in Path(f"/proc/{server.pid}/environ").read_bytes()
