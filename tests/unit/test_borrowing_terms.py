"""Hours, terms and loans: what the clock on the wall says, and when a box goes back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddqueue.domain.borrowing import (
    RETRY_LIMIT_S,
    Borrow,
    CommandEnd,
    Hours,
    Loan,
    LoanState,
    retry_delay_s,
)

NIGHT = Hours(time(22), time(6))
DAY = Hours(time(9, 30), time(17))
BERLIN = ZoneInfo("Europe/Berlin")
TERMS = Borrow(("stop", "it"), ("start", "it"), limit_s=20, idle_s=60, hours=NIGHT)


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2025-01-15T{clock}").replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("hours", "inside", "outside"),
    [
        (NIGHT, ["22:00:00", "23:59:59", "00:00:00", "05:59:59"], ["06:00:00", "12:00:00", "21:59:59"]),
        (DAY, ["09:30:00", "16:59:59"], ["09:29:59", "17:00:00", "00:00:00"]),
        (Hours(time(18), time(0)), ["18:00:00", "23:59:59"], ["00:00:00", "17:59:59"]),
        (Hours(time(0), time(6)), ["00:00:00", "05:59:59"], ["06:00:00", "23:59:59"]),
    ],
)
def test_a_window_has_its_first_moment_and_not_its_last(hours: Hours, inside: list[str], outside: list[str]) -> None:
    assert [clock for clock in inside if not hours.include(at(clock))] == []
    assert [clock for clock in outside if hours.include(at(clock))] == []


@given(st.times(), st.times(), st.times())
def test_a_window_and_the_rest_of_the_day_share_no_moment_and_leave_none_out(one: time, two: time, clock: time) -> None:
    if one == two:
        return
    moment = datetime.combine(datetime(2025, 1, 15), clock)
    assert Hours(one, two).include(moment) != Hours(two, one).include(moment)


@pytest.mark.parametrize(
    ("day", "minutes_open"),
    [
        (datetime(2025, 3, 29, 12), 7 * 60),  # the clock is put forward: a night an hour shorter
        (datetime(2025, 7, 1, 12), 8 * 60),
        (datetime(2025, 10, 25, 12), 9 * 60),  # and back
    ],
)
def test_production_has_its_box_at_six_whatever_is_done_to_the_clock(day: datetime, minutes_open: int) -> None:
    noon = day.replace(tzinfo=BERLIN).astimezone(UTC)
    moments = [(noon + timedelta(minutes=minute)).astimezone(BERLIN) for minute in range(24 * 60)]
    open_at = [moment for moment in moments if NIGHT.include(moment)]
    assert len(open_at) == minutes_open
    assert open_at[0].time() == time(22)
    assert (open_at[-1].astimezone(UTC) + timedelta(minutes=1)).astimezone(BERLIN).time() == time(6)


def test_a_refusal_names_hours_zone_and_clock() -> None:
    assert TERMS.closed(at("12:05:00")) == "outside its hours (22:00-06:00 CET, now 12:05)"
    assert TERMS.closed(at("23:00:00")) is None
    assert Borrow(("a",), ("b",)).closed(at("12:00:00")) is None
    assert str(Hours(time(18), time(0))) == "18:00-24:00"


def test_a_box_goes_back_when_idle_and_when_its_hours_are_over() -> None:
    assert TERMS.why_due(at("23:00:00"), idle_s=59.9) is None
    assert TERMS.why_due(at("23:00:00"), idle_s=60) == "no work for 60 s"
    assert TERMS.why_due(at("06:00:00"), idle_s=0) == "outside its hours (22:00-06:00 CET, now 06:00)"


def test_tries_to_give_back_never_end_and_never_crowd() -> None:
    delays = [retry_delay_s(failures) for failures in range(1, 2000)]
    assert delays[:4] == [5, 10, 20, 40]
    assert delays[-1] == max(delays) == RETRY_LIMIT_S


@pytest.mark.parametrize("terms", [TERMS, Borrow(("a",), ("b", "c d"))])
def test_terms_come_back_from_json(terms: Borrow) -> None:
    assert Borrow.from_json(json.loads(json.dumps(terms.to_json()))) == terms


def test_a_box_is_ours_only_when_taken_in_this_boot() -> None:
    def loan(state: LoanState) -> Loan:
        return Loan(TERMS, state, at("22:00:00"), boot="one")

    assert loan(LoanState.TAKEN).is_ours("one")
    assert not loan(LoanState.TAKEN).is_ours("two"), "production starts by itself when the box does"
    assert not loan(LoanState.TAKING).is_ours("one")
    assert not loan(LoanState.GIVING_BACK).is_ours("one")


def test_evidence_is_one_line() -> None:
    end = CommandEnd(("systemctl", "stop", "serving"), "ended with 5", "Failed to stop:\n\n  Unit not loaded.\n")
    assert end.evidence == "`systemctl stop serving` ended with 5: Failed to stop: / Unit not loaded."
    assert CommandEnd(("true",), "", "").evidence == "`true` succeeded: it printed nothing"
