"""The record of a loan: one small file a host, whole or absent even after a power cut."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

from ddqueue.domain.borrowing import Borrow, Loan, LoanState, RunningCommand


class LoanFile:
    """Implements ports.LoanRecord. It holds the terms too: the box is given back even when the inventory, by then,
    names another command, or none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Loan | None:
        try:
            text = self.path.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError):
            return self._unreadable()
        try:
            return _parsed(text)
        except (ValueError, KeyError, TypeError):
            return self._unreadable()

    def write(self, loan: Loan) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(f".{os.getpid()}.new")
        try:
            with draft.open("w") as file:
                file.write(json.dumps(_stored(loan)) + "\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self._sync_folder()

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir():
            self._sync_folder()

    def _unreadable(self) -> Loan:
        """Somebody damaged it: the box is borrowed, and nothing else is known."""
        return Loan(terms=None, state=LoanState.TAKING, since=datetime.fromtimestamp(0).astimezone(), boot="")

    def _sync_folder(self) -> None:
        handle = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _stored(loan: Loan) -> dict[str, object]:
    command = loan.command
    return {
        "state": loan.state.value,
        "since": loan.since.isoformat(),
        "boot": loan.boot,
        "command": command and {"pid": command.pid, "start_ticks": command.start_ticks},
        "terms": loan.terms and loan.terms.to_json(),
    }


def _parsed(text: str) -> Loan:
    stored = json.loads(text)
    command, terms = stored["command"], stored["terms"]
    return Loan(
        terms=None if terms is None else Borrow.from_json(terms),
        state=LoanState(stored["state"]),
        since=datetime.fromisoformat(stored["since"]),
        boot=str(stored["boot"]),
        command=None if command is None else RunningCommand(int(command["pid"]), int(command["start_ticks"])),
    )
