"""How the tests of this folder read a client's log: needs no box and no root."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from .clients import DISPATCHER_TO_POSTGRES, reaction
from .history import History, logged
from .limits import NOTICE_LIMIT_S, RECOVER_LIMIT_S, allowance

LOG = """2026-03-01 10:00:00,000 dispatcher[7] INFO leading
2026-03-01 10:00:24,500 dispatcher[7] WARNING Postgres at 10.79.0.1:5432/ddqueue did not answer: timed out
Traceback (most recent call last):
2026-03-01 10:00:28,000 dispatcher[7] WARNING Postgres at 10.79.0.1:5432/ddqueue did not answer: timed out
2026-03-01 10:00:41,250 dispatcher[7] INFO leading
"""
CUT_AT = datetime(2026, 3, 1, 10, 0, 20, tzinfo=UTC)
HEALED_AT = CUT_AT + timedelta(seconds=20)


def test_a_reaction_counts_from_the_cut_and_from_the_heal() -> None:
    met = reaction(DISPATCHER_TO_POSTGRES, logged(LOG, "desk"), CUT_AT, HEALED_AT)
    assert (met.noticed_s, met.recovered_s) == (4.5, 1.25)
    assert met.faults() == []


def test_a_client_that_never_noticed_is_at_fault() -> None:
    met = reaction(DISPATCHER_TO_POSTGRES, logged(LOG, "desk")[:1], CUT_AT, HEALED_AT)
    assert (met.noticed_s, met.recovered_s) == (None, None)
    assert len(met.faults()) == 2


def test_a_late_client_is_at_fault() -> None:
    late_s = NOTICE_LIMIT_S * allowance() + 30
    met = reaction(DISPATCHER_TO_POSTGRES, logged(LOG, "desk"), CUT_AT - timedelta(seconds=late_s), HEALED_AT)
    assert len(met.faults()) == 1
    later = logged(LOG.replace("10:00:41", "10:09:41"), "desk")
    assert RECOVER_LIMIT_S * allowance() < 541
    assert len(reaction(DISPATCHER_TO_POSTGRES, later, CUT_AT, HEALED_AT).faults()) == 1


def test_a_history_is_in_the_order_of_its_times() -> None:
    story = History("a story")
    story.note("second", at=story.began_at + timedelta(seconds=2))
    story.note("first", at=story.began_at + timedelta(seconds=1))
    taken = story.take(LOG, "desk", "leading")
    assert all(moment.at >= story.began_at for moment in taken)
    lines = story.text().splitlines()
    assert lines[0].startswith("--- a story, begun ")
    assert [line.split()[-1] for line in lines[1:3]] == ["first", "second"]
