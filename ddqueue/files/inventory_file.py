"""Reads the inventory file: hosts, models, engine profiles."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ddqueue.domain.inventory import Drafter, EngineProfile, Host, Inventory, Model
from ddqueue.files.inventory_borrow import read_borrow
from ddqueue.files.problems import Problems, suggestion
from ddqueue.files.templates import check_placeholders, read_templates
from ddqueue.files.typed import NAME, NAME_REMEDY, Field, Section
from ddqueue.files.values import Owned, argument_name, read_arguments, read_variables
from ddqueue.files.yaml12 import MapNode, parse, read_text

SIMULATED_BOXES = ("pcie", "nvlink")
EVERY_HOST = "*"
MAX_GPUS = 64
MAX_BLOCK_SIZE = 1024
MAX_CONTEXT_TOKENS = 100_000_000
EXPECTABLE = ("version", "torch", "cuda", "revision")

_PATH_REMEDY = 'Write one path, or one for each host: {rtx6000: /a, "*": /b}.'
_COMMAND_REMEDY = "Write a list of words, [/opt/sglang/bin/python, -m, sglang.launch_server], or one for each host."


def read_inventory(path: Path) -> Inventory:
    """The inventory in `path`. `{python}` in a command stays: whoever starts the server fills it in on its own host.

    Raises:
        FileError: the file cannot be used; with every problem found in it.
    """
    return inventory_from_text(read_text(path, "an inventory file"), str(path))


def inventory_from_text(text: str, file: str) -> Inventory:
    """Like `read_inventory`, for a text in hand; `file` names it in messages."""
    problems = Problems(file)
    root = Section(parse(text, problems), "", problems)
    root.allow(("hosts", "models", "engines"))
    sections = {key: _named(root, key) for key in ("hosts", "models", "engines")}
    host_names = frozenset(sections["hosts"])
    hosts = {name: _host(name, section) for name, section in sections["hosts"].items()}
    models = {name: _model(name, section, host_names) for name, section in sections["models"].items()}
    engines = {name: _engine(name, section, host_names) for name, section in sections["engines"].items()}
    problems.check()
    return Inventory(hosts=hosts, models=models, engines=engines, file=file)


def _named(root: Section, key: str) -> dict[str, Section]:
    """The entries of `hosts`, `models` or `engines`: mappings, each under a name."""
    field = root.need(key, f"Write `{key}:` and its names below it; `ddqueue init` writes an example.")
    section = field.mapping(f"Under {key} stand names, each with a mapping.") if field else None
    entries: dict[str, Section] = {}
    for name, value in section or ():
        if NAME.fullmatch(name) is None:
            value.refuse(f"{name!r} is not a name", NAME_REMEDY)
        inner = value.mapping("Write its keys below it, or in { }.")
        if inner is not None:
            entries[name] = inner
    return entries


# The three readers below give a value even where a problem was noted; `inventory_from_text` throws it away then.


def _host(name: str, section: Section) -> Host:
    section.allow(("gpus", "gpu", "interconnect", "address", "simulated", "borrow"))
    gpus = section.need("gpus", "Write the number of GPUs, e.g. 8.")
    kind = section.need("gpu", "Write the kind of GPU, as the driver names it.")
    simulated = section.get("simulated")
    box = None
    if simulated is not None and not simulated.is_none:
        box = simulated.word()
        if box is not None and box not in SIMULATED_BOXES:
            simulated.refuse(f"there is no simulated box {simulated.said}", "Write pcie or nvlink, or leave it out.")
    return Host(
        name=name,
        gpus=(gpus.whole(1, MAX_GPUS) if gpus else None) or 1,
        gpu_kind=(kind.text("Write the kind of GPU, as the driver names it.") if kind else None) or "",
        interconnect=_optional_text(section.get("interconnect"), "Write pcie or nvlink."),
        address=_optional_text(section.get("address"), "Write what ssh takes: user@host."),
        simulated_box=box,
        borrow=read_borrow(section.get("borrow")),
    )


def _model(name: str, section: Section, hosts: Collection[str]) -> Model:
    section.allow(("path", "context_length", "drafter"))
    length = section.get("context_length")
    drafter = section.get("drafter")
    return Model(
        name=name,
        paths=_paths(section.need("path", _PATH_REMEDY), hosts),
        drafter=None if drafter is None or drafter.is_none else _drafter(drafter, hosts),
        context_length=length.whole(1, MAX_CONTEXT_TOKENS) if length else None,
    )


def _drafter(field: Field, hosts: Collection[str]) -> Drafter | None:
    section = field.mapping("Write {path: ..., block_size: 8}.")
    if section is None:
        return None
    section.allow(("path", "block_size"))
    block_size = section.get("block_size")
    return Drafter(
        paths=_paths(section.need("path", _PATH_REMEDY), hosts),
        block_size=block_size.whole(2, MAX_BLOCK_SIZE) if block_size else None,
    )


def _engine(name: str, section: Section, hosts: Collection[str]) -> EngineProfile:
    section.allow(("command", "settings", "args", "env", "simulated", "expects", "renamed", "preflight"))
    simulated, preflight = section.get("simulated"), section.get("preflight")
    return EngineProfile(
        name=name,
        commands=_commands(section.need("command", _COMMAND_REMEDY), hosts),
        settings=read_templates(section.get("settings")),
        args=read_arguments(section.get("args"), Owned.always()),
        env=read_variables(section.get("env"), Owned.always()),
        simulated=(simulated.flag() if simulated else None) or False,
        expects=_expects(section.get("expects")),
        renamed=_renamed(section.get("renamed")),
        preflight=preflight is None or preflight.flag() is not False,
    )


def _optional_text(field: Field | None, remedy: str) -> str | None:
    return None if field is None or field.is_none else field.text(remedy)


def _paths(field: Field | None, hosts: Collection[str]) -> dict[str, str]:
    paths = {}
    for host, value in _by_host(field, hosts).items():
        path = value.text(_PATH_REMEDY)
        if path is not None:
            paths[host] = path
    return paths


def _commands(field: Field | None, hosts: Collection[str]) -> dict[str, tuple[str, ...]]:
    commands = {}
    for host, value in _by_host(field, hosts).items():
        words = []
        for item in value.sequence(_COMMAND_REMEDY) or ():
            word = item.word(_COMMAND_REMEDY)
            if word is not None and check_placeholders(word, item, frozenset({"python"})):
                words.append(word)
        commands[host] = tuple(words)
    return commands


def _expects(field: Field | None) -> dict[str, str]:
    """What must be installed, as written: 2.10 is not 2.1."""
    section = field.mapping("Write {version: 0.5.15, torch: 2.11}.") if field else None
    if section is None:
        return {}
    section.allow(EXPECTABLE)
    words = {name: value.word("Write the version, or the start of it.") for name, value in section}
    return {name: word for name, word in words.items() if word is not None}


def _renamed(field: Field | None) -> dict[str, str]:
    """Arguments by the name they are asked by, each with the name this build has for it."""
    section = field.mapping("Write {cuda-graph-max-bs: cuda-graph-max-bs-decode}.") if field else None
    found = {}
    for asked, value in section or ():
        word = value.word("Write the argument's name in this build.")
        old, new = argument_name(asked, value), None if word is None else argument_name(word, value)
        if old is not None and new is not None:
            found[old] = new
    return found


def _by_host(field: Field | None, hosts: Collection[str]) -> dict[str, Field]:
    """One value for all hosts, or a mapping from hosts (and `*`, every other one) to values."""
    if field is None:
        return {}
    if not isinstance(field.node, MapNode):
        return {EVERY_HOST: field}
    section = field.mapping(_PATH_REMEDY)
    found = dict(section or ())
    if not found:
        field.refuse("it names no host", f"Name a host, or {EVERY_HOST} for every one.")
    for host, value in found.items():
        if host != EVERY_HOST and host not in hosts:
            value.refuse(f"the inventory has no host {host!r}", suggestion(host, hosts))
    return found
