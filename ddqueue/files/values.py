"""Server arguments and environment variables, as they stand in both kinds of file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ddqueue.domain.configuration import Scalar
from ddqueue.files.typed import Field, Section
from ddqueue.files.yaml12 import ScalarNode

_PARALLEL = "parallel"
OWNED_ARGUMENTS: dict[str, str] = {
    "model-path": "Name it by `model`; the inventory holds its path on each host.",
    "model": "Name it by the key `model`; the inventory holds its path on each host.",
    "served-model-name": "Leave it out: ddqueue sets it, to tell its own server from another.",
    "weight-version": "Leave it out: ddqueue sets it, to tell its own server from another.",
    "host": "Leave it out: ddqueue picks the address; `hosts` says where the cell runs.",
    "port": "Leave it out: every attempt gets a fresh port.",
    "random-seed": "Leave it out: ddqueue pins it, so that cells can be compared.",
    **dict.fromkeys(("tp-size", "tp", "tensor-parallel-size"), f"Use `{_PARALLEL}`: TP8."),
    **dict.fromkeys(("ep-size", "ep", "expert-parallel-size"), f"Use `{_PARALLEL}`: EP8, or {{tp: 8, ep: 4}}."),
    **dict.fromkeys(("pp-size", "pp", "pipeline-parallel-size"), f"Use `{_PARALLEL}`: PP8."),
    **dict.fromkeys(("dp-size", "dp", "data-parallel-size"), f"Use `{_PARALLEL}`: {{tp: 8, dp: 8}}."),
}
"""Arguments that ddqueue gives every server itself, with what to write instead."""

OWNED_VARIABLES: dict[str, str] = {
    "CUDA_VISIBLE_DEVICES": f"Leave it out: a server gets its host's GPUs; `{_PARALLEL}` says how many.",
    "CUDA_DEVICE_ORDER": "Leave it out: ddqueue counts GPUs in PCI order.",
}
"""Variables that ddqueue gives every server itself."""

_BOOLISH = frozenset({"yes", "no", "on", "off", "y", "n"})


@dataclass(frozen=True)
class Owned:
    """Names that a file may not set, each with what to write instead."""

    arguments: Mapping[str, str]
    variables: Mapping[str, str]

    @classmethod
    def always(cls) -> Owned:
        """What ddqueue sets for every server."""
        return cls(OWNED_ARGUMENTS, OWNED_VARIABLES)


def argument_name(name: str, field: Field) -> str | None:
    """The canonical name of a server argument: lower-case words joined by dashes, without the leading ones."""
    canonical = name.lstrip("-").replace("_", "-")
    if name.startswith("-"):
        field.refuse(f"{name} has leading dashes", f"Write {canonical or 'the name'}: the dashes are added for you.")
        return None
    if re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", canonical) is None:
        field.refuse(f"{name!r} is not an argument's name", "Write it as the server's --help does, without the dashes.")
        return None
    return canonical


def argument_value(field: Field) -> tuple[Scalar] | None:
    """The value of a server argument, in a tuple because None is one; 1.0 is 1, as in the cell's hash."""
    if not isinstance(field.node, ScalarNode):
        field.refuse(f"{field.said} is not one value", "Write one value; to try several, put args.NAME under grid.")
        return None
    value = field.node.value
    if isinstance(value, float):
        if not math.isfinite(value):
            field.refuse(f"{field.said} is not a finite number", "Write a finite number.")
            return None
        return (int(value) if value.is_integer() else value,)
    if isinstance(value, str) and not field.node.quoted and value.lower() in _BOOLISH:
        remedy = f'Write true (a bare flag) or false (left out); the text is "{value}", in quotes.'
        field.refuse(f"{value} is text in YAML 1.2, not a switch", remedy)
        return None
    return (value,)


def variable_value(field: Field) -> str | None:
    """The text of an environment variable exactly as written: 010 stays 010."""
    node = field.node
    if not isinstance(node, ScalarNode):
        field.refuse(f"{field.said} is not one value", "Write one value; to try several, put env.NAME under grid.")
        return None
    if isinstance(node.value, bool):
        field.refuse(f"{node.text} is not text", f'Write 1 or 0, or "{node.text}" in quotes.')
        return None
    if node.value is None:
        field.refuse("no value", 'Write "" for an empty variable, or leave it out.')
        return None
    if isinstance(node.value, float) and not math.isfinite(node.value):
        field.refuse(f"{node.text} is not a finite number", f'Write a number, or "{node.text}" in quotes.')
        return None
    return node.text


def check_argument_owner(name: str, field: Field, owned: Owned) -> bool:
    """Whether a file may set this argument. argparse takes a shortened flag for the full one, so those count too."""
    for full, remedy in owned.arguments.items():
        if name == full or (len(name) > 3 and full.startswith(name)):
            short = "" if name == full else f", shortened from {full}"
            field.refuse(f"ddqueue sets {name} itself{short}", remedy)
            return False
    return True


def check_variable(name: str, field: Field, owned: Owned) -> bool:
    """Whether this is a variable's name that a file may set."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        field.refuse(f"{name!r} is not a variable's name", "Use letters, digits and underscores.")
        return False
    if name.startswith("DDQUEUE_"):
        field.refuse(f"{name} is ddqueue's own", "Leave it out: ddqueue marks its servers with it.")
        return False
    if name in owned.variables:
        field.refuse(f"ddqueue sets {name} itself", owned.variables[name])
        return False
    return True


def read_arguments(field: Field | None, owned: Owned) -> dict[str, Scalar]:
    """An `args:` mapping by canonical names; null means the same as false: the argument is left out."""
    section = _named_values(field, "Write {NAME: value}, e.g. {mem-fraction-static: 0.85}.")
    found: dict[str, Scalar] = {}
    lines: dict[str, int] = {}
    for key, value_field in section or ():
        name, value = argument_name(key, value_field), argument_value(value_field)
        if name is None or value is None or not check_argument_owner(name, value_field, owned):
            continue
        if name in lines:
            value_field.refuse(f"{name} is given twice, first in line {lines[name]}", "Keep one of them.")
        lines[name] = value_field.line
        found[name] = value[0]
    return found


def read_variables(field: Field | None, owned: Owned) -> dict[str, str]:
    """An `env:` mapping."""
    section = _named_values(field, "Write {NAME: value}, e.g. {NCCL_P2P_DISABLE: 1}.")
    found: dict[str, str] = {}
    for name, value_field in section or ():
        value = variable_value(value_field)
        if check_variable(name, value_field, owned) and value is not None:
            found[name] = value
    return found


def _named_values(field: Field | None, remedy: str) -> Section | None:
    """`args:` with every line below it commented out means no arguments."""
    if field is None or (isinstance(field.node, ScalarNode) and field.node.value is None):
        return None
    return field.mapping(remedy)
