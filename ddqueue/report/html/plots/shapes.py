"""The outlines of marks, and the small pictures of them in a legend."""

from __future__ import annotations

from ddqueue.report.html.elements import Markup, element
from ddqueue.report.html.plots.style import Shape, Style

_RADIUS_PX = 4.2
_OUTLINES = {
    Shape.SQUARE: ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
    Shape.TRIANGLE: ((0, -1.15), (1.05, 0.75), (-1.05, 0.75)),
    Shape.UPSIDE_DOWN: ((0, 1.15), (1.05, -0.75), (-1.05, -0.75)),
    Shape.DIAMOND: ((0, -1.25), (1.1, 0), (0, 1.25), (-1.1, 0)),
    Shape.PENTAGON: ((0, -1.1), (1.05, -0.34), (0.65, 0.9), (-0.65, 0.9), (-1.05, -0.34)),
}


def mark_shape(shape: Shape, x: float, y: float) -> Markup:
    """The mark, centred on the place given in pixels."""
    if shape is Shape.CIRCLE:
        return element("circle", cx=x, cy=y, r=_RADIUS_PX)
    if shape is Shape.CROSS:
        arm = _RADIUS_PX * 0.9
        return element(
            "path",
            d=f"M{x - arm:.1f} {y - arm:.1f}l{2 * arm:g} {2 * arm:g}m0 {-2 * arm:g}l{-2 * arm:g} {2 * arm:g}",
            class_="stroke",
        )
    corners = " ".join(f"{x + dx * _RADIUS_PX:.1f},{y + dy * _RADIUS_PX:.1f}" for dx, dy in _OUTLINES[shape])
    return element("polygon", points=corners)


def swatch(style: Style, *, line: bool = False, bar: bool = False, hollow: bool = False, mark: bool = True) -> Markup:
    """A legend's picture of a style: its mark, on its line where it has one, or a piece of its bar."""
    look = style.colour + (" faint" if style.faint else "")
    if bar:
        picture = element("rect", x=2, y=3, width=18, height=8, class_=f"bar {look}")
    else:
        stroke = (
            element("path", d="M0 7H22", class_=f"line {look}{' dashed' if style.dashed else ''}") if line else None
        )
        filled = f"mark {look}{' hollow' if hollow else ''}"
        picture = element("g", stroke, element("g", mark_shape(style.shape, 11, 7), class_=filled) if mark else None)
    return element("svg", picture, class_="swatch", viewBox="0 0 22 14", width=22, height=14, aria_hidden="true")
