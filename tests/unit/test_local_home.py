"""The folder of the embedded servers: owners, modes, passwords, and files that are whole or absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddqueue.errors import DdqueueError, UsageError
from ddqueue.local import passwords
from ddqueue.local.account import Account, server_account
from ddqueue.local.files import last_lines, write_private
from ddqueue.local.home import Home

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_are_closed_to_others(open_folder: Path) -> None:
    home = Home(open_folder / "closed" / "home")
    home.prepare(server_account())
    home.prepare(server_account())
    assert [mode(folder) for folder in (home.run, home.logs, home.postgres, home.valkey)] == [0o700] * 4


@as_root
def test_under_root_only_the_data_is_the_accounts_and_a_strict_umask_does_not_lock_it_out(open_folder: Path) -> None:
    account = server_account()
    assert account is not None
    home = Home(open_folder / "strict" / "umask")
    before = os.umask(0o077)
    try:
        home.prepare(account)
    finally:
        os.umask(before)
    assert account.first_closed_folder(home.path) is None
    assert [folder.stat().st_uid for folder in (home.postgres, home.valkey)] == [account.uid] * 2
    assert [folder.stat().st_uid for folder in (home.path, home.run, home.logs)] == [0] * 3


@as_root
def test_a_folder_that_the_account_cannot_enter_is_refused_before_anything_is_made(open_folder: Path) -> None:
    closed = open_folder / "private"
    closed.mkdir(mode=0o700)
    with pytest.raises(UsageError, match=rf"{closed} cannot be entered by `nobody`") as error:
        Home(closed / "home").prepare(server_account())
    assert "DDQUEUE_HOME" in str(error.value)
    assert list(closed.iterdir()) == []


@as_root
def test_another_users_folder_is_refused(open_folder: Path) -> None:
    home = Home(open_folder / "given-away")
    home.prepare(server_account())
    os.chown(home.postgres, 12345, 12345)
    with pytest.raises(UsageError, match="belongs to uid 12345"):
        home.prepare(server_account())


def test_a_place_that_is_a_file_is_refused_with_a_remedy(open_folder: Path) -> None:
    file = open_folder / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="set DDQUEUE_HOME"):
        Home(file / "home").prepare(server_account())


@pytest.mark.parametrize(
    ("owner", "group", "mode_bits", "passable"),
    [
        (7001, 1, 0o100, True),
        (7001, 1, 0o011, False),
        (1, 7002, 0o010, True),
        (1, 7002, 0o101, False),
        (1, 1, 0o001, True),
        (1, 1, 0o770, False),
    ],
)
@as_root
def test_who_may_enter_goes_by_the_first_class_that_fits(
    open_folder: Path, owner: int, group: int, mode_bits: int, passable: bool
) -> None:
    folder = open_folder / f"{owner}-{group}-{mode_bits:o}"
    folder.mkdir()
    os.chown(folder, owner, group)
    folder.chmod(mode_bits)
    closed = Account("somebody", 7001, 7002).first_closed_folder(folder / "below")
    assert closed == (None if passable else folder)


def test_passwords_are_made_once_kept_private_and_never_shown(open_folder: Path) -> None:
    home = Home(open_folder / "passwords")
    home.prepare(server_account())
    made = passwords.load_or_make(home)
    assert passwords.load_or_make(home) == made
    assert mode(home.secrets) == 0o600
    assert made.postgres != made.valkey
    assert len(made.postgres) >= 32
    assert made.postgres not in repr(made)
    assert made.valkey not in repr(made)


def test_lost_or_damaged_passwords_are_not_replaced_under_a_database(open_folder: Path) -> None:
    home = Home(open_folder / "lost")
    home.prepare(server_account())
    passwords.load_or_make(home)
    home.secrets.write_text("{}")
    with pytest.raises(DdqueueError, match="is damaged"):
        passwords.load_or_make(home)
    home.secrets.unlink()
    (home.postgres / "data").mkdir()
    with pytest.raises(DdqueueError, match="is gone"):
        passwords.load_or_make(home)
    assert not home.secrets.exists()


def test_a_private_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new\n")
    assert path.read_text() == "new\n"
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_the_end_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_lines(log) == "    (the log is empty)"
    log.write_text("".join(f"line {number}\n" for number in range(5000)))
    assert last_lines(log, 2) == "    line 4998\n    line 4999"
