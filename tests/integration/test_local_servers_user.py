"""The embedded servers for somebody who is not root."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE_S = 60.0
"""Only a test that would hang reaches it."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@as_root
def test_an_ordinary_user_has_servers_of_its_own(open_folder: Path) -> None:
    user = pwd.getpwnam("nobody")
    environment = {"PATH": f"{os.defpath}:/usr/sbin:/sbin"}
    python = as_ordinary_user(user, environment)
    home = open_folder / "ordinary"
    home.mkdir()
    os.chown(home, user.pw_uid, user.pw_gid)
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "import psycopg\n"
        "from ddqueue.local.record import read_record\n"
        "from ddqueue.local.servers import running, start, stop\n"
        "home = Path(sys.argv[1])\n"
        "servers = start(home)\n"
        "record = read_record(home / 'run' / 'servers.json')\n"
        "owners = {os.stat(f'/proc/{process.pid}').st_uid\n"
        "          for process in (record.supervisor, record.postgres, record.valkey)}\n"
        "with psycopg.connect(servers.database_url) as connection:\n"
        "    answer = connection.execute('SELECT 40 + 2').fetchone()[0]\n"
        "print(owners == {os.geteuid()}, answer, stop(home), running(home))\n"
    )
    result = subprocess.run(
        [*python, "-c", script, str(home / "queue")],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert result.stdout == "True 42 True None\n", result.stderr


def as_ordinary_user(user: pwd.struct_passwd, environment: dict[str, str]) -> list[str]:
    """The start of a command line that runs this interpreter as `user`.

    Where the interpreter lies below a closed folder, as under /root, the user gets the one capability of passing
    through folders; it still owns nothing but its own files, and may not change users.
    """
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    passing = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    for command in ([*become, sys.executable], [*become, *passing, sys.executable]):
        tried = subprocess.run(
            [*command, "-c", "import ddqueue, psycopg, redis"], env=environment, cwd="/", capture_output=True
        )
        if tried.returncode == 0:
            return command
    pytest.skip(f"{user.pw_name} cannot run {sys.executable}: {tried.stderr.decode()}")
