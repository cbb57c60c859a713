"""The root file system that every booted box begins with: a small Debian, made once and kept in a cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .commands import output

SUITE = "bookworm"
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "libpam-systemd", "openssh-server", "sudo", "iproute2", "procps"),
    # What a deployment finds on a fresh box: an interpreter of the distribution's own, and venv.
    *("python3", "python3-venv"),
)
MIRROR_VARIABLE = "DDQUEUE_BOXES_MIRROR"
CACHE_VARIABLE = "DDQUEUE_BOXES_CACHE"

_MAKING_LIMIT_S = 900.0


def tree() -> Path:
    """The unpacked system, which nobody may write to: boxes lay their own files over it.

    Takes some seconds where only the packed one is in the cache (90 MB, fit for a CI's cache), and one to five minutes
    and a Debian mirror where there is none. Raises CommandFailed.
    """
    cache = Path(os.environ.get(CACHE_VARIABLE) or _cache_folder())
    cache.mkdir(parents=True, exist_ok=True)
    unpacked, packed = cache / f"{SUITE}-base", cache / f"{SUITE}-base.tar.zst"
    if not unpacked.exists():
        # Made beside and renamed, so that neither is ever half there.
        draft = cache / "making"
        shutil.rmtree(draft, ignore_errors=True)
        if packed.exists():
            draft.mkdir()
            output("tar", "-C", draft, "-I", "zstd", "-xpf", packed)
        else:
            _bootstrap(draft)
            _pack(draft, packed)
        draft.rename(unpacked)
    return unpacked


def _bootstrap(folder: Path) -> None:
    mirror = [os.environ[MIRROR_VARIABLE]] if MIRROR_VARIABLE in os.environ else []
    include = f"--include={','.join(PACKAGES)}"
    output("debootstrap", "--variant=minbase", include, SUITE, folder, *mirror, limit_s=_MAKING_LIMIT_S)
    for package in (folder / "var/cache/apt/archives").glob("*.deb"):
        package.unlink()


def _pack(folder: Path, archive: Path) -> None:
    draft = archive.with_suffix(".new")
    output("tar", "-C", folder, "-I", "zstd -3 -T2", "-cf", draft, ".", limit_s=_MAKING_LIMIT_S)
    draft.rename(archive)


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ddqueue" / "boxes"
