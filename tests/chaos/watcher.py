"""A process that looks at /proc, at the hosts' lock files and at their journals some fifty times a second, and writes
down who lived when and what was measured.

`python -m chaos.watcher OUTPUT JOURNALS LOCK...` watches until SIGTERM, then writes OUTPUT. It asks neither the queue
nor its tables, and what it says is what was surely so: between two looks it claims nothing.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from . import procfs
from .history import Journalled, Lifetime, Ownership, Watched

LOOK_EVERY_S = 0.02
_SETTLED_S = 0.5
"""A process this old has executed its program: what its environment says will not change any more."""

_TAG = re.compile(r"ddqueue-([0-9]+)-[0-9]+")


@dataclass
class Watcher:
    """`journals` is the folder of the journals, a folder a host; `locks` are the paths of the hosts' lock files."""

    journals: Path
    locks: Sequence[str]
    _settled: set[int] = field(default_factory=set)
    _lifetimes: dict[tuple[int, int], Lifetime] = field(default_factory=dict)
    _living: set[tuple[int, int]] = field(default_factory=set)
    _ownerships: list[Ownership] = field(default_factory=list)
    _owning: dict[tuple[str, int, int], Ownership] = field(default_factory=dict)
    _journalled: set[Journalled] = field(default_factory=set)
    _read_bytes: dict[Path, int] = field(default_factory=dict)
    _last_look_s: float | None = None
    _longest_gap_s: float = 0.0

    def look(self) -> None:
        now_s = procfs.now_s()
        if self._last_look_s is not None:
            self._longest_gap_s = max(self._longest_gap_s, now_s - self._last_look_s)
        self._last_look_s = now_s
        self._follow_owners()
        self._follow_servers()
        self._find_servers()
        self._read_journals()

    def watched(self) -> Watched:
        return Watched(
            tuple(self._lifetimes.values()),
            (*self._ownerships, *self._owning.values()),
            tuple(self._journalled),
            self._longest_gap_s,
        )

    def _follow_owners(self) -> None:
        for lock in self.locks:
            noted = procfs.noted_runner(lock)
            if noted is not None and (lock, *noted) not in self._owning:
                self._begin_ownership(lock, *noted)
        for key, ownership in list(self._owning.items()):
            lock, pid, start_ticks = key
            # Before the look: it surely owned until then, and perhaps a moment longer.
            before_s = procfs.now_s()
            process = procfs.read(pid)
            owns = process is not None and process.start_ticks == start_ticks and process.runs
            has_open = procfs.has_open(pid, lock) if owns else False
            if has_open:
                self._owning[key] = replace(ownership, last_seen_s=before_s)
            elif has_open is False:
                self._ownerships.append(self._owning.pop(key))

    def _begin_ownership(self, lock: str, pid: int, start_ticks: int) -> None:
        process = procfs.read(pid)
        if process is None or process.start_ticks != start_ticks or not procfs.has_open(pid, lock):
            return
        now_s = procfs.now_s()
        self._owning[lock, pid, start_ticks] = Ownership(_host(lock), pid, start_ticks, now_s, now_s)

    def _follow_servers(self) -> None:
        for key in list(self._living):
            lifetime = self._lifetimes[key]
            before_s = procfs.now_s()
            process = procfs.read(lifetime.pid)
            if process is None or process.start_ticks != lifetime.start_ticks or not process.runs:
                self._living.discard(key)
                continue
            lifetime = replace(lifetime, last_alive_s=max(before_s, lifetime.began_s))
            if process.leads and not lifetime.without_lock:
                lifetime = self._check_lock(lifetime)
            self._lifetimes[key] = lifetime

    def _check_lock(self, lifetime: Lifetime) -> Lifetime:
        lock = next(lock for lock in self.locks if _host(lock) == lifetime.host)
        return replace(lifetime, without_lock=True) if procfs.has_open(lifetime.pid, lock) is False else lifetime

    def _find_servers(self) -> None:
        present = procfs.pids()
        self._settled.intersection_update(present)
        known = {pid for pid, _ in self._living}
        for pid in present:
            if pid in self._settled or pid in known:
                continue
            lock = procfs.variable(pid, procfs.MARK)
            process = procfs.read(pid)
            if process is None:
                continue
            if lock in self.locks and process.runs:
                self._begin_lifetime(_host(lock or ""), process)
            elif procfs.now_s() - procfs.began_at_latest_s(process.start_ticks) > _SETTLED_S:
                self._settled.add(pid)

    def _begin_lifetime(self, host: str, process: procfs.Process) -> None:
        key = (process.pid, process.start_ticks)
        began_s = procfs.began_at_latest_s(process.start_ticks)
        attempt_id = runner = None
        if process.leads:
            runner = process.parent
            tags = (_TAG.fullmatch(word) for word in procfs.arguments(process.pid))
            attempt_id = next((int(tag[1]) for tag in tags if tag), None)
        self._lifetimes[key] = Lifetime(
            host, process.pid, process.start_ticks, process.session, began_s, began_s, attempt_id, runner
        )
        self._living.add(key)

    def _read_journals(self) -> None:
        for path in self.journals.glob("*/attempt-*.jsonl"):
            try:
                size = path.stat().st_size
                if size == self._read_bytes.get(path):
                    continue
                text = path.read_bytes()
            except OSError:
                continue  # stored, and so removed
            self._read_bytes[path] = size
            attempt_id = int(path.stem.removeprefix("attempt-"))
            self._journalled.update(Journalled(attempt_id, repeat) for repeat in _repeats(text))


def _repeats(journal: bytes) -> Iterator[int]:
    """The repeats in a journal's whole lines."""
    for line in journal.split(b"\n")[:-1]:
        entry = json.loads(line)
        if entry.get("kind") == "measurement":
            yield int(entry["values"]["measurement"]["repeat"])


def _host(lock: str) -> str:
    return Path(lock).stem


def main(arguments: Sequence[str]) -> None:
    output, journals, *locks = arguments
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    watcher = Watcher(Path(journals), locks)
    while not ended.wait(LOOK_EVERY_S):
        watcher.look()
    Path(output).write_text(json.dumps(asdict(watcher.watched())))


if __name__ == "__main__":
    main(sys.argv[1:])
