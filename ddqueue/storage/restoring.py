"""The one transaction in which a backup takes the place of everything: pg_restore's script, run by psql."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import IO

from ddqueue.errors import DdqueueError
from ddqueue.storage.dispatching import LEADER_LOCK
from ddqueue.storage.postgres_tools import PostgresTools, Target, why_it_ended

LEFT_BEHIND = 100_000
"""How far fences and attempts jump: more than can have been given between a backup and its restore."""


def run_restore(to: Target, file: Path, tools: PostgresTools) -> None:
    """Raises DdqueueError when anything goes wrong; nothing was changed then."""
    # What is in the schema: the schema itself is there.
    wanted = ["--schema=public", "--no-owner", "--no-privileges"]
    reading = [tools.program("pg_restore"), *wanted, "--exit-on-error", "--file=-", str(file)]
    variables = {
        "ON_ERROR_STOP": "1",
        "VERBOSITY": "terse",
        "leader_lock": str(LEADER_LOCK),
        "left_behind": str(LEFT_BEHIND),
    }
    writing = [
        *(tools.program("psql"), "--no-psqlrc", "--quiet", "--output=/dev/null", "--dbname", to.url, "--file=-"),
        *(f"--set={name}={value}" for name, value in variables.items()),
    ]
    with (
        tempfile.TemporaryFile() as reader_said,
        tempfile.TemporaryFile() as writer_said,
        subprocess.Popen(writing, stdin=subprocess.PIPE, stderr=writer_said, env=dict(to.environment)) as psql,
        subprocess.Popen(reading, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=reader_said) as pg_restore,
    ):
        if psql.stdin is None or pg_restore.stdout is None:
            raise TypeError("both programs have a pipe")
        try:
            psql.stdin.write(_script("restore_begins") + _script("drop_everything"))
            shutil.copyfileobj(pg_restore.stdout, psql.stdin)
            # The script alone would be committed as far as it came: the end is ours, and only for one that was whole.
            if pg_restore.wait() == 0:
                psql.stdin.write(_script("restore_ends"))
            psql.stdin.close()
        except BrokenPipeError:  # psql has given up, and says why
            pg_restore.kill()
        psql_code = psql.wait()
        if psql_code or pg_restore.wait():
            why = _said(writer_said if psql_code else reader_said)
            raise DdqueueError(f"the database was not changed: {to.hide(why)}")


def _script(name: str) -> bytes:
    return files("ddqueue.storage").joinpath("sql", f"{name}.sql").read_bytes()


def _said(log: IO[bytes]) -> str:
    log.seek(0)
    return why_it_ended(log.read())
