"""Releases on a box: each an environment of its own, which is there only when it is whole."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable

from deploy import layout
from deploy.connection import BoxConnection
from deploy.wheel import Wheel

_BUILD_LIMIT_S = 1800.0
_REMOVE_LIMIT_S = 120.0
_MANIFEST = "release.json"
"""Written last, and removed first: a folder without it is no release, whatever lies in it."""

_STARTS = {
    "ddqueue": "ddqueue",
    "ddqueue-give-back": "workers.give_back",
    "ddqueue-supervisord": "supervisor.supervisord",
    "ddqueue-supervisorctl": "supervisor.supervisorctl",
}
"""Scripts of a release, each with the module that it runs."""

# The packages of another release with the same lock and interpreter are copied: then pip, which decides by the lock,
# finds all of them there, and an upgrade takes seconds. Niced: an attempt may be measuring.
_ENVIRONMENT = f"""
for other in {layout.RELEASES}/*/{_MANIFEST}; do
    other="$(dirname "$other")"
    cmp -s "$other/deploy.lock" "$1/deploy.lock" || continue
    [ "$("$other/bin/python" -V)" = "$("$2" -V)" ] || continue
    nice -n 19 "$2" -m venv --without-pip "$1"
    nice -n 19 cp -a "$other/lib/." "$1/lib/"
    exit 0
done
exec nice -n 19 "$2" -m venv "$1"
"""

_START = """#!/bin/sh
# Follows the link once: what is imported later comes from the same release, also after another one is current.
exec "$(dirname "$(readlink -f "$0")")/python" -m {module} "$@"
"""


def folder_of(release: str) -> str:
    """Where it lies."""
    return f"{layout.RELEASES}/{release}"


def is_whole(box: BoxConnection, release: str) -> bool:
    """Whether the release is there and its interpreter still runs, which an upgrade of the box can break."""
    script = f'test -e "$1/{_MANIFEST}" && "$1/bin/python" -m ddqueue --version'
    return box.ask(script, folder_of(release)).code == 0


def build(box: BoxConnection, wheel: Wheel, python: str, offline: bool) -> None:
    """Make the release on the box; `offline` takes nothing but the wheels that were sent there.

    It is made where it stays, because an environment names its own place in its scripts.

    Raises:
        BoxRefused: the interpreter makes no environment, or a package cannot be had; nothing is left but the folder
            without its manifest, which the next try makes anew.
    """
    folder = folder_of(wheel.release)
    make = f'set -e; rm -f "$1/{_MANIFEST}"; rm -rf "$1"; mkdir -p "$1"; cat >"$1/deploy.lock"; {_ENVIRONMENT}'
    box.run(make, folder, python, what="no environment can be made", stdin=wheel.lock.encode(), limit_s=_BUILD_LIMIT_S)
    name = wheel.path.name
    box.run('cat >"$1/$2"', folder, name, what="the wheel did not arrive", stdin=wheel.path, limit_s=_BUILD_LIMIT_S)
    source = f"--no-index --find-links {shlex.quote(layout.WHEELS)}" if offline else ""
    # By hash, so that neither a registry nor a wheelhouse can give anything else.
    install = (
        'set -e; cd "$1"; export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1; '
        f"pip='nice -n 19 bin/python -m pip install --quiet --no-cache-dir --no-compile'; "
        f"$pip --require-hashes --only-binary :all: {source} -r deploy.lock; "
        '$pip --no-deps --no-index --force-reinstall "./$2"; '
        "nice -n 19 bin/python -m compileall -q lib; "
        'rm -- "$2"'
    )
    box.run(install, folder, name, what="the packages cannot be installed", limit_s=_BUILD_LIMIT_S)
    manifest = json.dumps({"version": wheel.version, "sha256": wheel.sha256, "python": python}).encode()
    for command, module in _STARTS.items():
        script = 'cat >"$1"; chmod 755 "$1"'
        box.run(script, f"{folder}/bin/{command}", what="no start script", stdin=_START.format(module=module).encode())
    # All of it on the disk before the manifest says so: a power cut must not leave half a release with one.
    script = f'set -e; sync -f "$1"; cat >"$1/{_MANIFEST}.new"; mv "$1/{_MANIFEST}.new" "$1/{_MANIFEST}"; sync -f "$1"'
    box.run(script, folder, what="no manifest", stdin=manifest, limit_s=_BUILD_LIMIT_S)


def current(box: BoxConnection) -> str | None:
    """The release that the link names; None without one."""
    done = box.ask('readlink "$1"', layout.CURRENT)
    return done.output.strip().rsplit("/", 1)[-1] if done.code == 0 else None


def switch(box: BoxConnection, release: str) -> bool:
    """Let the link name the release, at once; False when it does already."""
    if current(box) == release:
        return False
    script = 'set -e; ln -sfn "releases/$2" "$1.new"; mv -T "$1.new" "$1"; sync "$(dirname "$1")"'
    box.run(script, layout.CURRENT, release, what="the link to the release cannot be switched")
    return True


def prune(box: BoxConnection, keep: Iterable[str]) -> int:
    """Remove every release but these, and what was left of broken ones; returns how many."""
    script = (
        f'cd "$1" 2>/dev/null || exit 0; shift; for r in */; do r="${{r%/}}"; [ "$r" != "*" ] || continue; '
        'for k in "$@"; do [ "$r" != "$k" ] || continue 2; done; '
        f'rm -f "$r/{_MANIFEST}"; rm -rf -- "$r"; echo "$r"; done'
    )
    removed = box.run(script, layout.RELEASES, *keep, what="old releases cannot be removed", limit_s=_REMOVE_LIMIT_S)
    return len(removed.split())
