"""Copies of the whole database, and the way back: whole or not at all, in both directions."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text

from ddqueue.domain.compatibility import SchemaState, refusal
from ddqueue.errors import DdqueueError, SchemaRefused, UsageError
from ddqueue.storage.compatibility import KNOWN, schema_state
from ddqueue.storage.engine import connect, transaction
from ddqueue.storage.postgres_tools import PostgresTools, for_dumping, for_restoring, target, why_it_ended
from ddqueue.storage.restoring import run_restore

_SESSIONS = text("""
    SELECT DISTINCT application_name FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND application_name LIKE 'ddqueue%' AND application_name <> 'ddqueue db'
    ORDER BY application_name
""")
_RELATIONS = text(
    "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v', 'S')"
)
_SERVER = text("SELECT current_setting('server_version_num')::int / 10000")


@dataclass(frozen=True)
class BackupFile:
    """What is in a file: the number of tables, and the schema they are of."""

    size_bytes: int
    tables: int
    state: SchemaState

    @property
    def revision(self) -> str:
        return self.state.revision or "none"

    @property
    def older(self) -> bool:
        """Whether its tables have to be upgraded before this version can work with them."""
        return self.state.revision is None or self.state.revision < KNOWN


def back_up(database_url: str, file: Path, candidates: Sequence[PostgresTools], replace: bool = False) -> BackupFile:
    """Write the database, as it is at one moment, to `file`: beside it first, and renamed once it could be read back.

    Raises:
        UsageError: `file` is there already, cannot be written, the database has no tables of ours, or no pg_dump fits.
        DdqueueError: pg_dump failed; nothing is left.
        NotReachable: Postgres does not answer.
    """
    if file.exists() and not replace:
        raise UsageError(f"{file} is there already; name another file, or add --force")
    here = _look(database_url)
    if here.state.revision is None:
        raise UsageError("the database has no tables of ddqueue: there is nothing to back up")
    tools = for_dumping(candidates, here.server_major)
    draft = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        _dump(database_url, draft, tools)
        found = read_backup(draft, tools)
        draft.replace(file)
        _sync_folder(file.parent)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
    return found


def restore(database_url: str, file: Path, candidates: Sequence[PostgresTools], replace: bool = False) -> BackupFile:
    """Put what `file` holds in the place of everything that the database holds, in one transaction.

    Raises:
        UsageError: the file is no whole backup of ddqueue; the database holds something and `replace` was not said; a
            program of ours is at work on it; or there is no pg_restore.
        SchemaRefused: the file is of a newer ddqueue that this one cannot work with.
        DdqueueError: the server refused it; nothing was changed.
        NotReachable: Postgres does not answer.
    """
    here = _look(database_url)
    tools = for_restoring(candidates, here.server_major)
    found = read_backup(file, tools)
    why_not = refusal(KNOWN, found.state)
    if why_not is not None and not found.older:
        raise SchemaRefused(f"{file} is of a newer ddqueue than this one: {why_not}")
    if here.sessions:
        raise UsageError(f"still at work on the database: {', '.join(here.sessions)}; stop the workers and dispatchers")
    if here.relations and not replace:
        raise UsageError(
            f"the database is not empty: it holds {here.sweeps} sweeps; to give them up for what is in {file}, add "
            "--replace (`ddqueue db backup` first keeps them)"
        )
    run_restore(target(database_url), file, tools)
    return found


def read_backup(file: Path, tools: PostgresTools) -> BackupFile:
    """Read the file from its beginning to its end. Raises UsageError when it is not a whole backup of ddqueue."""
    listed = _pg_restore(tools, file, "--list")
    tables = re.findall(r" TABLE DATA public (\S+) ", listed)
    if "schema_compatibility" not in tables or "alembic_version" not in tables:
        raise UsageError(f"{file} is no backup of ddqueue: it lacks its tables")
    # Every row is unpacked once: a file that was cut off has a whole table of contents.
    _pg_restore(tools, file, "--file=/dev/null")
    rows = {
        table: _pg_restore(tools, file, "--data-only", f"--table={table}", "--file=-")
        for table in ("alembic_version", "schema_compatibility")
    }
    revisions = re.findall(r"^(\d{4})$", rows["alembic_version"], re.MULTILINE)
    oldest = re.findall(r"^t\t(\d{4})$", rows["schema_compatibility"], re.MULTILINE)
    if len(revisions) != 1 or len(oldest) != 1:
        raise UsageError(f"{file} is no backup of ddqueue: it does not say of which revision it is")
    return BackupFile(file.stat().st_size, len(tables), SchemaState(revisions[0], oldest[0]))


def _pg_restore(tools: PostgresTools, file: Path, *options: str) -> str:
    done = subprocess.run([tools.program("pg_restore"), *options, str(file)], capture_output=True, check=False)
    if done.returncode:
        raise UsageError(f"{file} is no whole backup: {why_it_ended(done.stderr)}")
    return done.stdout.decode("utf-8", "replace")


def _dump(database_url: str, draft: Path, tools: PostgresTools) -> None:
    """Without owners and grants, so that it can be restored under another role."""
    to = target(database_url)
    words = [tools.program("pg_dump"), "--format=custom", "--no-owner", "--no-privileges", "--schema=public"]
    # Made here, for the sake of its mode. pg_dump opens it by its name: into its standard output it would write the
    # table of contents twice.
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    done = subprocess.run(
        [*words, f"--file={draft}", "--dbname", to.url],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=dict(to.environment),
        check=False,
    )
    if done.returncode:
        raise DdqueueError(f"the database could not be backed up: {to.hide(why_it_ended(done.stderr))}")
    with draft.open("rb") as written:
        os.fsync(written.fileno())


@dataclass(frozen=True)
class _Here:
    server_major: int
    state: SchemaState
    relations: int
    sweeps: int
    sessions: tuple[str, ...]


def _look(database_url: str) -> _Here:
    sql_engine = connect(database_url, "ddqueue db")
    try:
        state = schema_state(sql_engine)
        with transaction(sql_engine) as connection:
            return _Here(
                server_major=connection.execute(_SERVER).scalar_one(),
                state=state,
                relations=connection.execute(_RELATIONS).scalar_one(),
                sweeps=connection.execute(text("SELECT count(*) FROM sweeps")).scalar_one() if state.revision else 0,
                sessions=tuple(connection.execute(_SESSIONS).scalars()),
            )
    finally:
        sql_engine.dispose()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
