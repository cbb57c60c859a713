"""Start-up up to the bound port, phase by phase, in SGLang's words and order, with the memory each phase takes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ddqueue.sim.arguments import SimOptions
from ddqueue.sim.drafter import Drafter
from ddqueue.sim.faults import FaultKind
from ddqueue.sim.gpus import SimulatedGpus
from ddqueue.sim.log import ServerLog, bar
from ddqueue.sim.resolution import context_length, most_running
from ddqueue.sim.scheduler_process import SchedulerProcess

WEIGHTS_SHARE = 0.2
"""Part of a GPU's memory that the weights take; --mem-fraction-static must leave room beyond it."""
CAPTURE_SHARE = 0.02
"""Part that the captured graphs take, beside --mem-fraction-static."""
KV_TOKENS_PER_SHARE = 800_000
"""Tokens that the KV cache would hold if it had all of every GPU's memory."""
MEMORY_TOTAL_MIB = 97_887
"""Of each GPU where no simulated GPUs are kept."""

_UNBALANCED_BELOW = 0.9
_LOAD_STEPS = 8
_SPECULATIVE_BATCHES = (*range(1, 9), *range(10, 33, 2), *range(40, 161, 8))
_PLAIN_BATCHES = (1, 2, 4, 8, 12, 16, *range(24, 161, 8))
_DEFAULT_LARGEST_BATCH = 32

_SHARES = {"init": 0.15, "load": 0.4, "kv": 0.05, "capture": 0.3, "ready": 0.1}
"""How the scripted start-up time is spent."""


class SchedulerException(Exception):
    """The scheduler process hit an exception that ends the whole server; the text is its last lines."""


class StartUp:
    """The scripted start of one server's scheduler."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        options: SimOptions,
        drafter: Drafter | None,
        log: ServerLog,
        scheduler: SchedulerProcess,
        gpus: SimulatedGpus | None,
        indexes: Sequence[int],
    ) -> None:
        self._settings = settings
        self._options = options
        self._drafter = drafter
        self._log = log
        self._scheduler = scheduler
        self._gpus = gpus
        self._indexes = indexes
        self._held_mib = 0
        self._total_mib = gpus.read()[0].memory_total_mib if gpus else MEMORY_TOTAL_MIB

    @property
    def max_total_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        room = round(max(self._fraction - WEIGHTS_SHARE, 0.0) * KV_TOKENS_PER_SHARE)
        return min(self._settings["max_total_tokens"] or room, room)

    async def run(self) -> None:
        """Everything before the port is bound.

        Raises:
            SchedulerException: the start failed as a real one would.
        """
        await self._init()
        await self._load()
        await self._allocate()
        await self._capture()
        self._log.rank_line(
            f"max_total_num_tokens={self.max_total_tokens},"
            f" chunked_prefill_size={self._settings['chunked_prefill_size']},"
            f" max_prefill_tokens={self._settings['max_prefill_tokens']},"
            f" max_running_requests={most_running(self._settings)},"
            f" context_len={context_length(self._settings)}, available_gpu_mem={self._free_gb()} GB"
        )

    async def strike(self, phase: str) -> None:
        """Carry out a crash or hang asked for in this phase; returns when there is none."""
        if self._options.faults.find(FaultKind.CRASH, phase):
            self._scheduler.kill()
            await asyncio.Event().wait()
        if self._options.faults.find(FaultKind.HANG, phase):
            await asyncio.Event().wait()

    async def spend(self, phase: str, share: float = 1.0) -> None:
        """Let part of the phase's scripted time pass."""
        await asyncio.sleep(self._options.startup_s * _SHARES[phase] * share)

    @property
    def _fraction(self) -> float:
        return float(self._settings["mem_fraction_static"])

    async def _init(self) -> None:
        self._log.every_rank("Init torch distributed begin.")
        if self._gpus and max(self._indexes) >= self._gpus.count:
            raise SchedulerException(
                "torch.AcceleratorError: CUDA error: invalid device ordinal\n"
                "GPU device may be out of range, do you have enough GPUs?"
            )
        await self.strike("init")
        await self.spend("init")
        self._log.every_rank("Init torch distributed ends. elapsed=0.19 s, mem usage=0.09 GB")
        free_mib = self._free_mib()
        if min(free_mib) < _UNBALANCED_BELOW * max(free_mib):
            raise SchedulerException(
                "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."
                f" pre_model_load_memory={min(free_mib) / 1024:.2f}, local_gpu_memory={max(free_mib) / 1024:.2f}"
            )

    async def _load(self) -> None:
        weights_mib = int(WEIGHTS_SHARE * self._total_mib)
        self._log.every_rank(f"Load weight begin. avail mem={self._free_gb()} GB")
        if self._options.faults.find(FaultKind.OOM, "load") or min(self._free_mib()) < weights_mib:
            raise SchedulerException(self._out_of_memory("torch.OutOfMemoryError: "))
        what = "Loading safetensors checkpoint shards: "
        for step in range(_LOAD_STEPS + 1):
            percent = step * 100 // _LOAD_STEPS
            self._log.raw(f"\r{what}{percent:3}% Completed | {step}/{_LOAD_STEPS} [00:00<?, ?it/s]")
            if step == _LOAD_STEPS // 2:
                await self.strike("load")
            await self.spend("load", 1 / (_LOAD_STEPS + 1))
        self._log.raw("\n")
        self._hold(weights_mib)
        memory = f"avail mem={self._free_gb()} GB, mem usage={weights_mib / 1024:.2f} GB."
        self._log.every_rank(f"Load weight end. elapsed=0.10 s, type=SimulatedForCausalLM, {memory}")
        if self._drafter is not None:
            self._load_drafter(self._drafter)

    def _load_drafter(self, drafter: Drafter) -> None:
        algorithm = self._settings["speculative_algorithm"]
        is_block_drafter = algorithm in ("DFLASH", "DDTREE")
        model = "DFlashDraftModel" if is_block_drafter else f"{algorithm.title()}DraftModel"
        self._log.rank_line("Init torch distributed begin.")
        self._log.rank_line("Init torch distributed ends. elapsed=0.00 s, mem usage=0.00 GB")
        self._log.rank_line(f"Load weight begin. avail mem={self._free_gb()} GB")
        self._log.rank_line(
            f"Load weight end. elapsed=0.01 s, type={model}, avail mem={self._free_gb()} GB, mem usage=0.01 GB."
        )
        trained = self._options.trained_block_size
        if is_block_drafter and drafter.block_size != trained:
            self._log.rank_line(
                f"DFLASH block size mismatch: using speculative_num_draft_tokens={drafter.block_size} but draft config"
                f" block_size={trained}."
            )
        self._log.rank_line(
            f"Initialized {algorithm} draft runner. attention_backend={self._settings['attention_backend']},"
            f" model={model}, block_size={drafter.block_size},"
            f" draft_window_size={self._settings['speculative_draft_window_size']}, compact_cache=False"
        )

    async def _allocate(self) -> None:
        await self.strike("kv")
        await self.spend("kv")
        if self._options.faults.find(FaultKind.OOM, "kv") or self._fraction <= WEIGHTS_SHARE:
            raise SchedulerException(
                "ValueError: Loaded weights leave no GPU memory for the KV cache under"
                f" --mem-fraction-static={self._settings['mem_fraction_static']}. Raise --mem-fraction-static above"
                f" {WEIGHTS_SHARE:.3f} (minimum viable = 1 - available/pre = {WEIGHTS_SHARE:.4f}). If using speculative"
                " decoding, draft weights are now counted."
            )
        self._hold(int(self._fraction * self._total_mib))
        half_gb = (self._fraction - WEIGHTS_SHARE) * self._total_mib / 2048
        sizes = f"K size: {half_gb:.2f} GB, V size: {half_gb:.2f} GB"
        self._log.every_rank(f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {self.max_total_tokens}, {sizes}")
        self._log.every_rank(f"Memory pool end. avail mem={self._free_gb()} GB")
        if self._drafter is not None:
            self._log.rank_line(
                f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {self.max_total_tokens}, K size: 0.03 GB,"
                " V size: 0.03 GB"
            )
            self._log.rank_line(f"Memory pool end. avail mem={self._free_gb()} GB")

    async def _capture(self) -> None:
        if self._settings["disable_cuda_graph"] or self._settings["disable_decode_cuda_graph"]:
            return
        speculative = self._drafter is not None
        largest = self._settings["cuda_graph_max_bs_decode"] or _DEFAULT_LARGEST_BATCH
        batches = [size for size in (_SPECULATIVE_BATCHES if speculative else _PLAIN_BATCHES) if size <= largest]
        graphs = ("target verify", "draft verify") if speculative else ("target decode",)
        width = self._drafter.verify_tokens if self._drafter else 1
        for graph in graphs:
            self._log.rank_line(
                f"Capture {graph} CUDA graph begin. backend=full, num_tokens_per_bs={width}, bs={batches},"
                f" avail mem={self._free_gb()} GB"
            )
            await self._capture_batches(list(reversed(batches)), 1 / len(graphs))
            self._hold(int((self._fraction + CAPTURE_SHARE) * self._total_mib))
            used_gb = CAPTURE_SHARE * self._total_mib / 1024
            self._log.rank_line(
                f"Capture {graph} CUDA graph end. elapsed=0.98 s, mem usage={used_gb:.2f} GB,"
                f" avail mem={self._free_gb()} GB."
            )

    async def _capture_batches(self, batches: Sequence[int], share: float) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        slow = self._options.faults.find(FaultKind.SLOW, "capture")
        out_of_memory = self._options.faults.find(FaultKind.OOM, "capture") is not None
        for done, size in enumerate(batches):
            what = f"Capturing batches (bs={size} avail_mem={self._free_gb()} GB): "
            self._log.raw(bar(done, len(batches), what, loop.time() - began_s))
            if done == len(batches) // 2:
                await self.strike("capture")
                if out_of_memory or self._fraction + CAPTURE_SHARE > 1.0:
                    self._log.raw("\n")
                    raise SchedulerException(
                        f"Exception: Capture cuda graph failed: {self._out_of_memory('')}\n"
                        "Possible solutions:\n"
                        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
                        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)\n"
                        "3. disable torch compile by not using --enable-torch-compile\n"
                        "4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)"
                    )
            if slow:
                await asyncio.sleep(slow.number(0.5))
            await self.spend("capture", share / len(batches))
        what = f"Capturing batches (bs={batches[-1]} avail_mem={self._free_gb()} GB): "
        self._log.raw(bar(len(batches), len(batches), what, loop.time() - began_s) + "\n")

    def _out_of_memory(self, kind: str) -> str:
        return (
            f"{kind}CUDA out of memory. Tried to allocate 448.00 MiB. GPU {self._indexes[0]} has a total capacity of"
            f" {self._total_mib / 1024:.2f} GiB of which {min(min(self._free_mib()), 312):.2f} MiB is free."
        )

    def _hold(self, mib: int) -> None:
        self._held_mib = mib
        self._scheduler.hold(mib)

    def _free_mib(self) -> list[int]:
        if self._gpus is None:
            return [self._total_mib - self._held_mib]
        readings = self._gpus.read()
        return [readings[index].memory_total_mib - readings[index].memory_used_mib for index in self._indexes]

    def _free_gb(self) -> str:
        return f"{min(self._free_mib()) / 1024:.2f}"
