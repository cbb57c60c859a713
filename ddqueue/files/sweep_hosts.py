"""Reads where a sweep runs: `hosts` and `parallel`, checked against the inventory."""

from __future__ import annotations

from collections.abc import Mapping

from ddqueue.domain.configuration import Parallelism
from ddqueue.domain.inventory import EngineProfile, Host, Inventory, Model, on_host
from ddqueue.errors import UsageError
from ddqueue.files.problems import suggestion
from ddqueue.files.typed import Field, Section
from ddqueue.files.yaml12 import MapNode

_HOSTS_REMEDY = "Write a list of hosts: [rtx6000, b300]."
_PARALLEL_REMEDY = "Write a list for all hosts, [TP8], or one for each: {rtx6000: [EP8], b300: [TP8]}."
_ENTRY_REMEDY = "Write TP8, EP8, EP4, PP8 or {tp: 8, ep: 4}."
_MAX_SIZE = 4096


def read_hosts(root: Section, inventory: Inventory) -> dict[str, Field]:
    """The hosts of `hosts:` that the inventory has, each with its place in the file."""
    field = root.need("hosts", _HOSTS_REMEDY)
    found: dict[str, Field] = {}
    for item in field.one_or_many(_HOSTS_REMEDY) if field else ():
        name = item.word(_HOSTS_REMEDY)
        if name is None:
            continue
        if name not in inventory.hosts:
            item.refuse(f"{inventory.file} has no host {name!r}", suggestion(name, inventory.hosts))
        elif name in found:
            item.refuse(f"host {name} is named twice", "Keep one of them.")
        else:
            found[name] = item
    return found


def check_hosts(
    hosts: Mapping[str, Field], inventory: Inventory, model: Model | None, engine: EngineProfile | None, drafts: bool
) -> None:
    """Whether the engine and the model are on every host; `drafts` says whether the drafter must be there too."""
    for name, place in hosts.items():
        if engine is not None:
            _check_simulation(inventory.hosts[name], engine, place)
            if not on_host(engine.commands, name):
                place.refuse(f"engine {engine.name} has no command for {name}", f"Add it to {inventory.file}.")
        if model is None:
            continue
        if on_host(model.paths, name) is None:
            place.refuse(f"model {model.name} has no path on {name}", f"Add it to {inventory.file}.")
        if drafts and model.drafter is not None and on_host(model.drafter.paths, name) is None:
            place.refuse(f"the drafter of {model.name} has no path on {name}", f"Add it to {inventory.file}.")


def read_parallel(
    root: Section, hosts: Mapping[str, Field], inventory: Inventory
) -> dict[str, tuple[Parallelism, ...]]:
    """The parallelisms of each host, in the order asked."""
    field = root.need("parallel", _PARALLEL_REMEDY)
    if field is None:
        return {}
    if not isinstance(field.node, MapNode):
        return {name: _read_list(field, inventory.hosts[name]) for name in hosts}
    by_host = dict(field.mapping(_PARALLEL_REMEDY) or ())
    for name, value in by_host.items():
        if name in hosts:
            continue
        if name in inventory.hosts:
            value.refuse(f"{name} is not among this sweep's hosts", "Add it to `hosts`, or take it out here.")
        elif name in ("tp", "ep", "pp", "dp"):
            field.refuse("one parallelism stands where a list belongs", "Write it in a list: [{tp: 8, ep: 4}].")
        else:
            value.refuse(f"{inventory.file} has no host {name!r}", suggestion(name, hosts))
    for name in hosts:
        if name not in by_host:
            field.refuse(f"no parallelism for {name}", f"Add {name}: [TP8].")
    return {name: _read_list(by_host[name], inventory.hosts[name]) for name in hosts if name in by_host}


def _check_simulation(host: Host, engine: EngineProfile, place: Field) -> None:
    if engine.simulated and not host.simulated:
        place.refuse(f"engine {engine.name} is simulated and {host.name} is a real host", "Use a simulated host.")
    if host.simulated and not engine.simulated:
        place.refuse(f"{host.name} is simulated and engine {engine.name} is real", "Use a simulated engine profile.")


def _read_list(field: Field, host: Host) -> tuple[Parallelism, ...]:
    found: list[Parallelism] = []
    for item in field.one_or_many(_PARALLEL_REMEDY):
        parallelism = _read_one(item, host)
        if parallelism is None or not _fits(parallelism, item, host):
            continue
        if parallelism in found:
            item.refuse(f"{parallelism.label} is given twice for {host.name}", "Keep one of them.")
        else:
            found.append(parallelism)
    return tuple(found)


def _read_one(item: Field, host: Host) -> Parallelism | None:
    if not isinstance(item.node, MapNode):
        label = item.word(_ENTRY_REMEDY)
        try:
            return None if label is None else Parallelism.parse(label, host.gpus)
        except (UsageError, ValueError):  # ValueError: a size of thousands of digits
            item.refuse(f"{item.said} is not a parallelism", _ENTRY_REMEDY)
            return None
    section = item.mapping(_ENTRY_REMEDY)
    if section is None or not len(section):
        item.refuse("it is empty", _ENTRY_REMEDY)
        return None
    section.allow(("tp", "ep", "pp", "dp"))
    sizes = {key: value.whole(1, _MAX_SIZE) for key, value in section if key in ("tp", "ep", "pp", "dp")}
    return Parallelism(**{key: size or 1 for key, size in sizes.items()}) if all(sizes.values()) else None


def _fits(parallelism: Parallelism, item: Field, host: Host) -> bool:
    """Whether the host has the GPUs, and ep and dp divide them."""
    if parallelism.gpus > host.gpus:
        problem = f"{parallelism.label} needs {parallelism.gpus} GPUs and {host.name} has {host.gpus}"
        item.refuse(problem, f"Use at most {host.gpus} GPUs: tp x pp.")
        return False
    for name, size in (("ep", parallelism.ep), ("dp", parallelism.dp)):
        if parallelism.tp % size:
            divisors = ", ".join(str(n) for n in range(1, parallelism.tp + 1) if parallelism.tp % n == 0)
            item.refuse(f"{name} {size} does not divide tp {parallelism.tp}", f"Use one of {divisors}.")
            return False
    return True
