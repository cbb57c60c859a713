"""The lock file: exact versions with the hashes of every file that may be installed for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement

from ddqueue.errors import UsageError

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Locked:
    """One requirement, with its marker if it has one."""

    requirement: Requirement
    hashes: frozenset[str]

    def is_for(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter with these markers' values needs it."""
        marker = self.requirement.marker
        return marker is None or marker.evaluate(dict(environment))


def read_lock(text: str) -> list[Locked]:
    """Every requirement of the lock. Raises UsageError: it cannot be read, or has one without hashes."""
    found = []
    for entry in _entries(text):
        words, *_ = entry.split(" --hash=", 1)
        hashes = frozenset(_HASH.findall(entry))
        try:
            requirement = Requirement(words.strip())
        except InvalidRequirement as error:
            raise UsageError(f"the lock file has a line that is no requirement: {words.strip()!r}") from error
        if not hashes:
            raise UsageError(f"the lock file has no hash for {requirement.name}; make it anew: make lock")
        found.append(Locked(requirement, hashes))
    return found


def markers_of(python: tuple[int, int, int], machine: str) -> dict[str, str]:
    """The markers' values of a CPython on Linux."""
    full = ".".join(str(part) for part in python)
    return {
        **{name: str(value) for name, value in default_environment().items()},
        "python_version": ".".join(full.split(".")[:2]),
        "python_full_version": full,
        "implementation_version": full,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
    }


def _entries(text: str) -> list[str]:
    """Each requirement with its hashes as one line; comments are left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [entry.strip() for entry in "\n".join(lines).replace("\\\n", " ").splitlines()]
