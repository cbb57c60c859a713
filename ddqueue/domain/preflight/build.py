"""One build of SGLang: what it is and which flags it has, and whether a command line is one it takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddqueue.domain.failures import Failure
from ddqueue.domain.preflight.finding import Finding, doubtful, refused, unchecked

ALGORITHM = "speculative-algorithm"

RENAMED: tuple[tuple[str, str], ...] = (
    # Deprecated from 0.5.14, gone in 0.5.23.
    ("cuda-graph-max-bs", "cuda-graph-max-bs-decode"),
    ("cuda-graph-bs", "cuda-graph-bs-decode"),
    ("piecewise-cuda-graph-tokens", "cuda-graph-bs-prefill"),
    ("piecewise-cuda-graph-max-tokens", "cuda-graph-max-bs-prefill"),
    # The older name of DFlash's first builds.
    ("speculative-dflash-draft-window-size", "speculative-draft-window-size"),
    # The newer spelling of the same backends in 0.5.15, which has both.
    ("nsa-prefill-backend", "dsa-prefill-backend"),
    ("nsa-decode-backend", "dsa-decode-backend"),
    ("mamba-scheduler-strategy", "mamba-radix-cache-strategy"),
)
"""Arguments that changed their name but not their meaning, old and new. Only whole names are compared: argparse takes
a unique prefix for the full name, and so a misspelt flag for another one."""

ALIASES: Mapping[str, str] = {"speculative-dflash-block-size": "speculative-num-draft-tokens"}
"""Second names, with the first: a build may lack the second, every build has the first."""


@dataclass(frozen=True)
class Build:
    """What one interpreter starts.

    `flags` maps the name of every flag, without the dashes, to the values it takes, empty where it takes any.
    `problem` says why `flags` is not known; a build that does not say a version has None there.
    """

    version: str | None = None
    torch: str | None = None
    cuda: str | None = None
    revision: str | None = None
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problem: str = ""
    nccl: str | None = None

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The speculative algorithms, where the build lists them."""
        return self.flags.get(ALGORITHM, ())

    @property
    def versions(self) -> dict[str, str | None]:
        """What belongs into an attempt's provenance."""
        return {
            "version": self.version,
            "torch": self.torch,
            "cuda": self.cuda,
            "nccl": self.nccl,
            "revision": self.revision,
        }

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self.versions, "flags": {name: list(values) for name, values in self.flags.items()}}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Build:
        """Rebuild what `to_json` gave. Raises KeyError, TypeError or AttributeError for anything else."""
        return cls(
            version=value["version"],
            torch=value["torch"],
            cuda=value["cuda"],
            nccl=value["nccl"],
            revision=value["revision"],
            flags={str(name): tuple(map(str, values)) for name, values in value["flags"].items()},
        )


def renames(arguments: Mapping[str, str], build: Build, known: Mapping[str, str]) -> dict[str, str]:
    """The arguments that this build calls by another name: asked name -> its name.

    `known` maps old names to new ones, beside those every build may meet. Nothing is renamed when the build has the
    name that is asked, or when its flags are not known.
    """
    if not build.flags:
        return {}
    pairs = (*RENAMED, *known.items())
    others = [*pairs, *((new, old) for old, new in pairs), *ALIASES.items()]
    found: dict[str, str] = {}
    for name in arguments:
        here = next((other for asked, other in others if asked == name and other in build.flags), None)
        if here is not None and name not in build.flags:
            found[name] = here
    return found


def flag_findings(arguments: Mapping[str, str], build: Build) -> list[Finding]:
    """Every flag the build lacks, with the nearest it has, and every value it does not take."""
    if not build.flags:
        return [unchecked(f"flags not checked: {build.problem or 'the build did not say which it has'}")]
    found = []
    for name, value in arguments.items():
        if name not in build.flags:
            near = difflib.get_close_matches(name, build.flags, n=1, cutoff=0.6)
            hint = f"; nearest is --{near[0]}" if near else ""
            found.append(refused(Failure.BAD_ARGS, f"this build has no --{name}{hint}"))
        elif not _takes(build.flags[name], value):
            found.append(_value_finding(name, value, build.flags[name]))
    return found


def version_findings(expects: Mapping[str, str], build: Build) -> list[Finding]:
    """Whether the build is the one that the inventory expects, by `version`, `torch`, `cuda` and `revision`.

    0.5.15 stands for 0.5.15.post1 too, but not for 0.5.150; a revision may be shortened.
    """
    found = []
    for name, expected in expects.items():
        actual = build.versions.get(name)
        if actual is None:
            found.append(doubtful(f"{name} {expected} is expected, and the build does not say which it is"))
        elif not _is_version(expected, actual, shortened=name == "revision"):
            text = f"{name} {expected} is expected here and {actual} is installed"
            found.append(refused(Failure.BAD_ARGS, text))
    return found


def _takes(choices: tuple[str, ...], value: str) -> bool:
    # Some flags change the case of what they are given before they compare.
    return not choices or not value or value.casefold() in {choice.casefold() for choice in choices}


def _value_finding(name: str, value: str, choices: tuple[str, ...]) -> Finding:
    listed = ", ".join(choices)
    if name == ALGORITHM:
        return refused(Failure.UNSUPPORTED, f"this build has no {value}; it has {listed}")
    return refused(Failure.BAD_ARGS, f"this build's --{name} does not take {value!r}; it takes {listed}")


def _is_version(expected: str, actual: str, shortened: bool) -> bool:
    if shortened:
        return actual.startswith(expected)
    return re.match(re.escape(expected) + r"(?![0-9A-Za-z])", actual) is not None
