"""`python -m ddqueue.sim.server`: takes SGLang's arguments, behaves like its server, on simulated GPUs.

The parent serves HTTP and computes the steps; one child, titled like SGLang's scheduler, holds the GPU memory.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ddqueue.errors import UsageError
from ddqueue.sim.arguments import SimOptions, read
from ddqueue.sim.faults import FaultKind
from ddqueue.sim.gpus import NEVER_S, SimulatedGpus
from ddqueue.sim.log import ServerLog
from ddqueue.sim.resolution import check_paths, drafter_for, resolve
from ddqueue.sim.scheduler_process import SchedulerProcess

_NO_SUCH_GPU = 10**6


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Serve until stopped. Ends by an exit status of SGLang's, most often by its own SIGKILL.

    Raises:
        SystemExit: 2 for arguments that are refused.
        ValueError, OSError: a combination that cannot run, a path that is not there: a traceback and exit 1.
    """
    try:
        command = read(arguments, environment)
    except UsageError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from error
    settings, options = command.settings, command.options
    log = ServerLog(settings["tp_size"])
    for deprecation in command.deprecations:
        log.raw(f"\x1b[1;33m{deprecation}\x1b[0m\n")
    check_paths(settings, options)
    for warning in resolve(settings, options):
        log.line(warning)
    log.line(f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in settings.items())})")
    if options.faults.find(FaultKind.GARBAGE, "log"):
        # A bar without newline, colours, a lone byte that is no UTF-8, and a character cut in the middle.
        log.raw(b"\r 10%|\xe2\x96\x88         | 1/10\x1b[31m\xff\xfe\x1b[0m\x00\r\xe2\x96")
    gpus = SimulatedGpus(options.gpus_directory) if options.gpus_directory else None
    indexes = gpu_indexes(settings, gpus, environment.get("CUDA_VISIBLE_DEVICES"))
    kept = options.faults.find(FaultKind.MEMORY_KEPT)
    scheduler = SchedulerProcess.start(options.gpus_directory, indexes, kept.number(NEVER_S) if kept else None)
    _serve(settings, options, log, scheduler, gpus, indexes)


def gpu_indexes(settings: Mapping[str, Any], gpus: SimulatedGpus | None, visible: str | None) -> list[int]:
    """The simulated GPUs of this server's ranks, in PCI order; `visible` is CUDA_VISIBLE_DEVICES, by index or UUID.

    A rank without a GPU gets an index beyond the last.
    """
    count = settings["tp_size"] * settings["pp_size"]
    wanted = [settings["base_gpu_id"] + rank * settings["gpu_id_step"] for rank in range(count)]
    if gpus is None or visible is None:
        return wanted
    by_uuid = {reading.uuid: reading.index for reading in gpus.read()}
    words = [word.strip() for word in visible.split(",") if word.strip()]
    seen = [int(word) if word.isdigit() else by_uuid.get(word, _NO_SUCH_GPU) for word in words]
    return [seen[index] if index < len(seen) else _NO_SUCH_GPU for index in wanted]


def _serve(
    settings: dict[str, Any],
    options: SimOptions,
    log: ServerLog,
    scheduler: SchedulerProcess,
    gpus: SimulatedGpus | None,
    indexes: Sequence[int],
) -> None:
    # aiohttp is imported only now: a refused argument is answered at once, and the forked child stays small.
    from ddqueue.sim.live import LiveServer
    from ddqueue.sim.startup import StartUp

    drafter = drafter_for(settings, options)
    start_up = StartUp(settings, options, drafter, log, scheduler, gpus, indexes)

    def tell_busy(busy: bool) -> None:
        if gpus is not None:
            gpus.work(indexes, os.getpid(), busy)

    asyncio.run(LiveServer(settings, options, drafter, log, scheduler, start_up, tell_busy).run())


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
