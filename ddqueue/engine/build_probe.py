"""Run by an engine's own interpreter, never imported here: which build is installed, without importing any of it.

`python -c THIS_TEXT PACKAGE` prints one JSON object: version, torch, cuda, nccl, revision, and a `stamp` that changes
when the installation does. It uses the standard library of Python 3.8 and later, nothing else.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib.metadata import Distribution
from typing import Any

GIT_LIMIT_S = 10
NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
"""The package that torch's own wheels bring; a torch that was built here may use another library."""


def describe(package: str) -> dict[str, Any]:
    distribution, torch = installed(package), installed("torch")
    folder = folder_of(package)
    origin = origin_of(distribution)
    # Sources that change without an installation: an editable install, or a bare checkout on the path.
    is_checkout = distribution is None or bool(origin.get("dir_info", {}).get("editable"))
    checkout = folder if is_checkout else None
    return {
        "version": distribution.version if distribution else None,
        "torch": torch.version if torch else None,
        "cuda": said(torch, "torch/version.py", r"^cuda\b[^=\n]*= *'([^']+)'"),
        "nccl": version_of(NCCL),
        "revision": commit_of(checkout)
        or origin.get("vcs_info", {}).get("commit_id")
        or said(distribution, package + "/_version.py", r"commit_id = '([^']+)'"),
        "stamp": [folder, metadata_stamp(distribution), newest_source_ns(checkout) if checkout else None],
    }


def installed(name: str) -> Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def version_of(names: tuple[str, ...]) -> str | None:
    """The version of the first of these packages that is installed."""
    found = [distribution for distribution in map(installed, names) if distribution is not None]
    return found[0].version if found else None


def origin_of(distribution: Distribution | None) -> dict[str, Any]:
    """Where an installer says it took the package from."""
    text = distribution.read_text("direct_url.json") if distribution else None
    return dict(json.loads(text)) if text else {}


def folder_of(package: str) -> str | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return os.path.realpath(places[0]) if places else None


def commit_of(folder: str | None) -> str | None:
    """The git commit, with -dirty where files differ from it."""
    commit = git(folder, "rev-parse", "HEAD") if folder else ""
    if not folder or not commit:
        return None
    changed = git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return commit + ("-dirty" if changed else "")


def git(folder: str, *words: str) -> str:
    command = ["git", "-C", folder, *words]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=GIT_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def said(distribution: Distribution | None, file: str, pattern: str) -> str | None:
    """What a source file of an installed package says, read as text: importing torch would take seconds."""
    if distribution is None:
        return None
    try:
        with open(str(distribution.locate_file(file)), encoding="utf-8") as source:
            match = re.search(pattern, source.read(), re.MULTILINE)
    except OSError:
        return None
    return match.group(1) if match else None


def metadata_stamp(distribution: Distribution | None) -> list[Any]:
    """Where the package's metadata lies and when it was written."""
    path = str(getattr(distribution, "_path", ""))
    try:
        return [path, os.stat(path).st_mtime_ns]
    except OSError:
        return [path, None]


def newest_source_ns(folder: str) -> int:
    newest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                newest = max(newest, os.lstat(os.path.join(place, name)).st_mtime_ns)
    return newest


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe(sys.argv[1])) + "\n")
