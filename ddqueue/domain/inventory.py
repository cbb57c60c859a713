"""What the inventory file describes: hosts, models (paths per host) and engine profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ddqueue.domain.borrowing import Borrow
from ddqueue.domain.configuration import Scalar
from ddqueue.errors import UsageError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Host:
    """One GPU box.

    `simulated_box` names the cost model (`pcie`, `nvlink`) of a box that exists only in software; None = a real one.
    `borrow` says how it is taken from production and given back; None = it is ours all the time.
    """

    name: str
    gpus: int
    gpu_kind: str
    interconnect: str | None = None
    address: str | None = None
    simulated_box: str | None = None
    borrow: Borrow | None = None

    @property
    def simulated(self) -> bool:
        return self.simulated_box is not None


@dataclass(frozen=True)
class Drafter:
    """A draft model. `block_size` is the block it was trained for; None = unknown (never out of distribution)."""

    paths: Mapping[str, str]
    block_size: int | None = None


@dataclass(frozen=True)
class Model:
    """A target model and its drafter. `paths` maps host names, or `*` for every other host, to a path on that host."""

    name: str
    paths: Mapping[str, str]
    drafter: Drafter | None = None
    context_length: int | None = None


@dataclass(frozen=True)
class SettingTemplate:
    """How one setting is said to a build of SGLang: flags and environment, with placeholders such as `{value}`."""

    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineProfile:
    """How one build of SGLang is started.

    `commands` maps host names, or `*`, to the argv that starts it. `settings` maps `speculation`, `block_size`,
    `budget`, `topk`, `window`, `no_window` to templates; a setting without a template is one the build lacks.
    Placeholders: `{value}`, `{drafter}`, `{width}` (budget + 1).

    `expects` maps `version`, `torch`, `cuda`, `revision` to what must be installed; `renamed` maps an argument's name
    to the one this build has for it. `preflight` False: what is found before a launch is stored and refuses nothing.
    """

    name: str
    commands: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, SettingTemplate] = field(default_factory=dict)
    args: Mapping[str, Scalar] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False
    expects: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    preflight: bool = True


@dataclass(frozen=True)
class Inventory:
    """Everything a sweep may name."""

    hosts: Mapping[str, Host]
    models: Mapping[str, Model]
    engines: Mapping[str, EngineProfile]
    file: str = "inventory.yaml"

    def host(self, name: str) -> Host:
        """Raises UsageError when the inventory has no such host."""
        if name not in self.hosts:
            raise UsageError(f"{self.file} has no host {name!r}; it has {_listed(self.hosts)}")
        return self.hosts[name]

    def model(self, name: str) -> Model:
        """Raises UsageError when the inventory has no such model."""
        if name not in self.models:
            raise UsageError(f"{self.file} has no model {name!r}; it has {_listed(self.models)}")
        return self.models[name]

    def engine(self, name: str) -> EngineProfile:
        """Raises UsageError when the inventory has no such engine profile."""
        if name not in self.engines:
            raise UsageError(f"{self.file} has no engine {name!r}; it has {_listed(self.engines)}")
        return self.engines[name]


def on_host(values: Mapping[str, Value], host: str) -> Value | None:
    """The value for `host`, else the one for every other host (`*`), else None."""
    return values.get(host, values.get("*"))


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"
