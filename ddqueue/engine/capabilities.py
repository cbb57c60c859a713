"""What a build of SGLang can do: asked once, then remembered until the installation changes.

Its own `--help` takes some 20 s, most of it imports; which build it is takes a tenth of a second, imports nothing of
it, and names the file the answer is kept in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.preflight.build import Build
from ddqueue.engine import asking, usage

_PROBE = Path(__file__).with_name("build_probe.py")
_PROBE_LIMIT_S = 30.0
_FORMAT = 1
"""Counted up when what is kept, or how it is read from a usage text, changes."""


def _never() -> None:
    """Nobody asks to stop."""


def _nothing(text: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class BuildReader:
    """`folder` keeps the answers and `limit_s` bounds one `--help`; meanwhile `tell` says what is going on and
    `should_stop` ends the wait by raising."""

    folder: Path
    limit_s: float = 180.0
    should_stop: Callable[[], None] = _never
    tell: Callable[[str], None] = _nothing

    def ask(self, command: tuple[str, ...], environment: Mapping[str, str]) -> Build:
        """The build that `command` starts under `environment` (on top of this process's own).

        A build that says nothing usable has a `problem` and is asked again the next time.

        Raises:
            AttemptFailure: BAD_ARGS when the command cannot be started or the package is not installed.
        """
        identity = self._identify(command, environment)
        file = None if identity is None else self._file(command, identity)
        known = None if file is None else _read(file)
        if known is not None:
            return known
        build = self._help(command, environment, identity or {})
        if file is not None and not build.problem:
            _keep(file, build)
        return build

    def _help(self, command: tuple[str, ...], environment: Mapping[str, str], identity: Mapping[str, Any]) -> Build:
        self.tell(f"asking {command[0]} which flags it has; the answer is kept")
        answer = self._run((*command, "--help"), environment, self.limit_s)
        flags = usage.flags_of(answer.text)
        problem = ""
        if answer.code is None:
            problem = f"{command[0]} gave no usage within {self.limit_s:g} s"
        elif not flags:
            if re.search(r"No module named ", answer.last_line):
                raise AttemptFailure(Failure.BAD_ARGS, f"{' '.join(command)}: {answer.last_line}")
            problem = f"{command[0]} gave no usage (exit code {answer.code}): {answer.last_line}"
        return Build(
            version=_text(identity, "version"),
            torch=_text(identity, "torch"),
            cuda=_text(identity, "cuda"),
            nccl=_text(identity, "nccl"),
            revision=_text(identity, "revision"),
            flags=flags,
            problem=problem,
        )

    def _identify(self, command: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, Any] | None:
        """What the probe says; None for a command that no interpreter can be found in, or that gives no answer."""
        interpreter = interpreter_of(command)
        if interpreter is None:
            return None
        words = (interpreter, "-c", _PROBE.read_text(), package_of(command))
        answer = self._run(words, environment, _PROBE_LIMIT_S)
        try:
            value = json.loads(answer.text.strip().rpartition("\n")[2])
        except ValueError:
            return None
        return value if answer.code == 0 and isinstance(value, dict) else None

    def _run(self, words: tuple[str, ...], environment: Mapping[str, str], limit_s: float) -> asking.Answer:
        try:
            return asking.ask(words, environment, limit_s, self.should_stop)
        except OSError as error:
            raise AttemptFailure(Failure.BAD_ARGS, f"cannot start {words[0]}: {error.strerror or error}") from error

    def _file(self, command: tuple[str, ...], identity: Mapping[str, Any]) -> Path:
        text = json.dumps([_FORMAT, command, identity], sort_keys=True)
        return self.folder / f"build-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def can_start(command: tuple[str, ...]) -> bool:
    """Whether this machine has the command at all."""
    return shutil.which(command[0]) is not None


def interpreter_of(command: tuple[str, ...]) -> str | None:
    """The Python that a command runs in: its first word, or the one named in the first line of that script."""
    if re.fullmatch(r"python[0-9.]*", os.path.basename(command[0])):
        return command[0]
    path = shutil.which(command[0])
    try:
        with open(path or command[0], "rb") as file:
            first = file.readline(256).decode("utf-8", "replace").strip()
    except OSError:
        return None
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    return words[-1] if words and "python" in os.path.basename(words[-1]) else None


def package_of(command: tuple[str, ...]) -> str:
    """The package that a command starts: of `-m PACKAGE.module`, else the script's own name."""
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1].partition(".")[0]
    return os.path.basename(command[0])


def _read(file: Path) -> Build | None:
    """What was kept; None for nothing, and for a file that something else wrote."""
    try:
        build = Build.from_json(json.loads(file.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return build if build.flags else None


def _keep(file: Path, build: Build) -> None:
    """Best effort: where nothing can be written, the build is asked again."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(build.to_json()))
        draft.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) and value else None
