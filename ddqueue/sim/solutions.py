"""What the simulated model knows: one problem each, by the name of the function asked for, with a right solution."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Solution:
    """How the model answers one problem.

    `slip` is a place in the code and what a wrong decoder puts there, in as many tokens: the result runs and is wrong.
    """

    thought: str
    code: str
    slip: tuple[str, str]

    @property
    def slipped(self) -> str:
        """The code with its slip."""
        return self.code.replace(*self.slip, 1)


def solution_for(question: str) -> Solution | None:
    """The solution of the first problem whose function the question names."""
    return next((SOLUTIONS[word] for word in re.findall(r"\w+", question) if word in SOLUTIONS), None)


SOLUTIONS: dict[str, Solution] = {
    "busy_spans": Solution(
        thought="Sort by start. Maybe def busy_spans just compares neighbours, but a long span can swallow several.",
        code="""\
def busy_spans(bookings, gap):
    spans = []
    for start, end in sorted(bookings):
        if start >= end:
            continue
        if spans and start - spans[-1][1] <= gap:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    return [tuple(span) for span in spans]""",
        slip=("max(", "min("),
    ),
    "expand_hosts": Solution(
        thought="Commas split only outside brackets. Ranges keep the zeros of their first number.",
        code="""\
import re
from itertools import product


def expand_hosts(pattern):
    item = r"[^\\[\\],]*(?:\\[[^\\[\\]]*\\][^\\[\\],]*)*"
    if not re.fullmatch(rf"{item}(?:,{item})*", pattern):
        raise ValueError(pattern)
    names = []
    for one in re.findall(rf"(?:^|,)({item})", pattern):
        if not one:
            raise ValueError(pattern)
        parts = re.split(r"\\[(.*?)\\]", one)
        choices = [_numbers(part) if i % 2 else [part] for i, part in enumerate(parts)]
        names += map("".join, product(*choices))
    return names


def _numbers(text):
    numbers = []
    for part in text.split(","):
        match = re.fullmatch(r"(\\d+)(?:-(\\d+))?", part)
        if match is None or match[2] and int(match[1]) > int(match[2]):
            raise ValueError(text)
        last = int(match[2] or match[1])
        numbers += [str(n).zfill(len(match[1])) for n in range(int(match[1]), last + 1)]
    return numbers""",
        slip=("last + 1", "last + 0"),
    ),
    "critical_path": Solution(
        thought="Longest path in a graph without cycles. On a tie the smaller list of names wins.",
        code="""\
def critical_path(tasks):
    best, open_tasks = {}, set()

    def visit(name):
        if name in open_tasks or name not in tasks:
            raise ValueError(name)
        if name not in best:
            open_tasks.add(name)
            duration, needs = tasks[name]
            total, path = min((visit(need) for need in needs), key=order, default=(0, []))
            best[name] = (total + duration, path + [name])
            open_tasks.remove(name)
        return best[name]

    def order(found):
        return -found[0], found[1]

    return min((visit(name) for name in tasks), key=order, default=(0, []))""",
        slip=("-found", "+found"),
    ),
    "steady_from": Solution(
        thought="Go through the windows from the back and stop at the first one that is not steady.",
        code="""\
def steady_from(samples, width, tolerance):
    found = None
    for start in range(len(samples) - width, -1, -1):
        window = samples[start : start + width]
        if max(window) - min(window) > tolerance:
            break
        found = start
    return found""",
        slip=("break", "continue"),
    ),
    "lease_log": Solution(
        thought="Keep the holder and when the lease ends. At the end time itself it is free.",
        code="""\
def lease_log(events, ttl):
    holder, until, granted = None, None, []
    for time, who, action in events:
        if holder is not None and time >= until:
            holder = None
        if action == "take":
            allowed = holder in (None, who)
        else:
            allowed = holder == who
        if allowed:
            holder, until = (None, None) if action == "give" else (who, time + ttl)
        granted.append(allowed)
    return granted""",
        slip=("(None, who)", "(holder, who)"),
    ),
}
