"""What the tests on a real GPU are told about their machine, by the environment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from installation import Installation

MODELS = "DDQUEUE_GPU_TEST_MODELS"
"""A folder with `target/` and `draft/`: the trained pair whose acceptance is known (tests/gpu/README.md)."""
ENGINE_PYTHON = "DDQUEUE_GPU_TEST_PYTHON"
"""The interpreter that has SGLang; this one unless named."""
ENGINE_PATH = "DDQUEUE_GPU_TEST_PYTHONPATH"
"""A folder of packages for it, where SGLang is not installed."""
EVIDENCE = "DDQUEUE_GPU_TEST_EVIDENCE"
"""A folder for tables, phase times, raw rows and logs of the run."""

CACHES = "DDQUEUE_GPU_TEST_CACHES"
"""A folder for compile caches that outlasts the run: the first start ever takes a minute or two longer."""

HOST = "gpu-box"
TRAINED_BLOCK_SIZE = 8
KNOWN_ACCEPTANCE = {"bs8 none": (3.13, 3.36), "bs16 none": (2.03, 2.11)}
"""Of the trained pair, on other Python source: from SGLang 0.5.15 by other means (the lowest) to plain PyTorch or
SGLang (the highest)."""
TOLERANCE = 0.15


@dataclass(frozen=True)
class Machine:
    """The machine under test."""

    models: Path
    python: str
    engine_path: str | None
    evidence: Path | None
    caches: Path | None

    @classmethod
    def from_environment(cls) -> Machine | None:
        """None where no models are named: then there is nothing to test on."""
        models = os.environ.get(MODELS)
        if not models:
            return None
        evidence, caches = os.environ.get(EVIDENCE), os.environ.get(CACHES)
        return cls(
            models=Path(models),
            python=os.environ.get(ENGINE_PYTHON) or sys.executable,
            engine_path=os.environ.get(ENGINE_PATH),
            evidence=Path(evidence) if evidence else None,
            caches=Path(caches) if caches else None,
        )

    @property
    def gpus(self) -> list[str]:
        """The names of the GPUs, as the driver gives them."""
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True
        )
        return listed.stdout.split("\n")[:-1]

    def inventory(self, mixtures: Path) -> str:
        """One host, the trained pair, the mixtures of experts made from it (moe_models.py), and SGLang as released,
        with and without our checks before launch."""
        environment = {"HF_HUB_OFFLINE": "1"} | ({"PYTHONPATH": self.engine_path} if self.engine_path else {})
        lines = [f"      {name}: {value!r}" for name, value in environment.items()]
        engines = "\n".join(
            [
                *self._engine("sglang-dflash", lines),
                *self._engine("sglang-unchecked", [*lines]),
                "    preflight: false",
            ]
        )
        return f"""\
hosts:
  {HOST}: {{gpus: {len(self.gpus)}, gpu: {self.gpus[0]!r}}}
models:
  trained-pair:
    path: {self.models}/target
    drafter: {{path: {self.models}/draft, block_size: {TRAINED_BLOCK_SIZE}}}
  moe-upcycled:
    path: {mixtures}/moe-upcycled
    drafter: {{path: {self.models}/draft, block_size: {TRAINED_BLOCK_SIZE}}}
  moe-random:
    path: {mixtures}/moe-random
    drafter: {{path: {mixtures}/moe-random-draft, block_size: {TRAINED_BLOCK_SIZE}}}
engines:
{engines}
"""

    def _engine(self, name: str, environment: list[str]) -> list[str]:
        return [
            f"  {name}:",
            f"    command: [{self.python}, -m, sglang.launch_server]",
            "    settings:",
            "      speculation: "
            '{flags: [--speculative-algorithm, DFLASH, --speculative-draft-model-path, "{drafter}"]}',
            '      block_size: {flags: [--speculative-num-draft-tokens, "{value}"]}',
            '      window: {flags: [--speculative-draft-window-size, "{value}"]}',
            "    args: {attention-backend: triton, sampling-backend: pytorch, max-total-tokens: 65536,"
            " cuda-graph-max-bs: 32, disable-prefill-cuda-graph: true}",
            "    env:",
            *environment,
        ]


def acceptance_length(job: dict[str, Any]) -> float:
    """Tokens per verify over every request of the job's latest attempt."""
    rows = job["attempts"][-1]["measurements"]
    return float(1 + sum(row["correct_drafts"] for row in rows) / sum(row["verifies"] for row in rows))


def mean_at(job: dict[str, Any], concurrency: int) -> dict[str, float]:
    """Means over the repeats of the job's latest attempt."""
    rows = [row for row in job["attempts"][-1]["measurements"] if row["concurrency"] == concurrency]
    names = ("step_time_ms", "acceptance_length", "itl_mean_ms")
    return {name: sum(row[name] or 0.0 for row in rows) / len(rows) for name in names}


def server_process(box: Installation, title: str) -> int:
    """The process of the running server whose title holds `title`; SGLang's processes rename themselves."""
    for pid in box.servers(HOST):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if title.encode() in file.read():
                return pid
    raise AssertionError(f"no {title} among {box.servers(HOST)}")


@contextmanager
def foreign_process(python: str, gpu: int) -> Iterator[subprocess.Popen[str]]:
    """Somebody else's process that holds 1 GiB of one GPU."""
    code = (
        f"import time, torch; held = torch.zeros(2**30, dtype=torch.uint8, device='cuda:{gpu}');"
        " print('held', flush=True); time.sleep(900)"
    )
    process = subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def wait_quarantined(box: Installation) -> dict[str, Any]:
    """The host's row of `status`, once it is shut."""
    deadline = time.monotonic() + box.patience_s
    while True:
        host: dict[str, Any] = next(row for row in box.json("status")["hosts"] if row["name"] == HOST)
        if host["quarantined_at"] is not None:
            return host
        assert time.monotonic() < deadline, host
        time.sleep(0.5)


def corpus(folder: Path) -> Path:
    """Python source, which the pair was trained on: this interpreter's own library."""
    path = folder / "python-source.txt"
    sources = sorted(Path(os.__file__).parent.glob("*.py"))
    path.write_text("".join(source.read_text(errors="replace") for source in sources))
    return path


def sweep_text(name: str, cells: list[str], engine: str = "sglang-dflash", **more: str) -> str:
    """A sweep on the box: the trained pair on one GPU, 64 tokens of context, 192 forced tokens, as the reference was
    measured. `args` come on top."""
    points = more.pop("points", "{concurrency: [1, 8, 32], context: 64, output: 192}")
    prompts = more.pop("prompts")
    repeats = more.pop("repeats", "{min: 3, max: 3}")
    model, parallel = more.pop("model", "trained-pair"), more.pop("parallel", "[TP1]")
    args = ", ".join(["mem-fraction-static: 0.3", *filter(None, [more.pop("args", "")])])
    lines = [
        f"name: {name}",
        f"model: {model}",
        f"engine: {engine}",
        f"hosts: [{HOST}]",
        f"parallel: {parallel}",
        *(f"{key}: {value}" for key, value in more.items()),
        f"args: {{{args}}}",
        "cells:",
        *(f"  - {cell}" for cell in cells),
        "measure:",
        f"  points: [{points}]",
        f"  repeats: {repeats}",
        f"  prompts: {prompts}",
    ]
    return "\n".join(lines) + "\n"
