"""Who used a host at which time: by the watcher's intervals, and by the tables' own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from .history import Lifetime, Ownership, Tables, Watched
from .violation import Promise, Violation


@dataclass(frozen=True)
class Server:
    """One server: the processes of one session."""

    host: str
    session: int
    began_s: float
    last_alive_s: float
    attempt_id: int | None
    runners: frozenset[int]
    """Pids of the attempt process that started it."""

    def __str__(self) -> str:
        whose = "no attempt's" if self.attempt_id is None else f"attempt {self.attempt_id}'s"
        return f"{whose} server {self.session} ({self.began_s:.2f} to {self.last_alive_s:.2f} s)"


def check_hosts(watched: Watched, tables: Tables) -> Iterator[Violation]:
    servers = list(_servers(watched.lifetimes, tables.attempts))
    yield from _check_owners(watched.ownerships)
    yield from _check_servers(servers)
    yield from _check_owners_and_servers(watched.ownerships, servers)
    yield from _check_lock(watched.lifetimes)
    yield from _check_windows(tables)


def _servers(lifetimes: Iterable[Lifetime], attempts: Iterable[Mapping[str, Any]]) -> Iterator[Server]:
    runner_of = {row["id"]: row["runner_pid"] for row in attempts}
    sessions: dict[tuple[str, int, int], list[Lifetime]] = defaultdict(list)
    for lifetime in sorted(lifetimes, key=lambda lifetime: lifetime.began_s):
        sessions[lifetime.host, lifetime.session, _generation(sessions, lifetime)].append(lifetime)
    for (host, session, _), members in sessions.items():
        attempt_id = next((member.attempt_id for member in members if member.attempt_id is not None), None)
        seen = {member.runner for member in members if member.runner is not None}
        told = {runner_of[attempt_id]} if attempt_id in runner_of else set()
        yield Server(
            host,
            session,
            min(member.began_s for member in members),
            max(member.last_alive_s for member in members),
            attempt_id,
            frozenset(seen | told),
        )


def _generation(sessions: Mapping[tuple[str, int, int], list[Lifetime]], lifetime: Lifetime) -> int:
    """A pid is used again, and so is a session's number: a new leader begins a new session."""
    earlier = [key[2] for key in sessions if key[:2] == (lifetime.host, lifetime.session)]
    newest = max(earlier, default=0)
    leads = lifetime.pid == lifetime.session
    members = sessions.get((lifetime.host, lifetime.session, newest), [])
    has_leader = any(member.pid == member.session for member in members)
    return newest + 1 if leads and has_leader else newest


def _check_owners(ownerships: Iterable[Ownership]) -> Iterator[Violation]:
    for one, other in combinations(ownerships, 2):
        if one.host == other.host and _overlap_s(one.began_s, one.last_seen_s, other.began_s, other.last_seen_s) > 0:
            yield Violation(Promise.ONE_OWNER, f"{one.host}: {_described(one)} and {_described(other)}")


def _check_servers(servers: Iterable[Server]) -> Iterator[Violation]:
    for one, other in combinations(servers, 2):
        if one.host == other.host and _overlap_s(one.began_s, one.last_alive_s, other.began_s, other.last_alive_s) > 0:
            yield Violation(Promise.ONE_SERVER, f"{one.host}: {one} and {other}")


def _check_owners_and_servers(ownerships: Iterable[Ownership], servers: Iterable[Server]) -> Iterator[Violation]:
    for owner in ownerships:
        for server in servers:
            if owner.host != server.host or owner.pid in server.runners:
                continue
            if _overlap_s(owner.began_s, owner.last_seen_s, server.began_s, server.last_alive_s) > 0:
                yield Violation(Promise.ONE_OWNER, f"{owner.host}: {_described(owner)} beside {server}")


def _check_lock(lifetimes: Iterable[Lifetime]) -> Iterator[Violation]:
    for lifetime in lifetimes:
        if lifetime.without_lock:
            text = f"{lifetime.host}: server {lifetime.pid} lives without the host's lock file open"
            yield Violation(Promise.LOCK_KEPT, text)


def _check_windows(tables: Tables) -> Iterator[Violation]:
    """From claim to end, by the commit times of both, attempts of one host follow each other."""
    began = {row["attempt_id"]: row["committed_at"] for row in tables.events if row["kind"] == "claimed"}
    ended = {row["attempt_id"]: row["committed_at"] for row in tables.events if row["kind"] in ("finished", "lost")}
    last: dict[str, Mapping[str, Any]] = {}
    for row in sorted((row for row in tables.attempts if row["id"] in began), key=lambda row: float(began[row["id"]])):
        before = last.get(row["host"])
        if before is not None and ended.get(before["id"], float("inf")) > began[row["id"]]:
            text = f"{row['host']}: attempt {row['id']} was claimed before attempt {before['id']} had ended"
            yield Violation(Promise.ONE_OWNER, text)
        last[row["host"]] = row


def _overlap_s(began: float, ended: float, other_began: float, other_ended: float) -> float:
    return min(ended, other_ended) - max(began, other_began)


def _described(owner: Ownership) -> str:
    return f"attempt process {owner.pid} ({owner.began_s:.2f} to {owner.last_seen_s:.2f} s)"
