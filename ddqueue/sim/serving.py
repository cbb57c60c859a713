"""The scheduler in real time: steps end at deadlines of a schedule, so that lateness of one does not delay the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import uuid4

from ddqueue.sim.drafter import Drafter
from ddqueue.sim.faults import MIDSTREAM_FROM_TOKENS, FaultKind, Faults
from ddqueue.sim.log import ServerLog
from ddqueue.sim.prefix_cache import PrefixCache
from ddqueue.sim.scheduler import Generation, Scheduler, Step, StepKind

_LATEST_S = 1.0
"""A process that was stopped for longer than this starts a new schedule instead of catching up."""
_CONCURRENCY_UNDER_LOAD = 2
_STALL_AFTER_TOKENS = 16


@dataclass(eq=False)
class LiveRequest:
    """One request being served. Times named `_ts` are seconds since the epoch, `_s` of the monotonic clock."""

    generation: Generation
    output_ids: Sequence[int]
    stops_by_itself: bool
    received_s: float
    received_ts: float
    updates: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    """The number of output tokens after each step that brought some."""
    finished_ts: float | None = None
    silent: bool = False

    def ended(self, output_tokens: int) -> bool:
        """Whether the update with this many tokens is the last one."""
        return self.generation.finished and output_tokens == self.generation.output_tokens


class Serving:
    """Feeds the scheduler and tells each request of its tokens.

    `lose_scheduler` is called when a fault kills the scheduler, `hit_exception` when serving ends by an exception,
    `tell_busy` when there is something to compute and when there is nothing any more.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        drafter: Drafter | None,
        cache: PrefixCache,
        log: ServerLog,
        faults: Faults,
        seed: int,
        decode_log_interval: int,
        lose_scheduler: Callable[[], None],
        lose_rank: Callable[[], None],
        hit_exception: Callable[[str], None],
        tell_busy: Callable[[bool], None],
    ) -> None:
        self.scheduler = scheduler
        self._drafter = drafter
        self.cache = cache
        self.stalled = False
        self.output_tokens = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.requests = 0
        self.throughput_tok_s = 0.0
        self._log = log
        self._faults = faults
        self._seed = seed
        self._decode_log_interval = decode_log_interval
        self._lose_scheduler = lose_scheduler
        self._lose_rank = lose_rank
        self._hit_exception = hit_exception
        self._tell_busy = tell_busy
        self._busy = False
        self._live: dict[Generation, LiveRequest] = {}
        self._work = asyncio.Event()
        self._decode_steps = 0
        self._since_log = (0.0, 0)

    @property
    def idle(self) -> bool:
        return self.scheduler.idle and not self._live

    @property
    def request_ids(self) -> list[str]:
        """Of the requests in flight."""
        return [generation.rid for generation in self._live]

    def submit(
        self, prompt_ids: Sequence[int], output_ids: Sequence[int], stops_by_itself: bool, rid: str | None = None
    ) -> LiveRequest:
        """Queue a request that will answer `output_ids`; `stops_by_itself` = it ends before its limit."""
        limit = len(output_ids)
        if limit >= MIDSTREAM_FROM_TOKENS and self._faults.find(FaultKind.SHORT):
            limit, stops_by_itself = limit // 2, True
        # Seeded by the prompt, so that the same prompt meets the same luck on every server with this seed.
        luck = Random(f"{self._seed}/{hash(tuple(prompt_ids))}")
        generation = Generation(rid or uuid4().hex, len(prompt_ids), limit, luck, self.cache.cached_tokens(prompt_ids))
        self.cache.add(prompt_ids)
        request = LiveRequest(
            generation, output_ids[:limit], stops_by_itself, asyncio.get_running_loop().time(), time.time()
        )
        self._live[generation] = request
        self.requests += 1
        self.prompt_tokens += generation.prompt_tokens
        self.cached_tokens += generation.cached_tokens
        self.scheduler.submit(generation)
        self._work.set()
        return request

    def abort(self, request: LiveRequest) -> None:
        """Stop working on a request; one that has finished stays as it is."""
        self.scheduler.abort(request.generation)
        self._live.pop(request.generation, None)
        request.updates.put_nowait(request.generation.output_tokens)

    def abort_by_id(self, rid: str, everything: bool = False) -> None:
        for request in list(self._live.values()):
            if everything or request.generation.rid.startswith(rid):
                self.abort(request)

    async def run(self) -> None:
        """Serve until cancelled."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time()
        while True:
            step = None if self.stalled else self.scheduler.begin()
            if step is None:
                self._work.clear()
                self._set_busy(False)
                await self._work.wait()
                deadline_s = loop.time()
                continue
            if step.kind is StepKind.PREFILL:
                self._log_prefill(step)
            deadline_s = max(deadline_s, loop.time() - _LATEST_S) + step.duration_s
            self._set_busy(True)  # within the step's own time, so that telling it makes nothing late
            await asyncio.sleep(max(deadline_s - loop.time(), 0.0))
            self._finish(step, deadline_s)

    def _set_busy(self, busy: bool) -> None:
        if busy != self._busy:
            self._busy = busy
            self._tell_busy(busy)

    def _finish(self, step: Step, now_s: float) -> None:
        self._strike(len(step.generations))
        before = {generation: generation.output_tokens for generation in step.generations}
        for generation in self.scheduler.finish(step, now_s):
            self.output_tokens += generation.output_tokens - before[generation]
            request = self._live.get(generation)
            if request is None or request.silent:
                continue
            if generation.finished:
                request.finished_ts = time.time()
                del self._live[generation]
            request.updates.put_nowait(generation.output_tokens)
        if step.kind is StepKind.DECODE:
            self._decode_steps += 1
            if self._decode_steps % self._decode_log_interval == 0:
                self._log_decode(step, now_s)

    def _strike(self, running: int) -> None:
        """Carry out the faults that wait for load."""
        for kind, where in (
            (FaultKind.CRASH, "serving"),
            (FaultKind.RANK_LOST, None),
            (FaultKind.OOM, "run"),
            (FaultKind.STALL, None),
        ):
            fault = self._faults.find(kind, where)
            if fault is None or running < fault.number(_CONCURRENCY_UNDER_LOAD):
                continue
            if kind is FaultKind.STALL:
                self._stall(everything=fault.where == "all")
                continue
            self.stalled = True
            if kind is FaultKind.CRASH:
                self._lose_scheduler()
            elif kind is FaultKind.RANK_LOST:
                self._lose_rank()
            else:
                self._hit_exception(
                    "RuntimeError: Prefill out of memory. Try to lower your batch size.\n"
                    f"Try to allocate 8192 tokens.\nAvailable tokens: {running}"
                )

    def _stall(self, everything: bool) -> None:
        started = [one for one in self._live.values() if one.generation.output_tokens >= _STALL_AFTER_TOKENS]
        if everything:
            self.stalled = self.stalled or bool(started)
        elif started and not any(one.silent for one in self._live.values()):
            started[0].silent = True

    def _log_prefill(self, step: Step) -> None:
        rate = step.new_tokens / step.duration_s
        self._log.rank_line(
            f"Prefill batch, #new-seq: {len(step.generations)}, #new-token: {step.new_tokens},"
            f" #cached-token: {step.cached_tokens}, token usage: {self._usage:.2f},"
            f" #running-req: {len(self.scheduler.running)}, #queue-req: {len(self.scheduler.waiting)},"
            f" #pending-token: 0, cuda graph: False, input throughput (token/s): {rate:.2f}"
        )

    def _log_decode(self, step: Step, now_s: float) -> None:
        verifies = sum(one.verifies for one in step.generations)
        correct = sum(one.correct_drafts for one in step.generations)
        began_s, tokens_then = self._since_log
        self.throughput_tok_s = (self.output_tokens - tokens_then) / (now_s - began_s)
        self._since_log = (now_s, self.output_tokens)
        acceptance = ""
        if self._drafter is not None and verifies:
            rate = correct / (verifies * self._drafter.proposed_tokens)
            acceptance = f"accept len: {1 + correct / verifies:.2f}, accept rate: {rate:.2f}, "
        self._log.rank_line(
            f"Decode batch, #running-req: {len(self.scheduler.running)}, #token: {self.scheduler.used_tokens},"
            f" token usage: {self._usage:.2f}, {acceptance}cuda graph: True,"
            f" gen throughput (token/s): {self.throughput_tok_s:.2f}, #queue-req: {len(self.scheduler.waiting)}"
        )

    @property
    def _usage(self) -> float:
        return self.scheduler.used_tokens / self.scheduler.max_total_tokens
