"""What the numbers were measured on and with, and the file that asked for them."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from ddqueue.report.html.blocks import Block, Cell, Folded, Listing, Section, Table, Tone, Words
from ddqueue.report.html.data import ReportData, Row
from ddqueue.report.html.numbers import ABSENT

_LEAD = (
    "As each attempt recorded it before its server started. Where attempts of one host differ, every value is listed."
)

FACTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "GPUs": lambda found: _counted(gpu.get("name") for gpu in found.get("gpus") or ()),
    "GPU memory, MiB": lambda found: _counted(gpu.get("memory_total_mib") for gpu in found.get("gpus") or ()),
    "between them": lambda found: found.get("interconnect"),
    "joined by": lambda found: _links(found.get("topology")),
    "GPU to GPU, GB/s": lambda found: _rates(_of(found, "bandwidth", "pairs")),
    "GPU memory, GB/s": lambda found: _rates(_of(found, "bandwidth", "memory")),
    "driver": lambda found: found.get("driver"),
    "CUDA of the driver": lambda found: found.get("cuda_driver"),
    "engine profile": lambda found: found.get("engine"),
    "engine version": lambda found: _of(found, "build", "version"),
    "engine revision": lambda found: _of(found, "build", "revision"),
    "torch": lambda found: _of(found, "build", "torch"),
    "CUDA of torch": lambda found: _of(found, "build", "cuda"),
    "NCCL": lambda found: _of(found, "build", "nccl"),
    "CPU": lambda found: _of(found, "machine", "cpu"),
    "cores": lambda found: _of(found, "machine", "cores"),
    "memory, MiB": lambda found: _of(found, "machine", "memory_total_mib"),
    "kernel": lambda found: _of(found, "machine", "kernel"),
    "Python": lambda found: _of(found, "machine", "python"),
    "ddqueue": lambda found: found.get("ddqueue"),
    "variables": lambda found: _variables(found.get("worker_environment")),
    "engine's warnings": lambda found: "; ".join(map(str, found.get("engine_warnings") or ())),
}


def provenance(data: ReportData) -> Section | None:
    """None before an attempt recorded any."""
    by_host = {
        host: [one["provenance"] for one in data.attempts if one["host"] == host and one["provenance"]]
        for host in data.judgement.hosts
    }
    by_host = {host: found for host, found in by_host.items() if found}
    if not by_host:
        return None
    rows: list[tuple[Cell | str, ...]] = []
    for name, read in FACTS.items():
        values = [_values(read(one) for one in found) for found in by_host.values()]
        if any(value != ABSENT for value in values):
            rows.append((Cell(name, Tone.STRONG), *values))
    blocks: list[Block] = [Table("What it ran on", ("", *by_host), tuple(rows))]
    commands = _commands(data.attempts)
    if commands:
        blocks.append(Folded("The command that started each server", tuple(commands)))
    return Section("provenance", "Provenance", _LEAD, tuple(blocks))


def source(data: ReportData) -> Section:
    """The submitted file, as it was."""
    sweep = data.sweep
    if not sweep["file_text"]:
        return Section("sweep-file", "The sweep file", "", (Words("It was not submitted from a file.", Tone.QUIET),))
    name = str(sweep["file_name"]).rpartition("/")[2] or "sweep.yaml"
    lead = "What was submitted, word for word: with it and the inventory the sweep can be run again."
    if sweep["imported"]:
        lead = "What was imported, word for word."
    return Section("sweep-file", "The sweep file", lead, (Listing(name, sweep["file_text"]),))


def _commands(attempts: Sequence[Row]) -> Iterable[Listing]:
    """One for each configuration and host, of its latest attempt."""
    latest = {
        (one["host"], one["parallel"], one["label"]): one for one in attempts if (one["provenance"] or {}).get("argv")
    }
    return [
        Listing(f"{label} on {host} {parallel}", _command(one["provenance"]))
        for (host, parallel, label), one in latest.items()
    ]


def _command(found: Mapping[str, Any]) -> str:
    variables = [f"{name}={shlex.quote(str(value))}" for name, value in (found.get("environment") or {}).items()]
    return " ".join([*variables, shlex.join(map(str, found["argv"]))])


def _values(found: Iterable[Any]) -> str:
    """Each different value once; what is not known is no value."""
    said = dict.fromkeys(_said(value) for value in found if value not in (None, "", [], {}))
    return "; ".join(said) or ABSENT


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _counted(found: Iterable[Any]) -> str:
    return ", ".join(f"{count} x {_said(value)}" for value, count in Counter(found).items() if value is not None)


def _of(found: Mapping[str, Any], *names: str) -> Any:
    value: Any = found
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _links(topology: Any) -> str:
    """As the driver says: `18 x NVLink 4.0`, or the PCIe paths between the GPUs, as `nvidia-smi topo -m` calls them."""
    if not isinstance(topology, Mapping):
        return ""
    links = [one for one in topology.get("nvlinks") or () if one.get("active")]
    if links:
        return ", ".join(dict.fromkeys(f"{one['active']} x NVLink {one['version']}" for one in links))
    rows = enumerate(topology.get("matrix") or ())
    return ", ".join(sorted({str(path) for row, paths in rows for path in paths[:row] if path}))


def _rates(found: Any) -> str:
    """As the doctor measured them."""
    if not isinstance(found, Mapping) or not found:
        return ""
    rates = [float(rate) for rate in found.values()]
    return f"{median(rates):.0f}" if len(rates) == 1 else f"{median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})"


def _variables(found: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in found.items()) if isinstance(found, Mapping) else ""
