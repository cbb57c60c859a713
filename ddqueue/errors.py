"""The errors a person can see, each with its exit code.

Exit codes: 0 done, 1 failed, 2 usage (the person's mistake), 3 a server could not be reached.
"""

from __future__ import annotations

from dataclasses import dataclass


class DdqueueError(Exception):
    """Base of every error whose text is meant for a person; the command line prints it without a traceback."""

    exit_code = 1


class UsageError(DdqueueError):
    """A mistake of the person who typed the command; the text says what is wrong and what would be right."""

    exit_code = 2


class SchemaRefused(UsageError):
    """This version must not work with the database: its tables are too old, or have left this version behind."""


class NotReachable(DdqueueError):
    """Postgres, the broker or a host did not answer; nothing was half-done."""

    exit_code = 3


class StaleFence(DdqueueError):
    """A write carried a fence that is no longer the job's: another attempt owns the job now, so nothing was written."""


@dataclass(frozen=True)
class FileProblem:
    """One mistake in a file a person wrote.

    `line` counts from 1; `key` is the path of keys as a person would say it, e.g. `cells[2].budget`.
    """

    file: str
    line: int
    key: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: {self.key}" if self.key else f"{self.file}:{self.line}"
        return f"{where}: {self.problem}\n  {self.remedy}"


class FileError(UsageError):
    """A sweep or inventory file that cannot be used, with every problem found in it (at least one)."""

    def __init__(self, problems: list[FileProblem]) -> None:
        if not problems:
            raise ValueError("a FileError needs at least one problem")
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
