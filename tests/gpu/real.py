"""What the tests on a real GPU are told about their machine, by the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MODELS = "DDQUEUE_GPU_TEST_MODELS"
"""A folder with `target/` and `draft/`: the trained pair whose acceptance is known (tests/gpu/README.md)."""
ENGINE_PYTHON = "DDQUEUE_GPU_TEST_PYTHON"
"""The interpreter that has SGLang; this one unless named."""
ENGINE_PATH = "DDQUEUE_GPU_TEST_PYTHONPATH"
"""A folder of packages for it, where SGLang is not installed."""
EVIDENCE = "DDQUEUE_GPU_TEST_EVIDENCE"
"""A folder for tables, phase times, raw rows and logs of the run."""

HOST = "gpu-box"
TRAINED_BLOCK_SIZE = 8


@dataclass(frozen=True)
class Machine:
    """The machine under test."""

    models: Path
    python: str
    engine_path: str | None
    evidence: Path | None

    @classmethod
    def from_environment(cls) -> Machine | None:
        """None where no models are named: then there is nothing to test on."""
        models = os.environ.get(MODELS)
        if not models:
            return None
        evidence = os.environ.get(EVIDENCE)
        return cls(
            models=Path(models),
            python=os.environ.get(ENGINE_PYTHON) or sys.executable,
            engine_path=os.environ.get(ENGINE_PATH),
            evidence=Path(evidence) if evidence else None,
        )

    @property
    def gpus(self) -> list[str]:
        """The names of the GPUs, as the driver gives them."""
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True
        )
        return listed.stdout.split("\n")[:-1]

    def inventory(self) -> str:
        """One host, the trained pair, and the released SGLang; once with and once without its checks before launch."""
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


def corpus(folder: Path) -> Path:
    """Python source, which the pair was trained on: this interpreter's own library."""
    path = folder / "python-source.txt"
    sources = sorted(Path(os.__file__).parent.glob("*.py"))
    path.write_text("".join(source.read_text(errors="replace") for source in sources))
    return path


def sweep_text(name: str, cells: list[str], engine: str = "sglang-dflash", **more: str) -> str:
    """A sweep on the box: every GPU, 64 tokens of context, 192 forced tokens, as the reference was measured."""
    points = more.pop("points", "{concurrency: [1, 8, 32], context: 64, output: 192}")
    prompts = more.pop("prompts")
    repeats = more.pop("repeats", "{min: 3, max: 3}")
    lines = [
        f"name: {name}",
        "model: trained-pair",
        f"engine: {engine}",
        f"hosts: [{HOST}]",
        "parallel: [TP1]",
        *(f"{key}: {value}" for key, value in more.items()),
        "args: {mem-fraction-static: 0.3}",
        "cells:",
        *(f"  - {cell}" for cell in cells),
        "measure:",
        f"  points: [{points}]",
        f"  repeats: {repeats}",
        f"  prompts: {prompts}",
    ]
    return "\n".join(lines) + "\n"
