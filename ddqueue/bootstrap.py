"""The composition root: which part implements which port."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddqueue import __version__, settings
from ddqueue.errors import DdqueueError, UsageError

if TYPE_CHECKING:  # each is imported where it is composed, so that a command loads only what it needs
    from celery import Celery
    from sqlalchemy import Engine as SqlEngine

    from ddqueue.domain.borrowing import Borrow, Loan
    from ddqueue.domain.coding import Suite
    from ddqueue.domain.inventory import Host, Inventory
    from ddqueue.domain.queueing import Claim
    from ddqueue.ports import GpuInspector, LaunchRequest, LoanRecord, Progress, Telemetry
    from ddqueue.services.borrowing import Borrowing
    from ddqueue.services.dispatch import Dispatch
    from ddqueue.services.execute import Execute
    from ddqueue.services.give_back import GiveBack
    from ddqueue.services.plan import Examine
    from ddqueue.services.preflight import Preflight
    from ddqueue.services.scoring import Scoring
    from ddqueue.services.stopping import StopSignal
    from ddqueue.services.webhooks import DeliverWebhooks
    from ddqueue.storage.reads import PlainReads

log = logging.getLogger(__name__)


def patience() -> settings.Patience:
    """How long ddqueue waits for what."""
    return settings.patience()


def inventory(explicit: Path | None = None) -> Inventory:
    """The inventory of this machine. Raises UsageError or FileError."""
    from ddqueue.files.inventory_file import read_inventory

    return read_inventory(settings.inventory_path(explicit))


def sql_engine(application_name: str) -> SqlEngine:
    """A pool to the database in use. Raises NotReachable when there is none to be found."""
    from ddqueue.storage.engine import connect

    return connect(settings.database_url(), application_name)


@contextmanager
def reads(application_name: str) -> Iterator[PlainReads]:
    """One connection to the database in use, for a command that asks and ends. Raises NotReachable, UsageError."""
    from ddqueue.storage.reads import PlainReads

    with closing(PlainReads(settings.database_url(), application_name)) as opened:
        yield opened


def celery_app() -> Celery:
    """The Celery application on the broker in use.

    Raises:
        NotReachable: there is none to be found, or its certificate does not prove it.
        UsageError: its URL cannot be used.
    """
    from ddqueue.queue.app import make_app
    from ddqueue.queue.tls import check_certificate

    url = settings.redis_url()
    check_certificate(url)
    return make_app(url)


def check_host(name: str) -> Host:
    """The host of that name. Raises UsageError when the inventory of this machine has none."""
    return inventory().host(name)


def check_schema() -> None:
    """Raises SchemaRefused when this version must not work with the database, NotReachable when it does not answer."""
    from ddqueue.storage import compatibility

    engine = sql_engine("ddqueue")
    try:
        compatibility.check_schema(engine)
    finally:
        engine.dispose()


def introduce_worker(host_name: str) -> None:
    """Tell the database which version works on the named host now. Raises SchemaRefused, NotReachable, UsageError."""
    from ddqueue.storage import programs

    host = inventory().host(host_name)
    engine = sql_engine(f"ddqueue worker on {host_name}")
    try:
        programs.introduce_worker(engine, host, loan_record(host_name).read())
    finally:
        engine.dispose()


@contextmanager
def dispatch(should_end: Callable[[], bool]) -> Iterator[Dispatch]:
    """The dispatcher, on real servers."""
    from ddqueue.queue.wakeups import CeleryWakeups
    from ddqueue.services.dispatch import Dispatch
    from ddqueue.storage.dispatching import PostgresDispatchStore

    engine = sql_engine("ddqueue dispatcher")
    store = PostgresDispatchStore(engine, should_end, platform.node())
    try:
        yield Dispatch(store, CeleryWakeups(celery_app()), patience().wake_again_after_s, should_end)
    finally:
        engine.dispose()


@contextmanager
def webhooks(pause: Callable[[float], bool]) -> Iterator[DeliverWebhooks]:
    """What tells webhooks; `pause` as in DeliverWebhooks."""
    from ddqueue.queue.posting import HttpPost
    from ddqueue.services.webhooks import DeliverWebhooks
    from ddqueue.storage.webhooks import PostgresWebhooks

    engine = sql_engine("ddqueue webhooks")
    try:
        yield DeliverWebhooks(PostgresWebhooks(engine), HttpPost(), pause)
    finally:
        engine.dispose()


@contextmanager
def attempt(host_name: str, progress: Progress, stop: StopSignal) -> Iterator[Execute]:
    """One attempt on the named host, with the real or the simulated GPUs that the inventory says it has.

    Raises SchemaRefused when the database has left this version behind: nothing was taken, claimed or written.
    """
    from ddqueue.engine.launcher import SglangEngine
    from ddqueue.engine.limits import StartLimits
    from ddqueue.gpu.cleanroom import GpuCleanRoom
    from ddqueue.gpu.ownership import LOCK_VARIABLE, KernelOwnership
    from ddqueue.gpu.shared_memory import SharedMemory
    from ddqueue.measure.chat import ChatClient
    from ddqueue.measure.process import ClientProcess
    from ddqueue.services.check_coding import CheckCoding
    from ddqueue.services.execute import Execute
    from ddqueue.services.measure_points import MeasurePoints
    from ddqueue.services.serve_and_measure import ServeAndMeasure
    from ddqueue.services.steps import Steps
    from ddqueue.storage.attempts import PostgresAttemptStore
    from ddqueue.storage.journalled import JournalledStore, patiently
    from ddqueue.storage.programs import introduce_worker

    waits = patience()
    known = inventory()
    host = known.host(host_name)
    inspector = gpu_inspector(host)
    engine = sql_engine(f"ddqueue attempt on {host_name}")
    store = JournalledStore(PostgresAttemptStore(engine), settings.journal_folder(host_name), waits.database_away_s)
    steps = Steps(store, progress)
    try:
        loan = loan_record(host_name).read()
        patiently(lambda: introduce_worker(engine, host, loan), _INTRODUCE_LIMIT_S)
        with ClientProcess() as load:
            work = ServeAndMeasure(
                store=store,
                engine=SglangEngine(
                    LOCK_VARIABLE,
                    StartLimits(waits.server_start_s, waits.server_silent_s, waits.compiler_silent_s),
                    lambda it: _host_environment(it, inspector),
                    settings.caches_folder,
                ),
                inventory=known,
                steps=steps,
                stop=stop,
                points=MeasurePoints(store, load, telemetry(inspector), steps, stop),
                coding=CheckCoding(store, ChatClient(), scoring, load_suite, steps, stop),
                preflight=preflight(
                    host_name, stop.check, lambda text: progress.tell("preflight", text), on_host=True
                ).check,
                provenance=lambda claim: _provenance(claim, known, inspector),
                log_path=lambda claim: str(server_log(claim.host, claim.attempt_id)),
            )
            yield Execute(
                store=store,
                ownership=KernelOwnership(settings.locks_folder()),
                borrowing=borrowing(host_name, host.borrow, progress, lambda: engine),
                clean_room=GpuCleanRoom(
                    inspector,
                    host.gpus,
                    host.gpu_kind,
                    waits.gpu_idle_wait_s,
                    SharedMemory(record=settings.locks_folder() / f"{host_name}.shm.json"),
                ),
                work=work,
                stop=stop,
                lease_ttl_s=waits.lease_ttl_s,
            )
    finally:
        engine.dispose()


_INTRODUCE_LIMIT_S = 30.0
"""How long an attempt tries to reach the database before it has done anything."""


def borrowing(
    host_name: str, terms: Borrow | None, progress: Progress, open_engine: Callable[[], SqlEngine]
) -> Borrowing:
    """What takes the named host from production on `terms`, gives it back, and tells the database, which may be away.

    `open_engine` is called only when there is something to tell.
    """
    from ddqueue.gpu.host_commands import ProcessCommands
    from ddqueue.services.borrowing import Borrowing
    from ddqueue.storage.programs import note_loan

    def told(loan: Loan | None) -> None:
        try:
            note_loan(open_engine(), host_name, loan)
        except DdqueueError as error:  # the host's next attempt says it again
            log.warning("the database was not told whose the box is: %s", error)

    return Borrowing(terms, loan_record(host_name), ProcessCommands(), local_time, progress, told)


def loan_record(host_name: str) -> LoanRecord:
    """Where this machine remembers that the named host is borrowed."""
    from ddqueue.gpu.loan_file import LoanFile

    return LoanFile(settings.loan_path(host_name))


def borrow_terms(host_name: str) -> Borrow | None:
    """How the named host is borrowed, None if not at all. Raises UsageError or FileError."""
    return inventory().host(host_name).borrow


def local_time() -> datetime:
    """Now, by this machine's clock and in its zone."""
    return datetime.now().astimezone()


@contextmanager
def give_back(host_name: str, progress: Progress) -> Iterator[GiveBack]:
    """One try to give the named host back. It needs neither a right inventory nor the database."""
    from ddqueue.gpu.ownership import KernelOwnership
    from ddqueue.services.give_back import GiveBack
    from ddqueue.storage.attempts import PostgresAttemptStore
    from ddqueue.storage.journalled import JournalledStore

    try:
        terms = borrow_terms(host_name)
    except UsageError as error:
        log.warning("the host is given back as it was taken: %s", error)
        terms = None
    with ExitStack() as opened:

        @cache
        def open_engine() -> SqlEngine:
            engine = sql_engine(f"ddqueue give back {host_name}")
            opened.callback(engine.dispose)
            return engine

        def open_store() -> JournalledStore:
            store = PostgresAttemptStore(open_engine())
            return JournalledStore(store, settings.journal_folder(host_name), _TELL_LIMIT_S, _TELL_LIMIT_S)

        yield GiveBack(
            host_name,
            KernelOwnership(settings.locks_folder()),
            borrowing(host_name, terms, progress, open_engine),
            open_store,
        )


_TELL_LIMIT_S = 10.0
"""How long giving a box back tries to reach the database, which a stopping worker waits for."""


def telemetry(inspector: GpuInspector) -> Telemetry:
    """Watches the GPUs that `inspector` reads."""
    from ddqueue.gpu.nvml_telemetry import NvmlTelemetryReader
    from ddqueue.gpu.telemetry import GpuTelemetry
    from ddqueue.sim.gpus import SimulatedGpus
    from ddqueue.sim.telemetry import SimulatedTelemetryReader

    if isinstance(inspector, SimulatedGpus):
        return GpuTelemetry(SimulatedTelemetryReader(inspector))
    return GpuTelemetry(NvmlTelemetryReader(inspector))


def load_suite(name: str) -> Suite:
    """The suite of coding problems of that name, or in that folder. Raises UsageError."""
    from ddqueue.coding import suites

    return suites.load_suite(name)


def scoring() -> Scoring:
    """Scores answers to coding problems in the sandbox of this machine."""
    import hashlib

    from ddqueue.coding.grading import Grader
    from ddqueue.domain import code_blocks, extraction
    from ddqueue.services.scoring import Scoring

    # By its text, so that a mended extractor is another one whether or not somebody remembered to count it up.
    rules = b"".join(Path(str(module.__file__)).read_bytes() for module in (extraction, code_blocks))
    scorer = f"ddqueue {__version__}, extractor {hashlib.sha256(rules).hexdigest()[:8]}"
    return Scoring(extraction.extract, Grader(), scorer)


def preflight(host_name: str, should_stop: Callable[[], None], tell: Callable[[str], None], on_host: bool) -> Preflight:
    """The checks before a launch on the named host: on it, or (`on_host` False) on a machine that only plans."""
    from ddqueue.domain.failures import AttemptFailure
    from ddqueue.domain.preflight.build import Build
    from ddqueue.engine import command
    from ddqueue.engine.capabilities import BuildReader, can_start
    from ddqueue.files.model_config import look
    from ddqueue.services.preflight import Preflight

    reader = BuildReader(settings.caches_folder(host_name) / "builds", should_stop=should_stop, tell=tell)

    @cache  # one plan asks for many cells
    def ask(words: tuple[str, ...], environment: tuple[tuple[str, str], ...]) -> Build:
        return reader.ask(words, dict(environment))

    def build(request: LaunchRequest) -> Build:
        words = command.starter(request)
        if not on_host and not can_start(words):
            return Build(problem=f"{words[0]} is not on this machine")
        try:
            return ask(words, tuple(sorted({**request.profile.env, **request.cell.env}.items())))
        except AttemptFailure as failure:
            if on_host:
                raise
            return Build(problem=f"{failure.evidence}, on this machine")  # the host may well have it

    return Preflight(lambda request: command.build(request, port=1).argv, build, cache(look), on_host)


def planning_checks(tell: Callable[[str], None]) -> Examine:
    """What `plan` can check of a job on this machine, for each host by its own paths and commands."""
    checks = cache(lambda host_name: preflight(host_name, lambda: None, tell, on_host=False))
    return lambda request, points: checks(request.host.name).examine(request, points)


def gpu_inspector(host: Host) -> GpuInspector:
    """Reads the host's GPUs. A simulated host's are made when they are not there yet."""
    if not host.simulated:
        from ddqueue.gpu.nvml import NvmlInspector
        from ddqueue.gpu.visible import VisibleGpus

        visible = settings.visible_devices()
        return NvmlInspector() if visible is None else VisibleGpus(NvmlInspector(), visible)
    from ddqueue.sim.gpus import SimulatedGpus

    folder = settings.simulated_gpus_folder(host.name)
    return SimulatedGpus.create(folder, host.gpus, host.gpu_kind, SIMULATED_MEMORY_MIB)


SIMULATED_MEMORY_MIB = 96 * 1024
"""What each simulated GPU holds: the size of an RTX PRO 6000."""


def server_log(host: str, attempt_id: int) -> Path:
    """Where an attempt's server log lies on its host."""
    return settings.logs_folder() / host / f"attempt-{attempt_id}.log"


def _host_environment(host: Host, inspector: GpuInspector) -> Mapping[str, str]:
    """Which GPUs a server sees: exactly the host's, in PCI order, whatever the worker itself was started with."""
    if host.simulated_box is None:
        from ddqueue.gpu.visible import cuda_environment

        return cuda_environment(inspector.read())
    return {
        "DDQUEUE_SIM_BOX": host.simulated_box,
        "DDQUEUE_SIM_GPUS": str(settings.simulated_gpus_folder(host.name)),
    }


def _provenance(claim: Claim, known: Inventory, inspector: GpuInspector) -> Mapping[str, Any]:
    host, profile = known.host(claim.host), known.engine(claim.cell.engine)
    if host.simulated != profile.simulated:
        raise UsageError(f"engine {profile.name} cannot run on {host.name}: one of them is simulated, the other is not")
    from ddqueue.gpu.provenance import describe_host

    examination = settings.examination_path(host.name)
    described = describe_host(inspector, host.simulated, host.interconnect, os.environ, examination)
    return {"ddqueue": __version__, "engine": profile.name, **described}
