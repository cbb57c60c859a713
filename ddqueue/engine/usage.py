"""Reads the usage text of an argparse program: which flags it has, and which values they take."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FLAG = re.compile(r"(?<![\w-])--([A-Za-z0-9][A-Za-z0-9_-]*)")
_CHOICES = re.compile(r"(?<![\w-])--([A-Za-z0-9][A-Za-z0-9_-]*) \[?\{([^{}\s]+)\}")
_HEAD = re.compile(r" {2}(-\S.*?)(?: {2,}.*)?")
"""A line of the options' list that names flags: indented by two, its help text after two spaces or more."""


def flags_of(text: str) -> dict[str, tuple[str, ...]]:
    """Every flag in `text`, without the dashes, with its choices; empty for a text that holds no usage.

    The short usage names each flag once; the list below it also names the aliases. Flags that a help text only speaks
    of are not taken for ones the program has.
    """
    lines = _ESCAPES.sub("", text).splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith("usage:")), None)
    if start is None:
        return {}
    end = next(
        (number for number, line in enumerate(lines[start + 1 :], start + 1) if not line.startswith(" ")), len(lines)
    )
    heads = [match.group(1) for line in lines[end:] if (match := _HEAD.fullmatch(line))]
    found: dict[str, tuple[str, ...]] = {}
    for part in (" ".join(line.strip() for line in lines[start:end]), *heads):
        found |= {name: () for name in _FLAG.findall(part) if name not in found}
        found |= {name: tuple(values.split(",")) for name, values in _CHOICES.findall(part)}
    return found
