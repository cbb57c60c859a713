"""`borrow:` in the inventory: what each key means, and what each mistake is told."""

from __future__ import annotations

from datetime import time

import pytest

from ddqueue.domain.borrowing import Borrow, Hours
from ddqueue.errors import FileError
from ddqueue.files.inventory_file import inventory_from_text

REST = "models: {m: {path: /m}}\nengines: {e: {command: [x]}}\n"


def text_with(borrow: str) -> str:
    return f"hosts:\n  b300:\n    gpus: 8\n    gpu: B300\n    borrow: {borrow}\n{REST}"


def terms_of(borrow: str) -> Borrow | None:
    return inventory_from_text(text_with(borrow), "i.yaml").host("b300").borrow


def test_every_key() -> None:
    assert terms_of(
        "{take: [systemctl, stop, serving], give_back: \"systemctl start 'serving unit'\", limit: 5min, idle: 90s,"
        ' hours: "22:00-06:30"}'
    ) == Borrow(
        take=("systemctl", "stop", "serving"),
        give_back=("systemctl", "start", "serving unit"),
        limit_s=300,
        idle_s=90,
        hours=Hours(time(22), time(6, 30)),
    )


def test_what_may_be_left_out() -> None:
    assert terms_of("{take: [a], give_back: [b]}") == Borrow(("a",), ("b",), limit_s=300, idle_s=60, hours=None)
    assert terms_of("{take: [a], give_back: [b], hours: none}") == Borrow(("a",), ("b",))
    assert terms_of("none") is None
    assert inventory_from_text(f"hosts: {{h: {{gpus: 1, gpu: x}}}}\n{REST}", "i.yaml").host("h").borrow is None


@pytest.mark.parametrize(
    ("written", "hours"),
    [
        ("22:00-06:00", Hours(time(22), time(6))),
        ("9:05 - 17:00", Hours(time(9, 5), time(17))),
        ("18:00-24:00", Hours(time(18), time(0))),
        ("00:00-06:00", Hours(time(0), time(6))),
    ],
)
def test_hours(written: str, hours: Hours) -> None:
    terms = terms_of(f"{{take: [a], give_back: [b], hours: {written}}}")
    assert terms is not None
    assert terms.hours == hours


@pytest.mark.parametrize(("written", "seconds"), [("1s", 1), ("2min", 120), ("2m", 120), ("1h", 3600), ("90 s", 90)])
def test_times(written: str, seconds: float) -> None:
    terms = terms_of(f"{{take: [a], give_back: [b], limit: {written}, idle: {written}}}")
    assert terms is not None
    assert (terms.limit_s, terms.idle_s) == (seconds, seconds)


@pytest.mark.parametrize(
    ("borrow", "key", "problem", "remedy"),
    [
        ("yes please", "", "yes please is not a mapping", "{take: [systemctl, stop, serving]"),
        ("{take: [a]}", "give_back", "give_back is missing", "give_back: [systemctl, start, serving]"),
        ("{take: [a], give_back: [b], giveback: [b]}", "giveback", "unknown key 'giveback'", "Did you mean give_back?"),
        ("{take: [], give_back: [b]}", "take", "the list is empty", "Write a list of words"),
        ("{take: [''], give_back: [b]}", "take", "it names no command", "Write a list of words"),
        ("{take: '', give_back: [b]}", "take", "no text", "Write a list of words"),
        ("{take: {a: b}, give_back: [b]}", "take", "a mapping is not text", "Write a list of words"),
        ("{take: [[a]], give_back: [b]}", "take[0]", "a list is no plain value", "Write a list of words"),
        ('{take: "a \'b", give_back: [b]}', "take", "no closing quotation", "Write a list of words"),
        ("{take: a && b, give_back: [b]}", "take", "&& is for a shell", "[bash, -c"),
        ("{take: a; b, give_back: [b]}", "take", "; is for a shell", "[bash, -c"),
        ("{take: a >/dev/null, give_back: [b]}", "take", "> is for a shell", "[bash, -c"),
        ("{take: [a], give_back: [b], limit: 5}", "limit", "5 is no time from 1s to 1h: a bare", "90s, 5min, 1h"),
        ("{take: [a], give_back: [b], limit: 2h}", "limit", "2h is no time from 1s to 1h", "from 1s to 1h"),
        ("{take: [a], give_back: [b], idle: 0s}", "idle", "0s is no time from 1s to 24h", "from 1s to 24h"),
        ("{take: [a], give_back: [b], idle: 5 days}", "idle", "5 days is no time", "90s, 5min, 1h"),
        ("{take: [a], give_back: [b], hours: 22-6}", "hours", "22-6 is no window of hours", '"22:00-06:00"'),
        ("{take: [a], give_back: [b], hours: '24:00-06:00'}", "hours", "no window of hours", "local time"),
        ("{take: [a], give_back: [b], hours: '22:00-06:60'}", "hours", "no window of hours", "local time"),
        ("{take: [a], give_back: [b], hours: '00:00-24:00'}", "hours", "the same time", "Leave hours out"),
        ("{take: [a], give_back: [b], hours: [1]}", "hours", "a list is no plain value", "local time"),
    ],
)
def test_a_mistake_is_told_with_line_key_and_remedy(borrow: str, key: str, problem: str, remedy: str) -> None:
    with pytest.raises(FileError) as caught:
        inventory_from_text(text_with(borrow), "i.yaml")
    (found,) = caught.value.problems
    assert (found.file, found.line) == ("i.yaml", 5)
    assert found.key == "hosts.b300.borrow" + (f".{key}" if key else "")
    assert problem in found.problem
    assert remedy in found.remedy
