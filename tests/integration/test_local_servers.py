"""The embedded servers as real processes: started, killed, stopped, and started again."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from click.testing import CliRunner

from ddqueue.cli.servers import down, up
from ddqueue.errors import DdqueueError, UsageError
from ddqueue.local import locks
from ddqueue.local.home import Home
from ddqueue.local.record import Record, read_record
from ddqueue.local.servers import LocalServers, ephemeral, running, start, stop

PATIENCE_S = 60.0
"""Only a test that would hang reaches it."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def home(open_folder: Path) -> Iterator[Path]:
    path = open_folder / uuid.uuid4().hex[:8]
    yield path
    stop(path)


def wait_until(what: str, holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {PATIENCE_S:.0f} s in vain until {what}")
        time.sleep(0.05)


def record_of(home: Path) -> Record:
    record = read_record(Home(home).record)
    assert record is not None
    return record


def store(servers: LocalServers, value: str) -> None:
    with psycopg.connect(servers.database_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (value text)")
        connection.execute("INSERT INTO kept VALUES (%s)", (value,))
    with redis.Redis.from_url(servers.redis_url) as client:
        client.rpush("kept", value)


def stored(servers: LocalServers) -> tuple[list[str], list[str]]:
    with psycopg.connect(servers.database_url) as connection:
        rows = [row[0] for row in connection.execute("SELECT value FROM kept ORDER BY value")]
    with redis.Redis.from_url(servers.redis_url, decode_responses=True) as client:
        return rows, sorted(client.lrange("kept", 0, -1))


def all_gone(home: Path) -> bool:
    """Every process of both servers inherited its lock, so free locks mean that none is left."""
    place = Home(home)
    return all(locks.wait_until_free(lock, 0) for lock in (place.postgres_lock, place.valkey_lock))


def test_a_second_start_finds_the_data_of_the_first_at_the_same_addresses(home: Path) -> None:
    assert running(home) is None
    first = start(home)
    assert running(home) == first
    store(first, "one")
    assert stop(home) is True
    assert running(home) is None
    assert all_gone(home)

    second = start(home)
    assert second == first
    assert stored(second) == (["one"], ["one"])


def test_starting_twice_starts_once_and_stopping_twice_stops_once(home: Path) -> None:
    first = start(home)
    before = record_of(home)
    assert start(home) == first
    assert record_of(home) == before
    assert stop(home) is True
    assert stop(home) is False


def test_two_callers_at_once_share_one_supervisor(home: Path) -> None:
    script = "import sys; from pathlib import Path; from ddqueue.local.servers import start; start(Path(sys.argv[1]))"
    callers = [subprocess.Popen([sys.executable, "-c", script, str(home)]) for _ in range(3)]
    assert [caller.wait(PATIENCE_S) for caller in callers] == [0, 0, 0]
    record = record_of(home)
    assert record.is_alive()
    supervisors = [pid for pid in processes_with(str(home)) if "ddqueue.local.supervisor" in command_of(pid)]
    assert supervisors == [record.supervisor.pid]


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_has_a_database_and_a_broker_of_its_own(database_url: str, redis_url: str, turn: int) -> None:
    servers = LocalServers(database_url, redis_url)
    store(servers, f"turn {turn}")
    assert stored(servers) == ([f"turn {turn}"], [f"turn {turn}"])
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


@pytest.mark.parametrize("victim", ["postgres", "valkey"])
def test_a_killed_server_comes_back_with_its_data(home: Path, victim: str) -> None:
    servers = start(home)
    store(servers, "before the kill")
    before = record_of(home)
    os.kill(getattr(before, victim).pid, signal.SIGKILL)

    wait_until("the killed server is back", lambda: (now := read_record(Home(home).record)) and now != before)
    after = record_of(home)
    assert getattr(after, victim) != getattr(before, victim)
    assert after.supervisor == before.supervisor
    again = running(home)
    assert again == servers
    assert stored(again) == (["before the kill"], ["before the kill"])
    evidence = Home(home).supervisor_log.read_text()
    assert "was ended by SIGKILL" in evidence


def test_a_backend_that_outlives_its_killed_postmaster_delays_the_restart(home: Path) -> None:
    """Two postmasters on one cluster would destroy it; the orphan computes on without looking at its parent."""
    servers = start(home)
    store(servers, "kept")
    before = record_of(home)
    with psycopg.connect(servers.database_url) as connection:
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        try:
            os.kill(before.postgres.pid, signal.SIGKILL)
            wait_until("the supervisor noticed", lambda: not Home(home).record.exists())
            with pytest.raises(locks.Held):
                locks.hold(Home(home).postgres_lock, wait_s=1.0)
            assert running(home) is None
        finally:
            os.kill(backend, signal.SIGCONT)
    wait_until("Postgres is back", lambda: running(home))
    assert stored(start(home)) == (["kept"], ["kept"])


def test_killing_the_supervisor_ends_both_and_the_next_start_works(home: Path) -> None:
    servers = start(home)
    store(servers, "kept")
    before = record_of(home)
    os.kill(before.supervisor.pid, signal.SIGKILL)
    wait_until("both servers ended by themselves", lambda: all_gone(home))
    assert not before.postgres.is_alive()
    assert not before.valkey.is_alive()
    assert running(home) is None

    again = start(home)
    assert again == servers
    assert stored(again) == (["kept"], ["kept"])


def test_everything_killed_at_once_starts_again(home: Path) -> None:
    servers = start(home)
    store(servers, "kept")
    before = record_of(home)
    for process in (before.supervisor, before.postgres, before.valkey):
        os.kill(process.pid, signal.SIGKILL)
    # The kernel takes a moment to end a process; until then they do run.
    wait_until("the first of them is dead", lambda: not before.is_alive())
    again = start(home)
    assert again == servers
    assert stored(again) == (["kept"], ["kept"])


def test_a_pid_file_that_names_a_stranger_does_not_stop_postgres(home: Path) -> None:
    start(home)
    stop(home)
    data = home / "postgres" / "data"
    owner = data.stat()
    # A living process of the servers' own user is the case that Postgres takes for another postmaster.
    credentials = {"user": owner.st_uid} if os.geteuid() == 0 else {}
    stranger = subprocess.Popen(["/bin/sleep", "600"], cwd="/", **credentials)
    try:
        pid_file = data / "postmaster.pid"
        pid_file.write_text(f"{stranger.pid}\n{data}\n1700000000\n5432\n\n127.0.0.1\n\nready\n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        start(home)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    assert "stale postmaster.pid" in Home(home).supervisor_log.read_text()


def test_stopping_a_supervisor_that_is_not_ready_yet(home: Path) -> None:
    command = [sys.executable, "-m", "ddqueue.local.supervisor", str(home)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as supervisor:
        draft = home / "postgres" / "data.new"
        wait_until("the cluster is being made", draft.exists)
        os.kill(supervisor.pid, signal.SIGTERM)
        assert supervisor.wait(PATIENCE_S) == 0
    wait_until("initdb is gone", lambda: all_gone(home))
    assert not (home / "postgres" / "data").exists()
    store(start(home), "after all")


def test_two_homes_run_side_by_side(home: Path, open_folder: Path) -> None:
    other = open_folder / uuid.uuid4().hex[:8]
    try:
        mine, theirs = start(home), start(other)
        store(mine, "mine")
        store(theirs, "theirs")
        assert stored(mine) == (["mine"], ["mine"])
        assert stored(theirs) == (["theirs"], ["theirs"])
    finally:
        stop(other)
    assert running(home) == mine


def test_servers_of_the_machine_on_the_usual_ports_do_not_matter(home: Path) -> None:
    with socket.socket() as postgres_port, socket.socket() as redis_port:
        for listener, port in ((postgres_port, 5432), (redis_port, 6379)):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
                listener.listen()
            except OSError:
                continue  # The machine's own server has it, which is just as good.
        servers = start(home)
        store(servers, "apart")
        assert stored(servers) == (["apart"], ["apart"])
        ports = {urlsplit(servers.database_url).port, urlsplit(servers.redis_url).port}
    assert ports.isdisjoint({5432, 6379})
    assert all(port is not None and port < 32768 for port in ports)


def test_a_taken_port_is_exchanged(home: Path) -> None:
    first = start(home)
    stop(home)
    taken = urlsplit(first.redis_url).port
    with socket.create_server(("127.0.0.1", taken)):
        second = start(home)
    assert urlsplit(second.redis_url).port != taken
    assert urlsplit(second.database_url).port == urlsplit(first.database_url).port


def test_passwords_are_needed_and_are_in_no_command_line(home: Path) -> None:
    servers = start(home)
    database, broker = urlsplit(servers.database_url), urlsplit(servers.redis_url)
    assert (database.path, database.username, database.hostname) == ("/ddqueue", "ddqueue", "127.0.0.1")
    assert (broker.path, broker.hostname) == ("/0", "127.0.0.1")
    for secret in (database.password, broker.password):
        assert secret
        assert not [command_of(pid) for pid in every_process() if secret in command_of(pid)]
    for path in (Home(home).secrets, Home(home).record):
        assert path.stat().st_mode & 0o777 == 0o600

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(servers.database_url.replace(str(database.password), "guess"))
    with pytest.raises(redis.AuthenticationError), redis.Redis(port=int(broker.port or 0)) as client:
        client.ping()


def test_the_servers_keep_what_they_acknowledge(home: Path) -> None:
    servers = start(home)
    with psycopg.connect(servers.database_url) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute("SELECT current_setting(%s)", (setting,)).fetchone() == ("on",)
    with redis.Redis.from_url(servers.redis_url, decode_responses=True) as client:
        assert client.config_get("appendonly", "maxmemory-policy") == {
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
        }


def test_a_killed_caller_takes_its_ephemeral_servers_down(home: Path) -> None:
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from ddqueue.local.servers import ephemeral\n"
        "with ephemeral(Path(sys.argv[1])) as servers:\n"
        "    print(servers.database_url, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(home)], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        database_url = caller.stdout.readline().strip()
        with psycopg.connect(database_url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert not all_gone(home)
        caller.kill()
    wait_until("both servers ended by themselves", lambda: all_gone(home))


def test_ephemeral_servers_end_with_the_block_and_are_not_a_strangers_to_stop(home: Path) -> None:
    with ephemeral(home) as servers:
        store(servers, "for a moment")
        assert stored(servers) == (["for a moment"], ["for a moment"])
        with pytest.raises(UsageError, match="another program"):
            stop(home)
        with pytest.raises(UsageError, match="another program"):
            start(home)
    assert all_gone(home)
    assert stop(home) is False


def test_a_start_that_fails_says_why(home: Path) -> None:
    start(home)
    stop(home)
    (home / "postgres" / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(DdqueueError, match="was made by Postgres 12, and the installed one is 18"):
        start(home)


def test_the_commands_say_what_they_did(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDQUEUE_HOME", str(home))
    runner = CliRunner()
    outputs = []
    for command in (up, up, down, down):
        result = runner.invoke(command, [])
        assert result.exit_code == 0, result.output
        outputs.append(result.stdout)
    assert outputs[0].startswith("Postgres and Valkey are up.")
    assert outputs[1].startswith("Postgres and Valkey are already up.")
    assert str(Home(home).record) in outputs[0]
    assert ":***@127.0.0.1:" in outputs[0]
    assert outputs[2] == f"Postgres and Valkey have stopped; their data stays in {home}\n"
    assert outputs[3] == f"not running: {home}\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_foreground_stops_on_a_signal(home: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from ddqueue.cli.servers import up; up()", "--foreground"]
    environment = os.environ | {"DDQUEUE_HOME": str(home)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as foreground:
        wait_until("both serve", lambda: running(home))
        assert record_of(home).supervisor.pid == foreground.pid
        foreground.send_signal(number)
        log = foreground.communicate(timeout=PATIENCE_S)[1]
        assert foreground.returncode == 0
    assert "both servers are ready" in log
    assert all_gone(home)
    assert not Home(home).record.exists()


@as_root
def test_under_root_no_server_runs_as_root(home: Path) -> None:
    start(home)
    record = record_of(home)
    nobody = pwd.getpwnam("nobody").pw_uid
    assert Path(f"/proc/{record.postgres.pid}").stat().st_uid == nobody
    assert Path(f"/proc/{record.valkey.pid}").stat().st_uid == nobody
    assert Path(f"/proc/{record.supervisor.pid}").stat().st_uid == 0


def every_process() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def processes_with(text: str) -> list[int]:
    return [pid for pid in every_process() if text in command_of(pid) and pid != os.getpid()]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
