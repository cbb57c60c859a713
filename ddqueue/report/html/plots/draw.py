"""A chart as SVG. Colours, fonts and line widths come from the page's style sheet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddqueue.report.html.elements import Markup, element, joined
from ddqueue.report.html.plots.chart import Bar, Chart, Direction, Mark, Rule, Series
from ddqueue.report.html.plots.scale import Scale, fitted
from ddqueue.report.html.plots.shapes import mark_shape

SIMULATED = "simulated"

_TOP, _RIGHT, _BOTTOM = 34.0, 14.0, 44.0
_DIGIT_PX, _LETTER_PX = 6.6, 6.3
_BAR_PX = 22.0
_CAP_PX = 3.0


@dataclass(frozen=True)
class _Frame:
    """The plotting area in pixels, with the scale along each side."""

    left: float
    right: float
    top: float
    bottom: float
    x: Scale
    y: Scale


def svg(chart: Chart) -> Markup:
    """The chart with title, labelled axes, and everything on them; as wide as its place on the page."""
    frame = _frame(chart)
    said = f"{chart.title}. x: {chart.x.label}. y: {chart.y.label}.{' Simulated.' if chart.simulated else ''}"
    return element(
        "svg",
        *_grid(frame),
        *_words(chart, frame),
        *(_rule(rule, frame) for rule in chart.rules),
        *(_bar(bar, frame) for bar in chart.bars),
        *(part for series in chart.series for part in _series(series, frame)),
        class_="plot",
        viewBox=f"0 0 {chart.width:g} {chart.height:g}",
        role="img",
        aria_label=said,
    )


def _frame(chart: Chart) -> _Frame:
    top, right, bottom = _TOP, chart.width - _RIGHT, chart.height - _BOTTOM
    ends = (top, bottom) if chart.y.downwards else (bottom, top)
    y = fitted(chart.y, chart.ys(), *ends, wanted_ticks=5)
    left = 26 + max((len(tick.text) for tick in y.ticks), default=0) * _LETTER_PX
    left = min(left, chart.width * 0.55)
    x = fitted(chart.x, chart.xs(), left, right, wanted_ticks=max(3, round((right - left) / 75)))
    return _Frame(left, right, top, bottom, x, y)


def _grid(frame: _Frame) -> Iterator[Markup]:
    for tick in frame.y.ticks:
        at = frame.y(tick.at)
        yield element("line", x1=frame.left, x2=frame.right, y1=at, y2=at, class_="grid")
        yield element("text", tick.text, x=frame.left - 6, y=at + 3.5, class_="tick", text_anchor="end")
    taken = float("-inf")
    for tick in frame.x.ticks:
        at = frame.x(tick.at)
        yield element("line", x1=at, x2=at, y1=frame.top, y2=frame.bottom, class_="grid")
        # A label that would run into the one before it is left out; its line stays.
        half = len(tick.text) * _DIGIT_PX / 2
        if at - half > taken + 4:
            taken = at + half
            yield element("text", tick.text, x=at, y=frame.bottom + 15, class_="tick", text_anchor="middle")


def _words(chart: Chart, frame: _Frame) -> Iterator[Markup]:
    yield element("text", chart.title, x=2, y=15, class_="title")
    middle = (frame.left + frame.right) / 2
    yield element("text", chart.x.label, x=middle, y=chart.height - 8, class_="axis x-axis", text_anchor="middle")
    high = (frame.top + frame.bottom) / 2
    yield element(
        "text",
        chart.y.label,
        transform=f"translate(11 {high:.1f}) rotate(-90)",
        class_="axis y-axis",
        text_anchor="middle",
    )
    if chart.simulated:
        yield element("text", SIMULATED, x=chart.width - 2, y=15, class_="simulated", text_anchor="end")


def _rule(rule: Rule, frame: _Frame) -> Markup | None:
    look = f"rule {rule.style.colour}" if rule.style else "rule"
    if rule.direction is Direction.SLOPE:
        return _slope(rule, frame, look)
    scale = frame.y if rule.direction is Direction.ACROSS else frame.x
    if not scale.holds(rule.at):
        return None
    at = scale(rule.at)
    if rule.direction is Direction.ACROSS:
        line = element("line", x1=frame.left, x2=frame.right, y1=at, y2=at, class_=look)
        words = element("text", rule.text, x=frame.right - 3, y=at - 4, class_="note", text_anchor="end")
    else:
        line = element("line", x1=at, x2=at, y1=frame.top, y2=frame.bottom, class_=look)
        side = -1 if at + len(rule.text) * _LETTER_PX > frame.right else 1
        anchor = "end" if side < 0 else "start"
        words = element("text", rule.text, x=at + 4 * side, y=frame.top + 11, class_="note", text_anchor=anchor)
    return joined(line, words if rule.text else None)


def _slope(rule: Rule, frame: _Frame, look: str) -> Markup | None:
    """From where y = at * x enters the frame to where it leaves; on two axes of one kind that is a straight line."""
    low = max(frame.x.low, frame.y.low / rule.at)
    high = min(frame.x.high, frame.y.high / rule.at)
    if low >= high:
        return None
    ends = {"x1": frame.x(low), "y1": frame.y(low * rule.at), "x2": frame.x(high), "y2": frame.y(high * rule.at)}
    words = None
    if rule.text and ends["y2"] <= frame.top + 1:
        words = element("text", rule.text, x=ends["x2"] + 6, y=ends["y2"] + 11, class_="note")
    elif rule.text:
        words = element("text", rule.text, x=ends["x2"], y=ends["y2"] - 5, class_="note", text_anchor="end")
    return joined(element("line", **ends, class_=look), words)


def _bar(bar: Bar, frame: _Frame) -> Markup:
    start, end, lane = frame.x(bar.start), frame.x(bar.end), frame.y(bar.lane)
    return element(
        "rect",
        element("title", bar.tip),
        x=start,
        y=lane - _BAR_PX / 2,
        width=max(end - start, 0.3),
        height=_BAR_PX,
        class_=f"bar {bar.style.colour}",
    )


def _series(series: Series, frame: _Frame) -> Iterator[Markup]:
    look = series.style.colour + (" faint" if series.style.faint else "")
    if series.line and len(series.marks) > 1:
        points = " ".join(f"{_x(mark, frame):.1f},{frame.y(mark.y):.1f}" for mark in series.marks)
        dashed = " dashed" if series.style.dashed else ""
        yield element("polyline", points=points, class_=f"line {look}{dashed}")
    if series.without_marks:
        return
    for mark in series.marks:
        yield element(
            "g",
            element("title", mark.tip),
            *_interval(mark, frame),
            mark_shape(series.style.shape, _x(mark, frame), frame.y(mark.y)),
            class_=f"mark {look}{' hollow' if mark.hollow else ''}",
        )


def _interval(mark: Mark, frame: _Frame) -> Iterator[Markup]:
    x, y = _x(mark, frame), frame.y(mark.y)
    if mark.y_bounds is not None:
        low, high = (frame.y(bound) for bound in mark.y_bounds)
        caps = "".join(f"M{x - _CAP_PX:.1f} {at:.1f}h{2 * _CAP_PX:g}" for at in (low, high))
        yield element("path", d=f"M{x:.1f} {low:.1f}V{high:.1f}{caps}", class_="interval")
    if mark.x_bounds is not None:
        low, high = (frame.x(bound) for bound in mark.x_bounds)
        caps = "".join(f"M{at:.1f} {y - _CAP_PX:.1f}v{2 * _CAP_PX:g}" for at in (low, high))
        yield element("path", d=f"M{low:.1f} {y:.1f}H{high:.1f}{caps}", class_="interval")


def _x(mark: Mark, frame: _Frame) -> float:
    return frame.x(mark.x) + mark.shift_px
