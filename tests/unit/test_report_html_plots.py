"""Scales, ticks and what is drawn of a chart."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from ddqueue.report.html.plots.chart import Axis, Bar, Chart, Direction, Mark, Rule, Series, Tick
from ddqueue.report.html.plots.draw import svg
from ddqueue.report.html.plots.scale import fitted
from ddqueue.report.html.plots.style import FAILED, style


@pytest.mark.parametrize(
    ("values", "logarithmic", "texts"),
    [
        ((0, 10), False, ["0.0", "2.5", "5.0", "7.5", "10.0"]),
        ((0, 1), False, ["0.00", "0.25", "0.50", "0.75", "1.00"]),
        ((0, 4000), False, ["0", "1,000", "2,000", "3,000", "4,000"]),
        ((-0.02, 0.02), False, ["-0.02", "-0.01", "0.00", "0.01", "0.02"]),
        ((15, 900), True, ["20", "50", "100", "200", "500", "1,000"]),
        ((0.2, 6), True, ["0.2", "0.5", "1", "2", "5"]),
        ((110, 170), True, ["120", "140", "160"]),
        ((1, 10_000_000), True, ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000", "10,000,000"]),
    ],
)
def test_ticks_are_round_and_say_all_their_digits(
    values: tuple[float, float], logarithmic: bool, texts: list[str]
) -> None:
    scale = fitted(Axis("x", logarithmic=logarithmic), values, 0, 400, wanted_ticks=4)
    assert [tick.text for tick in scale.ticks] == texts
    assert all(scale.holds(value) for value in values)


def test_a_scale_maps_its_ends_and_keeps_equal_ratios_equal_where_it_is_logarithmic() -> None:
    scale = fitted(Axis("x", logarithmic=True), [10, 1000], 40, 340, wanted_ticks=4)
    assert scale(scale.low) == pytest.approx(40)
    assert scale(scale.high) == pytest.approx(340)
    assert scale(100) - scale(10) == pytest.approx(scale(1000) - scale(100))


@pytest.mark.parametrize("values", [[], [5.0], [0.0], [5.0, 5.0]])
def test_a_scale_needs_no_spread(values: list[float]) -> None:
    for logarithmic in (False, True):
        scale = fitted(Axis("x", logarithmic=logarithmic), values, 0, 100, wanted_ticks=4)
        assert scale.low < scale.high
        assert len(scale.ticks) >= 1


def test_an_axis_keeps_the_bounds_and_the_ticks_it_was_given() -> None:
    ticks = (Tick(1, "one"), Tick(2, "two"))
    scale = fitted(Axis("y", ticks=ticks, low=0.5, high=2.5), [1, 2], 0, 100, wanted_ticks=9)
    assert (scale.low, scale.high, scale.ticks) == (0.5, 2.5, ticks)


def _chart(**changes: object) -> Chart:
    marks = (Mark(1, 10, "first", y_bounds=(8, 12)), Mark(2, 20, "second", hollow=True))
    chart = {
        "title": "Speed",
        "x": Axis("budget (nodes)"),
        "y": Axis("output (tokens/s)"),
        "series": (Series("b8", style(0), marks, line=True),),
    }
    return Chart(**(chart | changes))  # type: ignore[arg-type]


def _drawn(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(svg(chart))


def _texts(drawn: ElementTree.Element, look: str) -> list[str]:
    return [one.text or "" for one in drawn.iter("text") if look in one.get("class", "").split()]


def test_a_chart_has_its_title_its_axes_with_units_and_says_when_it_is_simulated() -> None:
    drawn = _drawn(_chart(simulated=True))
    assert _texts(drawn, "title") == ["Speed"]
    assert _texts(drawn, "x-axis") == ["budget (nodes)"]
    assert _texts(drawn, "y-axis") == ["output (tokens/s)"]
    assert _texts(drawn, "simulated") == ["simulated"]
    assert drawn.get("aria-label") == "Speed. x: budget (nodes). y: output (tokens/s). Simulated."
    assert _texts(_drawn(_chart()), "simulated") == []


def test_larger_is_further_right_and_higher_and_the_interval_reaches_its_bounds() -> None:
    drawn = _drawn(_chart())
    first, second = [(float(one.get("cx", "0")), float(one.get("cy", "0"))) for one in drawn.iter("circle")]
    assert second[0] > first[0]
    assert second[1] < first[1]
    (interval,) = [one.get("d", "") for one in drawn.iter("path") if one.get("class") == "interval"]
    low, high = (float(part) for part in interval.split("M")[1].split(" ")[1].split("V"))
    assert low - first[1] == pytest.approx(first[1] - high, abs=0.11)
    per_unit = (first[1] - second[1]) / 10
    assert low - first[1] == pytest.approx(2 * per_unit, abs=0.11)


def test_marks_carry_their_tips_and_hollow_ones_say_so() -> None:
    groups = [one for one in _drawn(_chart()).iter("g") if "mark" in one.get("class", "").split()]
    assert [one.findtext("title") for one in groups] == ["first", "second"]
    assert ["hollow" in one.get("class", "").split() for one in groups] == [False, True]


def test_bars_and_downward_lanes() -> None:
    lanes = Axis("host", ticks=(Tick(0, "upper"), Tick(1, "lower")), low=-0.6, high=1.6, downwards=True)
    bars = (Bar(0, 5, 0, style(0), "five"), Bar(5, 15, 1, style(1), "ten"))
    drawn = _drawn(_chart(series=(Series("x", FAILED, (Mark(5, 0, "failed"),)),), bars=bars, y=lanes))
    upper, lower = list(drawn.iter("rect"))
    assert float(lower.get("y", "0")) > float(upper.get("y", "0"))
    assert float(lower.get("width", "0")) == pytest.approx(2 * float(upper.get("width", "0")), abs=0.05)
    assert float(lower.get("x", "0")) == pytest.approx(
        float(upper.get("x", "0")) + float(upper.get("width", "0")), abs=0.05
    )


def test_rules_run_where_they_say_and_a_slope_through_equal_values() -> None:
    rules = (Rule(Direction.ACROSS, 15, "limit"), Rule(Direction.UP, 1.5), Rule(Direction.SLOPE, 10.0, "ten"))
    drawn = _drawn(_chart(rules=rules))
    across, up, slope = [one for one in drawn.iter("line") if one.get("class") == "rule"]
    assert across.get("y1") == across.get("y2")
    assert up.get("x1") == up.get("x2")
    # The two marks lie on y = 10 x, and so on the line.
    x1, y1, x2, y2 = (float(slope.get(name, "0")) for name in ("x1", "y1", "x2", "y2"))
    for circle in drawn.iter("circle"):
        cx, cy = float(circle.get("cx", "0")), float(circle.get("cy", "0"))
        assert y1 + (cx - x1) / (x2 - x1) * (y2 - y1) == pytest.approx(cy, abs=0.1)
    assert _texts(drawn, "note") == ["limit", "ten"]
    assert len(list(_drawn(_chart(rules=(Rule(Direction.UP, 1.5), Rule(Direction.ACROSS, 15)))).iter("line"))) > 2


def test_labels_that_would_run_into_each_other_are_left_out() -> None:
    ticks = tuple(Tick(at, f"a long label {at}") for at in range(1, 30))
    drawn = _drawn(_chart(x=Axis("x (nodes)", ticks=ticks)))
    shown = [one for one in drawn.iter("text") if one.get("text-anchor") == "middle" and one.get("class") == "tick"]
    at = [float(one.get("x", "0")) for one in shown]
    assert 1 < len(shown) < 10
    assert all(right - left > 80 for left, right in pairwise(at))


def test_text_is_escaped() -> None:
    text = "<script>alert('x')</script> & \"b\""
    drawn = _drawn(_chart(title=text, series=(Series("x", style(0), (Mark(1, 1, text),)),)))
    assert _texts(drawn, "title") == [text]
    assert "<script" not in svg(_chart(title=text))


def test_the_first_24_styles_differ() -> None:
    assert len({style(number) for number in range(24)}) == 24
