"""Reads how a host is borrowed: `borrow: {take, give_back, limit, idle, hours}` of a host in the inventory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import time

from ddqueue.domain.borrowing import IDLE_S, LIMIT_S, Borrow, Hours
from ddqueue.files.typed import Field, Section
from ddqueue.files.yaml12 import ListNode

KEYS = ("take", "give_back", "limit", "idle", "hours")
MAX_LIMIT_S = 3600
MAX_IDLE_S = 24 * 3600

_REMEDY = "Write {take: [systemctl, stop, serving], give_back: [systemctl, start, serving]}."
_COMMAND_REMEDY = "Write a list of words, [systemctl, stop, serving], or the words in one text."
_NO_SHELL_REMEDY = 'No shell runs it: put it into a script, or write [bash, -c, "..."].'
_SHELL = frozenset("();<>|&")
_HOURS_REMEDY = 'Write the hours in which it may be borrowed, in its own local time: "22:00-06:00".'
_UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600}


def read_borrow(field: Field | None) -> Borrow | None:
    """The terms; None where the host is not borrowed, or after noting a problem."""
    if field is None or field.is_none:
        return None
    section = field.mapping(_REMEDY)
    if section is None:
        return None
    section.allow(KEYS)
    take, give_back = _command(section.need("take", _REMEDY)), _command(section.need("give_back", _REMEDY))
    limit_s = _duration(section, "limit", LIMIT_S, MAX_LIMIT_S)
    idle_s = _duration(section, "idle", IDLE_S, MAX_IDLE_S)
    hours = section.get("hours")
    window = None if hours is None or hours.is_none else _hours(hours)
    if take is None or give_back is None:
        return None
    return Borrow(take, give_back, limit_s, idle_s, window)


def _command(field: Field | None) -> tuple[str, ...] | None:
    """argv: the words of a list, or of a text as a shell would split it."""
    if field is None:
        return None
    if not isinstance(field.node, ListNode):
        return _split(field)
    items = field.sequence(_COMMAND_REMEDY) or ()
    words = [word for item in items if (word := item.word(_COMMAND_REMEDY)) is not None]
    return _checked(words, field) if len(words) == len(items) > 0 else None


def _split(field: Field) -> tuple[str, ...] | None:
    text = field.text(_COMMAND_REMEDY)
    if text is None:
        return None
    parts = shlex.shlex(text, posix=True, punctuation_chars="".join(_SHELL))
    parts.whitespace_split = True
    parts.commenters = ""
    try:
        words, pieces = shlex.split(text), list(parts)
    except ValueError as error:
        field.refuse(f"{field.said} cannot be split into words: {str(error).lower()}", _COMMAND_REMEDY)
        return None
    signs = [piece for piece in pieces if piece and set(piece) <= _SHELL]
    if signs:
        field.refuse(f"{signs[0]} is for a shell", _NO_SHELL_REMEDY)
        return None
    return _checked(words, field)


def _checked(words: Sequence[str], field: Field) -> tuple[str, ...] | None:
    if not words or not words[0]:
        field.refuse("it names no command", _COMMAND_REMEDY)
        return None
    return tuple(words)


def _duration(section: Section, key: str, default_s: float, most_s: int) -> float:
    field = section.get(key)
    if field is None:
        return default_s
    remedy = f"Write how long, from 1s to {most_s // 3600}h: 90s, 5min, 1h."
    word = field.word(remedy)
    if word is None:
        return default_s
    found = re.fullmatch(r"([0-9]{1,6})\s*([a-z]+)", word.strip())
    seconds = int(found[1]) * _UNITS.get(found[2], 0) if found else 0
    if not 1 <= seconds <= most_s:
        unit = ": a bare number has no unit" if word.strip().isdigit() else ""
        field.refuse(f"{field.said} is no time from 1s to {most_s // 3600}h{unit}", remedy)
        return default_s
    return float(seconds)


def _hours(field: Field) -> Hours | None:
    word = field.word(_HOURS_REMEDY)
    if word is None:
        return None
    found = re.fullmatch(r"\s*([0-9]{1,2}):([0-9]{2})\s*-\s*([0-9]{1,2}):([0-9]{2})\s*", word)
    begins = _clock(found[1], found[2], last=False) if found else None
    ends = _clock(found[3], found[4], last=True) if found else None
    if begins is None or ends is None:
        field.refuse(f"{field.said} is no window of hours", _HOURS_REMEDY)
        return None
    if begins == ends:
        field.refuse("it begins and ends at the same time", "Leave hours out, if it may be borrowed at any time.")
        return None
    return Hours(begins, ends)


def _clock(hour: str, minute: str, last: bool) -> time | None:
    """A time of day; 24:00 is the midnight at which a day ends."""
    if last and (hour, minute) == ("24", "00"):
        return time(0, 0)
    return time(int(hour), int(minute)) if int(hour) < 24 and int(minute) < 60 else None
