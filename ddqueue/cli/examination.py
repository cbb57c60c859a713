"""What `ddqueue doctor` looks at on one host, each look composed from the part that knows."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from ddqueue import __version__, bootstrap, settings
from ddqueue.domain.failures import AttemptFailure
from ddqueue.domain.health import Check, Verdict
from ddqueue.domain.inventory import EngineProfile, Host, Inventory, Model, on_host
from ddqueue.engine.asking import ask as ask_build
from ddqueue.engine.capabilities import BuildReader, interpreter_of
from ddqueue.errors import NotReachable
from ddqueue.files.model_config import look as look_at_model
from ddqueue.gpu import box
from ddqueue.gpu.bandwidth import MEASURE_LIMIT_S, PROBE, START_LIMIT_S, judge, measured_now, read_probe
from ddqueue.gpu.doctor import check_gpus
from ddqueue.gpu.fitness import is_idle
from ddqueue.gpu.ownership import LOCK_VARIABLE, KernelOwnership
from ddqueue.gpu.visible import cuda_environment
from ddqueue.ports import GpuInspector, HostLock
from ddqueue.services.doctor import Look, check_database, check_version
from ddqueue.services.preflight import NO_WEIGHTS

_BUILD_LIMIT_S = 60.0
_DATABASE_LIMIT_S = 5.0
_BROKER_LIMIT_S = 3.0
_PLACEHOLDER = "{python}"


@dataclass(frozen=True)
class Holding:
    """Whether the doctor owns the host's GPUs; without `lock`, `problem` says why it does not."""

    lock: HostLock | None = None
    at_work: bool = False
    problem: str = ""


@contextlib.contextmanager
def holding(host: Host) -> Iterator[Holding]:
    """Own the host for the time of an examination, so that no attempt starts while its GPUs are measured."""
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(KernelOwnership(settings.locks_folder()).own(host.name))
            held = Holding(lock, at_work=lock is None, problem="" if lock else "an attempt owns the GPUs just now")
        except (AttemptFailure, OSError) as error:
            held = Holding(problem=f"the host's lock cannot be had: {error}")
        yield held


@dataclass
class Examination:
    """One host's looks. `bandwidth` holds what was measured, when and on which GPUs, once the looks were made."""

    known: Inventory
    host: Host
    held: Holding
    measure: bool
    bandwidth: dict[str, Any] = field(default_factory=dict)

    def looks(self) -> list[Look]:
        """In the order of a person's questions: the GPUs, the box, what is to run there, the servers."""
        inspector = bootstrap.gpu_inspector(self.host)
        return [
            Look("GPUs", partial(check_gpus, inspector, self.host.gpus, self.host.gpu_kind, self.held.at_work)),
            Look("/dev/shm", lambda: [box.check_shared_memory()]),
            Look("room", self._check_room),
            Look("open files", lambda: [box.check_open_files()]),
            Look("lock folder", lambda: [box.check_locks(settings.locks_folder())]),
            *(Look(f"model {model.name}", partial(self._check_model, model)) for model in self._models()),
            *(Look(f"engine {profile.name}", partial(self._check_engine, profile)) for profile in self._profiles()),
            Look("database", _check_database),
            Look("broker", _check_broker),
            Look("bandwidth", partial(self._measure, inspector)),
        ]

    def _check_room(self) -> list[Check]:
        return [
            box.check_room("room for logs", settings.logs_folder(), box.LOGS_FREE_MIB),
            box.check_room("room for caches", settings.caches_folder(self.host.name), box.CACHES_FREE_MIB),
        ]

    def _models(self) -> list[Model]:
        """Those this host is to have; a simulated one needs no files."""
        if self.host.simulated:
            return []
        return [model for model in self.known.models.values() if on_host(model.paths, self.host.name) is not None]

    def _profiles(self) -> list[EngineProfile]:
        return [
            profile
            for profile in self.known.engines.values()
            if profile.simulated == self.host.simulated and on_host(profile.commands, self.host.name) is not None
        ]

    def _check_model(self, model: Model) -> list[Check]:
        name = f"model {model.name}"
        path = on_host(model.paths, self.host.name)
        drafter = on_host(model.drafter.paths, self.host.name) if model.drafter else None
        problems: list[str] = []
        if path is not None:
            problems += look_at_model(path, weights=self._loads_weights("load-format")).problems
        if drafter is not None:
            weights = self._loads_weights("speculative-draft-load-format")
            problems += look_at_model(drafter, weights=weights, tokenizer=False).problems  # it may use its target's
        if not problems:
            return [Check(name, Verdict.OK, ", ".join(one for one in (path, drafter) if one is not None))]
        remedy = f"put the files there, or correct the path for {self.host.name} in {self.known.file}"
        return [Check(name, Verdict.FAIL, "; ".join(problems), remedy)]

    def _loads_weights(self, argument: str) -> bool:
        """Whether any engine here reads weights from the folder; one for tests may make them up."""
        profiles = self._profiles()
        return not profiles or any(profile.args.get(argument) not in NO_WEIGHTS for profile in profiles)

    def _check_engine(self, profile: EngineProfile) -> list[Check]:
        """Ask the build; the answer is kept, so that the first attempt need not wait for it."""
        reader = BuildReader(settings.caches_folder(self.host.name) / "builds", limit_s=_BUILD_LIMIT_S)
        name = f"engine {profile.name}"
        build = reader.ask(self._command(profile), profile.env)
        versions = ", ".join(f"{part} {said}" for part, said in build.versions.items() if said)
        if build.problem:
            return [Check(name, Verdict.WARN, build.problem, "start it by hand with --help and see what it says")]
        return [Check(name, Verdict.OK, f"{versions or 'no version said'}; {len(build.flags)} flags")]

    def _command(self, profile: EngineProfile) -> tuple[str, ...]:
        words = on_host(profile.commands, self.host.name) or ()
        return tuple(word.replace(_PLACEHOLDER, sys.executable) for word in words)

    def _measure(self, inspector: GpuInspector) -> list[Check]:
        name = "bandwidth"
        if self.host.simulated:
            return [Check(name, Verdict.OK, "simulated GPUs: not measured")]
        if not self.measure:
            return [Check(name, Verdict.OK, "not measured: --no-measure")]
        if self.held.lock is None:
            return [Check(name, Verdict.WARN, f"not measured: {self.held.problem}", "ask again while it is idle")]
        readings = inspector.read()
        if not all(is_idle(reading) for reading in readings):
            return [Check(name, Verdict.WARN, "not measured: the GPUs are not idle", "see `idle` above")]
        found = self._probe(self.held.lock, cuda_environment(readings))
        if isinstance(found, Check):
            return [found]
        measured = read_probe(found, [reading.index for reading in readings])
        if measured is None:
            remedy = "run the engine's interpreter by hand: python -c 'import torch; print(torch.cuda.device_count())'"
            return [Check(name, Verdict.WARN, f"not measured: {_last_line(found)}", remedy)]
        self.bandwidth.update(measured_now(measured, [reading.uuid for reading in readings]))
        return judge(measured, inspector.describe()["topology"])

    def _probe(self, lock: HostLock, environment: dict[str, str]) -> str | Check:
        """What the probe printed, run by the first engine whose interpreter can be found."""
        for profile in self._profiles():
            interpreter = interpreter_of(self._command(profile))
            if interpreter is None:
                continue
            # Marked with the lock, so that whoever owns the host next ends a probe whose doctor has died.
            marked = {**profile.env, **environment, LOCK_VARIABLE: lock.path}
            words = (interpreter, "-c", PROBE.read_text(encoding="utf-8"), str(MEASURE_LIMIT_S))
            return ask_build(words, marked, MEASURE_LIMIT_S + START_LIMIT_S, lambda: None).text
        return Check("bandwidth", Verdict.WARN, "not measured: no engine here names a Python", "see `command:` of them")


def _check_database() -> Sequence[Check]:
    from ddqueue.storage.asking import ask
    from ddqueue.storage.compatibility import KNOWN, schema_state
    from ddqueue.storage.pooled_reads import PooledReads
    from ddqueue.storage.reading import PostgresReader

    url = settings.database_url()

    def clock() -> datetime:
        now: datetime = ask(url, "SELECT clock_timestamp()", _DATABASE_LIMIT_S).rows[0][0]
        return now

    engine = bootstrap.sql_engine("ddqueue doctor")
    try:
        checks = check_database(lambda: schema_state(engine), KNOWN, clock)
        if checks[0].verdict is not Verdict.FAIL:
            checks += check_version(__version__, PostgresReader(PooledReads(engine)).dispatchers)
        return checks
    finally:
        engine.dispose()


def _check_broker() -> Sequence[Check]:
    import redis

    from ddqueue.queue.tls import broker_tls

    limits = {"socket_timeout": _BROKER_LIMIT_S, "socket_connect_timeout": _BROKER_LIMIT_S}
    try:
        url, tls = broker_tls(settings.redis_url())
        with redis.Redis.from_url(url, **limits, **(tls or {})) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        raise NotReachable(f"the broker did not answer: {error}") from error
    return [Check("broker", Verdict.OK, "reachable")]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "the probe printed nothing within its time"
