"""Looks at a model's folder: its config.json, its weights, its tokenizer. Nothing in them can make it raise."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from ddqueue.domain.preflight.model_shape import ModelFiles, ModelShape, shape_of

CONFIG = "config.json"
MOST_CONFIG_BYTES = 16 * 2**20
MOST_INDEX_BYTES = 256 * 2**20
"""The index of a model with hundreds of experts names a hundred thousand tensors."""

_INDEX = "model.safetensors.index.json"
_WEIGHTS = re.compile(r".+\.(safetensors|gguf|pth|pt)|(pytorch_model|consolidated|model).*\.bin")
_TOKENIZERS = re.compile(r"tokenizer\.(json|model)|tokenizer_config\.json|vocab\.json|tekken\.json|.*\.(tiktoken|spm)")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+|[a-z0-9]+://.+")


class _Unusable(Exception):
    """A JSON file that cannot be used; the text names it and says why."""


def look(path: str, weights: bool = True, tokenizer: bool = True) -> ModelFiles:
    """What lies at `path` on this machine, with everything a server would miss there.

    `weights` and `tokenizer` say whether the server would load them from there. A name such as `org/model` that is no
    folder here is a hub's: SGLang would fetch it, so nothing is missing. A .gguf file holds everything itself.
    """
    folder = Path(path)
    if folder.suffix == ".gguf" and _is_readable(folder):
        return ModelFiles(path, opaque=True)
    try:
        names = {entry.name for entry in os.scandir(folder)}
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if _HUB_NAME.fullmatch(path):
            return ModelFiles(path, opaque=True)
        return ModelFiles(path, problems=(f"{path}: {_reason(error)}",))
    problems = []
    shape = None
    try:
        shape = read_shape(folder / CONFIG)
    except _Unusable as error:
        problems.append(str(error))
    if weights:
        problems += _weight_problems(folder, names)
    if tokenizer:
        problems += _any_of(folder, names, _TOKENIZERS, "tokenizer")
    return ModelFiles(path, shape, tuple(problems))


def read_shape(file: Path) -> ModelShape:
    """The shape in a config.json. Raises _Unusable."""
    config = _read_json(file, MOST_CONFIG_BYTES)
    if not isinstance(config, dict):
        raise _Unusable(f"{file} holds no mapping")
    return shape_of(config)


def _weight_problems(folder: Path, names: set[str]) -> list[str]:
    """A half-copied model is the common case: its index names files that are not there."""
    if _INDEX not in names:
        return _any_of(folder, names, _WEIGHTS, "weight file")
    try:
        index = _read_json(folder / _INDEX, MOST_INDEX_BYTES)
    except _Unusable as error:
        return [str(error)]
    where = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(where, dict):
        return [f"{folder / _INDEX} has no weight_map"]
    files = {name for name in where.values() if isinstance(name, str)}
    missing = sorted(files - names)
    if missing:
        return [f"{folder} lacks {len(missing)} of {len(files)} weight files, {missing[0]} first"]
    return _unreadable(folder, sorted(files))


def _any_of(folder: Path, names: set[str], pattern: re.Pattern[str], what: str) -> list[str]:
    found = sorted(name for name in names if pattern.fullmatch(name))
    return _unreadable(folder, found) if found else [f"{folder} has no {what}"]


def _unreadable(folder: Path, names: list[str]) -> list[str]:
    closed = [name for name in names if not _is_readable(folder / name)]
    return [f"{folder / closed[0]} cannot be read"] if closed else []


def _is_readable(file: Path) -> bool:
    try:
        return os.access(file, os.R_OK)
    except ValueError:  # a NUL in the name
        return False


def _read_json(file: Path, most_bytes: int) -> object:
    try:
        if file.stat().st_size > most_bytes:
            raise _Unusable(f"{file} is larger than {most_bytes // 2**20} MiB")
        return json.loads(file.read_bytes())
    except OSError as error:
        raise _Unusable(f"{file}: {_reason(error)}") from error
    except (ValueError, RecursionError) as error:
        raise _Unusable(f"{file} is not JSON: {error}") from error


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
