"""One server's life: start-up, the bound port, the warm-up, serving, and the ways it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from ddqueue.sim import words
from ddqueue.sim.arguments import SimOptions
from ddqueue.sim.context import ServerContext
from ddqueue.sim.drafter import Drafter
from ddqueue.sim.http import application
from ddqueue.sim.log import ServerLog
from ddqueue.sim.prefix_cache import PrefixCache
from ddqueue.sim.resolution import most_running
from ddqueue.sim.scheduler import Scheduler
from ddqueue.sim.scheduler_process import SchedulerProcess
from ddqueue.sim.serving import Serving
from ddqueue.sim.startup import SchedulerException, StartUp

PORT_BUSY_EXIT = 3
_READY_LINE = "The server is fired up and ready to roll!"
_DRAIN_S = 0.3
_DRAIN_POLL_S = 0.02
_CRASH_PAUSE_S = 0.5
"""SGLang waits 5 s before it looks into a crash."""
_CORE_DUMPS_S = 60.0
_WARM_UP_TOKENS = 8
_WARM_UP_PROMPT = "The capital city of France is"
_OTHER_SERVER_S = 2.0


class LiveServer:
    """Runs in the parent process; every end but a failed start kills the whole process tree, as SGLang does."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        options: SimOptions,
        drafter: Drafter | None,
        log: ServerLog,
        scheduler_process: SchedulerProcess,
        start_up: StartUp,
        tell_busy: Callable[[bool], None],
    ) -> None:
        self._settings = settings
        self._options = options
        self._drafter = drafter
        self._log = log
        self._scheduler_process = scheduler_process
        self._start_up = start_up
        self._tell_busy = tell_busy
        self._scheduler_died = asyncio.Event()
        self._rank_lost = asyncio.Event()
        self._terminate = asyncio.Event()
        self._exceptions: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        """Start, serve, end.

        Raises:
            RuntimeError: the scheduler died during start-up.
        """
        loop = asyncio.get_running_loop()
        loop.add_reader(self._scheduler_process.answers, self._on_scheduler_death)
        await self._start()
        serving = self._make_serving()
        context = ServerContext(self._settings, self._options, self._drafter, serving, self._log)
        runner = web.AppRunner(application(context), access_log=None, handler_cancellation=True)
        await runner.setup()
        await self._bind(runner)
        loop.add_signal_handler(signal.SIGTERM, self._terminate.set)
        tasks = [asyncio.create_task(serving.run()), asyncio.create_task(self._warm_up(context))]
        try:
            await self._until_the_end(serving)
        finally:
            for task in tasks:
                task.cancel()

    def _on_scheduler_death(self) -> None:
        asyncio.get_running_loop().remove_reader(self._scheduler_process.answers)
        self._scheduler_died.set()

    async def _start(self) -> None:
        start = asyncio.create_task(self._start_up.run())
        death = asyncio.create_task(self._scheduler_died.wait())
        await asyncio.wait((start, death), return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            start.cancel()
            raise RuntimeError(
                f"Rank 0 scheduler died during initialization (exit code: {self._scheduler_process.exit_code()}). If"
                " exit code is -9 (SIGKILL), a common cause is the OS OOM killer."
            )
        death.cancel()
        try:
            start.result()
        except SchedulerException as error:
            self._end_by_exception(str(error))

    def _make_serving(self) -> Serving:
        settings = self._settings
        scheduler = Scheduler(
            self._options.box,
            self._drafter,
            most_running(settings),
            self._start_up.max_total_tokens,
            settings["chunked_prefill_size"],
            settings["speculative_draft_window_size"],
            self._options.noise,
            settings["random_seed"],
        )
        capacity = 0 if settings["disable_radix_cache"] else scheduler.max_total_tokens
        return Serving(
            scheduler,
            self._drafter,
            PrefixCache(capacity),
            self._log,
            self._options.faults,
            settings["random_seed"],
            settings["decode_log_interval"],
            lose_scheduler=self._scheduler_process.kill,
            lose_rank=self._rank_lost.set,
            hit_exception=self._exceptions.put_nowait,
            tell_busy=self._tell_busy,
        )

    async def _bind(self, runner: web.AppRunner) -> None:
        host, port = self._settings["host"], self._settings["port"]
        self._log.line(f"INFO:     Started server process [{os.getpid()}]")
        self._log.line("INFO:     Waiting for application startup.")
        self._log.line("INFO:     Application startup complete.")
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            self._log.line(
                f"ERROR:    [Errno {error.errno}] error while attempting to bind on address ('{host}', {port}): address"
                " already in use"
            )
            # The warm-up does not know: it asks whoever answers on the port, and takes that for its own server.
            if await _answers_like_sglang(f"http://{host}:{port}"):
                self._log.line(_READY_LINE)
            self._log.line("INFO:     Waiting for application shutdown.")
            self._scheduler_process.kill()
            self._scheduler_process.exit_code()
            os._exit(PORT_BUSY_EXIT)
        self._log.line(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")

    async def _warm_up(self, context: ServerContext) -> None:
        await self._start_up.strike("ready")
        await self._start_up.spend("ready")
        peer = f"{self._settings['host']}:0"
        self._log.access(peer, "GET /model_info HTTP/1.1", 200)
        if not self._settings["skip_server_warmup"]:
            request = context.serving.submit(
                words.tokenize(_WARM_UP_PROMPT), words.answer_ids(0, _WARM_UP_TOKENS), stops_by_itself=False
            )
            output_tokens = 0
            while not request.ended(output_tokens):
                output_tokens = await request.updates.get()
            self._log.access(peer, "POST /generate HTTP/1.1", 200)
        context.ready = True
        self._log.line(_READY_LINE)

    async def _until_the_end(self, serving: Serving) -> NoReturn:
        terminated = asyncio.create_task(self._terminate.wait())
        died = asyncio.create_task(self._scheduler_died.wait())
        lost = asyncio.create_task(self._rank_lost.wait())
        failed = asyncio.create_task(self._exceptions.get())
        await asyncio.wait((terminated, died, lost, failed), return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            self._end_by_exception(failed.result())
        if lost.done():
            await self._linger()
        elif not died.done():
            await self._drain(serving, died)
        if died.done():
            await self._end_by_crash(serving)
        self._kill_process_tree()

    async def _drain(self, serving: Serving, died: asyncio.Task[bool]) -> None:
        self._log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        await asyncio.sleep(_DRAIN_S)
        while not serving.idle and not died.done():
            await asyncio.sleep(_DRAIN_POLL_S)
        remaining = serving.request_ids
        self._log.line(
            f"Gracefully exiting... Remaining number of requests {len(remaining)}. Remaining requests"
            f" remaining_rids={remaining}."
        )

    async def _end_by_crash(self, serving: Serving) -> None:
        serving.stalled = True
        child = self._scheduler_process
        self._log.line(
            f"Subprocess scheduler_0 (pid={child.pid}) crashed with exit code {child.exit_code()}. Triggering SIGQUIT"
            " for cleanup..."
        )
        self._log.line("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        await asyncio.sleep(_CRASH_PAUSE_S)
        self._log.line("No live scheduler processes found; skipping py-spy and CUDA coredump.")

    async def _linger(self) -> None:
        """As seen with two ranks on two H200s, one of them killed: SIGTERM is not heard meanwhile."""
        self._log.rank_line(
            "Scheduler hit an exception: Traceback (most recent call last):\n"
            '  File "sglang/srt/utils/common.py", line 2152, in broadcast_pyobj\n'
            "    dist.broadcast(tensor_size, src=src, group=dist_group)\n"
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Read error [127.0.0.1]:39821:"
            " Connection reset by peer\n"
        )
        self._log.line("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        self._log.line("Sleeping 5 seconds before crash diagnostics to let GPU activity settle.")
        await asyncio.sleep(_CRASH_PAUSE_S)
        self._log.line("Waiting 60.0 seconds for CUDA coredumps before exiting.")
        await asyncio.sleep(_CORE_DUMPS_S)

    def _end_by_exception(self, text: str) -> NoReturn:
        self._log.rank_line(
            "Scheduler hit an exception: Traceback (most recent call last):\n"
            '  File "sglang/srt/managers/scheduler.py", line 4313, in run_scheduler_process\n'
            f"    scheduler = Scheduler(\n                ^^^^^^^^^^\n{text}\n"
        )
        self._log.line("Received sigquit from a child process. It usually means the child failed.")
        self._kill_process_tree()

    def _kill_process_tree(self) -> NoReturn:
        pid = os.getpid()
        self._log.line(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")
        self._scheduler_process.kill()
        os.kill(pid, signal.SIGKILL)
        raise AssertionError("unreachable: SIGKILL cannot be survived")


async def _answers_like_sglang(url: str) -> bool:
    with suppress(ClientError, OSError, asyncio.TimeoutError):
        async with (
            ClientSession(timeout=ClientTimeout(total=_OTHER_SERVER_S)) as session,
            session.get(f"{url}/model_info") as response,
        ):
            return response.status == 200
    return False
