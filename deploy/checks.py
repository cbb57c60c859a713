"""What a box must have before anything on it is changed: pure judgement of a reading, with a remedy for each fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from ddqueue.domain.health import Check, Verdict
from ddqueue.domain.inventory import Host, Inventory, on_host
from ddqueue.gpu.box import SHM_COMFORTABLE_MIB
from ddqueue.gpu.cleanroom import SHM_FREE_MIB
from ddqueue.gpu.fitness import is_kind
from deploy import layout
from deploy.reading import Question, Reading

OLDEST_PYTHON = (3, 11)
RELEASE_MIB = 1024
"""A release's environment takes some 400 MiB, and its wheels 150; what is there before is kept beside it."""
STATE_MIB = 1024
SKEW_WARN_S = 2.0
SKEW_FAIL_S = 30.0
"""Leases go by Postgres's clock alone, so that a small difference only makes times hard to compare."""

_SHM = "/dev/shm"
_PORTS = {"Postgres": 5432, "Redis": 6379}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Needs:
    """What a box is checked for. `host` is None for a machine that runs no worker."""

    host: Host | None
    inventory: Inventory
    places: tuple[tuple[str, str, int], ...]
    """Name, host and port of what its services connect to."""
    certificates: tuple[str, ...] = ()
    """Files that the URLs of these name, for TLS."""


def places_of(database_url: str, redis_url: str) -> tuple[tuple[str, str, int], ...]:
    """Where the servers' URLs point; only that, without the passwords."""
    found = []
    for name, url in (("Postgres", database_url), ("Redis", redis_url)):
        parts = urlsplit(url)
        if parts.hostname is not None:
            found.append((name, parts.hostname, parts.port or _PORTS[name]))
    return tuple(found)


def certificates_of(*urls: str) -> tuple[str, ...]:
    """The files that the URLs' options name; libpq's `sslrootcert=system` is none."""
    options = [option for url in urls for option in parse_qsl(urlsplit(url).query)]
    return tuple(value for name, value in options if name.startswith("ssl") and value.startswith("/"))


def question(needs: Needs) -> Question:
    """What to ask the box."""
    return Question(
        folders=(layout.ROOT, layout.STATE, _SHM),
        files=(*_model_paths(needs), *needs.certificates),
        programs=tuple(sorted({words[0] for words in _commands(needs)})),
        places=needs.places,
        gpus=needs.host is not None and not needs.host.simulated,
    )


def judge(reading: Reading, needs: Needs) -> list[Check]:
    """Every check, in the order of a person's questions."""
    return [
        _python(reading),
        *_room(reading, needs),
        *_gpus(reading, needs),
        *_engines(reading, needs),
        *_models(reading, needs),
        _clock(reading),
        *(_reach(place, reading) for place in needs.places),
        *_certificates(reading, needs),
        _services(reading),
    ]


def _python(reading: Reading) -> Check:
    version = ".".join(str(part) for part in reading.python)
    finding = f"{version} ({reading.executable})"
    if reading.python < OLDEST_PYTHON:
        wanted = ".".join(str(part) for part in OLDEST_PYTHON)
        remedy = f"install Python {wanted} or later beside it, and name it with --python"
        return Check("Python", Verdict.FAIL, f"{finding}, {wanted} or later is needed", remedy)
    if not reading.venv:
        remedy = "on Debian and Ubuntu: apt-get install python3-venv"
        return Check("Python", Verdict.FAIL, f"{finding} cannot make environments: it lacks venv or ensurepip", remedy)
    return Check("Python", Verdict.OK, finding)


def _room(reading: Reading, needs: Needs) -> Iterator[Check]:
    for folder, needed in ((layout.ROOT, RELEASE_MIB), (layout.STATE, STATE_MIB)):
        free = reading.free_mib[folder]
        if free < needed:
            finding = f"{free} MiB free for {folder}, {needed} are needed"
            yield Check("disk", Verdict.FAIL, finding, "make room on that file system")
        else:
            yield Check("disk", Verdict.OK, f"{free} MiB free for {folder}")
    if needs.host is None:
        return
    free = reading.free_mib[_SHM]
    remedy = f"free {_SHM}, or enlarge it: mount -o remount,size=16G {_SHM} (a container: --shm-size)"
    if free < SHM_FREE_MIB:
        yield Check(_SHM, Verdict.FAIL, f"{free} MiB free, {SHM_FREE_MIB} are needed", remedy)
    elif free < SHM_COMFORTABLE_MIB:
        yield Check(_SHM, Verdict.WARN, f"{free} MiB free: little for NCCL between many GPUs", remedy)
    else:
        yield Check(_SHM, Verdict.OK, f"{free} MiB free")


def _gpus(reading: Reading, needs: Needs) -> Iterator[Check]:
    host = needs.host
    if host is None:
        return
    if host.simulated:
        yield Check("GPUs", Verdict.OK, "simulated: there is no driver")
        return
    found = reading.gpus or {"problem": "not asked"}
    if "problem" in found:
        remedy = "install the driver, or give the container the GPUs; `nvidia-smi` must work there"
        yield Check("driver", Verdict.FAIL, str(found["problem"]), remedy)
        return
    names: list[str] = found["names"]
    yield Check("driver", Verdict.OK, str(found["driver"]))
    others = sorted({name for name in names if not is_kind(name, host.gpu_kind)})
    remedy = f"compare with `nvidia-smi -L`, or correct `gpus:` and `gpu:` of {host.name} in {needs.inventory.file}"
    if len(names) < host.gpus:
        yield Check("GPUs", Verdict.FAIL, f"{len(names)} answer, the inventory says {host.gpus}", remedy)
    elif others:
        finding = f"{', '.join(others)}; the inventory says {host.gpu_kind}"
        yield Check("GPUs", Verdict.FAIL, finding, remedy)
    elif len(names) > host.gpus:
        finding = f"{len(names)} answer, the inventory says {host.gpus}"
        yield Check("GPUs", Verdict.WARN, finding, f"{remedy}; or set CUDA_VISIBLE_DEVICES for the worker")
    else:
        yield Check("GPUs", Verdict.OK, f"{len(names)} x {names[0]}")


def _engines(reading: Reading, needs: Needs) -> Iterator[Check]:
    commands = sorted({words[0] for words in _commands(needs)})
    missing = [word for word in commands if word in reading.missing_programs]
    if missing:
        remedy = f"install the engine there, or correct its `command:` for this host in {needs.inventory.file}"
        yield Check("engines", Verdict.FAIL, f"not there, or not executable: {', '.join(missing)}", remedy)
    elif commands:
        yield Check("engines", Verdict.OK, ", ".join(commands))


def _models(reading: Reading, needs: Needs) -> Iterator[Check]:
    paths = list(_model_paths(needs))
    if missing := [path for path in paths if path in reading.missing_files]:
        remedy = f"put the files there, or correct the path for this host in {needs.inventory.file}"
        yield Check("models", Verdict.FAIL, f"not there: {', '.join(missing)}", remedy)
    elif paths:
        yield Check("models", Verdict.OK, ", ".join(paths))


def _clock(reading: Reading) -> Check:
    remedy = "let the machine's time be kept by NTP (chrony, timesyncd)"
    finding = f"{abs(reading.ahead_s):.1f} s {'ahead of' if reading.ahead_s > 0 else 'behind'} this machine's"
    if abs(reading.ahead_s) > SKEW_FAIL_S:
        return Check("clock", Verdict.FAIL, finding, remedy)
    if abs(reading.ahead_s) > SKEW_WARN_S:
        return Check("clock", Verdict.WARN, finding, remedy)
    return Check("clock", Verdict.OK, "agrees with this machine's")


def _reach(place: tuple[str, str, int], reading: Reading) -> Check:
    name, host, port = place
    problem = reading.unreached.get(name)
    if problem is None:
        return Check(name, Verdict.OK, f"{host}:{port} is reached from the box")
    remedy = f"let {name} listen there and the firewalls pass it"
    if host in _LOOPBACK:
        remedy = f"the box takes {host} for itself: set the URL of {name} to an address that the boxes reach"
    return Check(name, Verdict.FAIL, f"{host}:{port} is not reached from the box: {problem}", remedy)


def _certificates(reading: Reading, needs: Needs) -> Iterator[Check]:
    if missing := [path for path in needs.certificates if path in reading.missing_files]:
        remedy = "the URLs name them, so copy them to the same place there, readable for every account"
        yield Check("certificates", Verdict.FAIL, f"not there: {', '.join(missing)}", remedy)
    elif needs.certificates:
        yield Check("certificates", Verdict.OK, ", ".join(needs.certificates))


def _services(reading: Reading) -> Check:
    return Check("services", Verdict.OK, "systemd" if reading.systemd else "no systemd: by supervisord")


def _commands(needs: Needs) -> Iterator[Sequence[str]]:
    """What starts the engines of this host; those that ddqueue's own interpreter runs are not asked for."""
    host = needs.host
    if host is None:
        return
    for profile in needs.inventory.engines.values():
        words = on_host(profile.commands, host.name)
        if profile.simulated == host.simulated and words and "{python}" not in words[0]:
            yield words
    if host.borrow is not None:
        yield host.borrow.take
        yield host.borrow.give_back


def _model_paths(needs: Needs) -> Iterator[str]:
    """Those this host is to have; a simulated one needs no files."""
    host = needs.host
    if host is None or host.simulated:
        return
    for model in needs.inventory.models.values():
        drafter = model.drafter.paths if model.drafter is not None else {}
        for paths in (model.paths, drafter):
            path = on_host(paths, host.name)
            if path is not None:
                yield path
