"""The command line and environment of one server, from an engine profile's templates."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ddqueue.domain.configuration import Cell, Scalar, Speculation
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import EngineProfile, on_host
from ddqueue.ports import LaunchRequest

_SAID_IF_POSSIBLE = frozenset({"no_window"})
"""For most builds the full context is what they do when no window is said; only the others have a template for it."""


@dataclass(frozen=True)
class Command:
    """`environment` holds only what the profile and the cell set; `requested` maps the server's own names of settings
    to the values asked for, for comparison with what the server says it runs."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    requested: Mapping[str, Scalar]


def build(request: LaunchRequest, port: int) -> Command:
    """The command that starts `request` on `port`.

    Raises:
        AttemptFailure: MODEL_NOT_FOUND when the inventory has no path for this host, UNSUPPORTED when the build has
            no template for a setting the cell needs, BAD_ARGS when the profile has no command for this host.
    """
    profile, host = request.profile, request.host.name
    path = on_host(request.model.paths, host)
    if path is None:
        raise AttemptFailure(Failure.MODEL_NOT_FOUND, f"model {request.model.name} has no path for host {host}")
    parallelism = request.parallelism
    own: dict[str, Scalar] = {
        "model-path": path,
        "host": "127.0.0.1",
        "port": port,
        "tp-size": parallelism.tp,
        "ep-size": parallelism.ep if parallelism.ep > 1 else None,
        "pp-size": parallelism.pp if parallelism.pp > 1 else None,
        "dp-size": parallelism.dp if parallelism.dp > 1 else None,
        "weight-version": request.tag,
        "random-seed": request.random_seed,
    }
    argv = [*starter(request)]
    arguments = {**own, **profile.args, **request.cell.args}
    for name, value in arguments.items():
        argv += _flag(name, value)
    environment = {**profile.env, **request.cell.env}
    if request.cell.speculation is not None:
        flags, variables = _speculation(request, request.cell.speculation)
        argv += flags
        environment |= variables
    return Command(tuple(argv), environment, _requested(argv))


def starter(request: LaunchRequest) -> tuple[str, ...]:
    """The words that start the build on this host, before any argument. Raises AttemptFailure(BAD_ARGS) without one."""
    prefix = on_host(request.profile.commands, request.host.name)
    if prefix is None:
        raise AttemptFailure(
            Failure.BAD_ARGS, f"engine {request.profile.name} has no command for host {request.host.name}"
        )
    return tuple(word.replace("{python}", sys.executable) for word in prefix)


def missing_settings(cell: Cell, profile: EngineProfile) -> list[str]:
    """The settings the cell needs and the profile has no template for; empty when the build can run it."""
    spec = cell.speculation
    if spec is None:
        return []
    needed = [name for name, value in _settings(spec).items() if value is not None and name not in _SAID_IF_POSSIBLE]
    return [name for name in needed if name not in profile.settings]


def _speculation(request: LaunchRequest, spec: Speculation) -> tuple[list[str], dict[str, str]]:
    missing = missing_settings(request.cell, request.profile)
    if missing:
        raise AttemptFailure(
            Failure.UNSUPPORTED, f"engine {request.profile.name} has no way to set {', '.join(missing)}"
        )
    drafter = on_host(request.model.drafter.paths, request.host.name) if request.model.drafter else None
    if drafter is None:
        raise AttemptFailure(
            Failure.MODEL_NOT_FOUND, f"model {request.model.name} has no drafter for host {request.host.name}"
        )
    width = spec.block_size if spec.budget is None else spec.budget + 1
    flags: list[str] = []
    variables: dict[str, str] = {}
    for name, value in _settings(spec).items():
        template = request.profile.settings.get(name)
        if value is None or template is None:
            continue
        words = {"value": str(value), "drafter": drafter, "width": str(width)}
        flags += [_filled(word, words) for word in template.flags]
        variables |= {key: _filled(word, words) for key, word in template.env.items()}
    return flags, variables


def _settings(spec: Speculation) -> dict[str, Scalar]:
    """In the order they appear on the command line; None is not said."""
    return {
        "speculation": True,
        "block_size": spec.block_size,
        "budget": spec.budget,
        "topk": spec.topk,
        "window": spec.window,
        "no_window": True if spec.window is None else None,
    }


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace("{" + name + "}", value)
    return word


def _flag(name: str, value: Scalar) -> list[str]:
    if value is None or value is False:
        return []
    return [f"--{name}"] if value is True else [f"--{name}", str(value)]


def _requested(argv: list[str]) -> dict[str, Scalar]:
    """`--tp-size 8` asks for tp_size = 8; a bare flag asks for True."""
    asked: dict[str, Scalar] = {}
    for index, word in enumerate(argv):
        if word.startswith("--"):
            following = argv[index + 1] if index + 1 < len(argv) else "--"
            asked[word[2:].replace("-", "_")] = True if following.startswith("--") else following
    return asked
