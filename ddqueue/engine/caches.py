"""Where a build of SGLang keeps what it compiles, so that the next start on the same host need not compile it again.

The first start ever on a machine was seen to take twice as long as later ones, all of it compiling.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_FOLDERS: Mapping[str, str] = {
    "CUDA_CACHE_PATH": "cuda",
    "CUTE_DSL_CACHE_DIR": "cute-dsl",
    "DG_JIT_CACHE_DIR": "deep-gemm",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "SGLANG_CACHE_DIR": "sglang",
    "SGLANG_DG_CACHE_DIR": "deep-gemm",
    "TILELANG_CACHE_DIR": "tilelang",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "TRITON_CACHE_DIR": "triton",
    "TVM_FFI_CACHE_DIR": "tvm-ffi",
}
"""Variable -> folder. DeepGEMM has two names: SGLang sets its library's own variable from SGLANG_DG_CACHE_DIR.
FlashInfer appends `.cache/flashinfer/VERSION/ARCHITECTURE`; the others tell versions apart by hashes of the source."""


def compile_caches(folder: Path) -> dict[str, str]:
    """Variables that put every compile cache below `folder`, which is made.

    A folder belongs to one host and one build: two builds in one folder would be correct, and would let a person who
    removes the cache of one slow the other down.
    """
    for name in set(_FOLDERS.values()):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return {variable: str(folder / name) for variable, name in _FOLDERS.items()}
