"""Other load clients, each in an environment of its own: how it is installed, started and read.

Nothing of them comes into ddqueue's environment, and none needs a model hub: the tokenizer is a tiny one made here, in
which a letter is a token. What they are asked for is the same for all: streams, so many requests at once, prompts of 60
tokens, answers of a fixed length.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

CACHE = Path.home() / ".cache" / "ddqueue" / "peers"
INSTALL_LIMIT_S = 900.0
MODEL = "known-timing"
PROMPT_TOKENS = 60


class Unavailable(Exception):
    """The peer cannot be used here; says why."""


@dataclass(frozen=True)
class Load:
    """What a client is asked to send, and the folder that it may write to."""

    url: str
    concurrency: int
    requests: int
    output_tokens: int
    folder: Path


@dataclass(frozen=True)
class Said:
    """What a client says of its run: output tokens per second, and means over requests in milliseconds; `per_token_ms`
    is the one of its figures that the chunks' size distorts least."""

    output_throughput_tok_s: float
    ttft_ms: float
    per_token_ms: float


class Peer(Protocol):
    """One other load client."""

    name: str

    def install(self) -> None:
        """Raises Unavailable."""

    def command(self, load: Load) -> Sequence[str]: ...

    def environment(self) -> Mapping[str, str]:
        """What it needs beside this process's own."""

    def said(self, load: Load) -> Said:
        """Reads what the run left in the load's folder."""


class SglangServing:
    """SGLang's own serving benchmark: its files unchanged, without the engine. Of the engine they import one constant
    and two functions that join an address, which stand-ins give."""

    name = "SGLang bench_serving 0.5.23"
    _home = CACHE / "sglang"
    _files = CACHE / "sglang-files"
    _needs = ("transformers", "aiohttp", "msgspec", "numpy", "orjson", "requests", "tqdm", "pillow", "pybase64")

    def install(self) -> None:
        """The wheel is fetched for two folders of it; it is not installed, for it wants torch and CUDA."""
        pip = _environment(self._home)
        _run(pip, "install", *self._needs)
        if not (self._files / "sglang" / "bench_serving.py").exists():
            wheels = CACHE / "wheels"
            _run(pip, "download", "--no-deps", "--dest", str(wheels), "sglang==0.5.23")
            with zipfile.ZipFile(next(wheels.glob("sglang-0.5.23-*.whl"))) as wheel:
                wanted = [name for name in wheel.namelist() if name.startswith("sglang/benchmark/")]
                wheel.extractall(self._files, [*wanted, "sglang/bench_serving.py"])
        for name, text in _STAND_INS.items():
            path = self._files / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def command(self, load: Load) -> Sequence[str]:
        return [
            *(_python(self._home), "-m", "sglang.bench_serving", "--backend", "sglang", "--base-url", load.url),
            *("--dataset-name", "random-ids", "--tokenize-prompt", "--random-range-ratio", "1", "--disable-tqdm"),
            *("--model", MODEL, "--tokenizer", str(tokenizer()), "--warmup-requests", "0"),
            *("--num-prompts", str(load.requests), "--max-concurrency", str(load.concurrency)),
            *("--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(load.output_tokens)),
            *("--output-file", str(load.folder / "sglang.jsonl")),
        ]

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(self._files), "HF_HUB_OFFLINE": "1"}

    def said(self, load: Load) -> Said:
        found = json.loads((load.folder / "sglang.jsonl").read_text())
        return Said(found["output_throughput"], found["mean_ttft_ms"], found["mean_itl_ms"])


class AiPerf:
    """NVIDIA's AIPerf, on OpenAI's chat completions, where alone it asks for the count of tokens with each chunk."""

    name = "AIPerf 0.13.0"
    _home = CACHE / "aiperf"

    def install(self) -> None:
        _run(_environment(self._home), "install", "aiperf==0.13.0")

    def command(self, load: Load) -> Sequence[str]:
        return [
            *(str(self._home / "bin" / "aiperf"), "profile", "-m", MODEL, "--url", load.url, "--streaming"),
            *("--endpoint-type", "chat", "--tokenizer", str(tokenizer())),
            *("--use-server-token-count", "--per-chunk-usage", "--no-server-metrics", "--no-gpu-telemetry"),
            *("--concurrency", str(load.concurrency), "--request-count", str(load.requests)),
            *("--prompt-input-tokens-mean", str(PROMPT_TOKENS)),
            *("--prompt-output-tokens-mean", str(load.output_tokens)),
            *("--output-artifact-dir", str(load.folder / "aiperf")),
        ]

    def environment(self) -> Mapping[str, str]:
        return {}

    def said(self, load: Load) -> Said:
        found = json.loads((load.folder / "aiperf" / "profile_export_aiperf.json").read_text())
        names = ("output_token_throughput", "time_to_first_token", "inter_token_latency")
        return Said(*(float(found[name]["avg"]) for name in names))


class GuideLlm:
    """GuideLLM, on OpenAI's completions."""

    name = "GuideLLM 0.8.1"
    _home = CACHE / "guidellm"

    def install(self) -> None:
        _run(_environment(self._home), "install", "guidellm==0.8.1")

    def command(self, load: Load) -> Sequence[str]:
        backend = f"kind=openai_http,target={load.url},model={MODEL},request_format=/v1/completions"
        synthetic = f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={load.output_tokens}"
        return [
            *(str(self._home / "bin" / "guidellm"), "run", "--backend", f"{backend},validate_backend=false"),
            *("--profile", f"kind=concurrent,streams={load.concurrency}", "--data", synthetic),
            *("--constraint", f"kind=max_requests,count={load.requests}", "--disable-console"),
            *("--tokenizer", f"kind=huggingface_auto,model={tokenizer()}"),
            *("--output", f"kind=json,path={load.folder / 'guidellm.json'}"),
        ]

    def environment(self) -> Mapping[str, str]:
        return {"HF_HUB_OFFLINE": "1"}

    def said(self, load: Load) -> Said:
        (run,) = json.loads((load.folder / "guidellm.json").read_text())["benchmarks"]
        metrics: dict[str, Any] = run["metrics"]
        names = ("output_tokens_per_second", "time_to_first_token_ms", "inter_token_latency_ms")
        return Said(*(float(metrics[name]["successful"]["mean"]) for name in names))


PEERS: tuple[Peer, ...] = (SglangServing(), AiPerf(), GuideLlm())

_STAND_INS = {
    "sglang/__init__.py": "",
    "sglang/srt/__init__.py": "",
    "sglang/srt/disaggregation/__init__.py": "",
    "sglang/srt/disaggregation/utils.py": 'FAKE_BOOTSTRAP_HOST = "2.2.2.2"\n',
    "sglang/srt/utils/__init__.py": "",
    "sglang/srt/utils/network.py": "def resolve_base_url(base_url, host, port):\n    return base_url\n\n\n"
    "resolve_host_port = resolve_base_url\n",
    # Imported for a data set that is not used here.
    "datasets.py": "load_dataset = None\n",
}


def tokenizer() -> Path:
    """The folder of a byte-level tokenizer without merges, made by the library that reads it; needs SGLang's or another
    peer's environment, which all have it."""
    folder = CACHE / "tokenizer"
    if not (folder / "tokenizer_config.json").exists():
        home = next(home for home in (CACHE / "sglang", CACHE / "aiperf", CACHE / "guidellm") if home.exists())
        _checked([_python(home), "-c", _MAKE_TOKENIZER, str(folder)])
    return folder


_MAKE_TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
made = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
made.decoder = decoders.ByteLevel()
fast = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", model_max_length=16384)
fast.save_pretrained(sys.argv[1])
"""


def _environment(home: Path) -> str:
    """The pip of the environment in `home`, made if there is none. Raises Unavailable."""
    if not (home / "bin" / "pip").exists():
        shutil.rmtree(home, ignore_errors=True)
        _checked([sys.executable, "-m", "venv", str(home)])
    return str(home / "bin" / "pip")


def _python(home: Path) -> str:
    return str(home / "bin" / "python")


def _run(pip: str, command: str, *arguments: str) -> None:
    _checked([pip, command, "--quiet", "--disable-pip-version-check", *arguments])


def _checked(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            env=os.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {INSTALL_LIMIT_S:.0f} s") from None
    if done.returncode:
        raise Unavailable((done.stdout.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
