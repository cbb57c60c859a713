"""docker-compose.yml as Compose reads it: merged, with its variables filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / ".env.example"

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:-|:\?)([^}]*))?\})")


class Missing(Exception):
    """A variable that Compose would not start without."""


@dataclass(frozen=True)
class ComposeFile:
    """The file with its merges carried out; `text` as it stands there."""

    text: str
    content: dict[str, Any]

    @property
    def services(self) -> dict[str, dict[str, Any]]:
        return dict(self.content["services"])

    def variables(self) -> dict[str, str]:
        """Every variable that is used, with how: `:-`, `:?`, or nothing."""
        return {found[2]: found[3] or "" for found in _VARIABLE.finditer(self.text) if found[2]}

    def with_variables(self, values: Mapping[str, str]) -> dict[str, Any]:
        """The content with every variable filled in. Raises Missing."""
        return dict(_filled(self.content, values))


def read() -> ComposeFile:
    text = FILE.read_text()
    return ComposeFile(text, YAML(typ="safe").load(text))


def example_variables() -> dict[str, str]:
    """The variables of .env.example, each with its value there."""
    lines = [line for line in EXAMPLE.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def strings(value: Any) -> Iterator[str]:
    """Every text in a part of the file, keys too."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if not isinstance(value, str):
        return value

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        given = values.get(found[2], "")
        if not given and found[3] == ":?":
            raise Missing(f"{found[2]}: {found[4]}")
        return given or (found[4] if found[3] == ":-" else "")

    return _VARIABLE.sub(one, value)
