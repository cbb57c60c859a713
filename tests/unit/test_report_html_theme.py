"""The page's colours: readable in both themes and on paper, and told apart by people who see fewer of them."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest

SHEET = files("ddqueue.report.html").joinpath("page.css").read_text(encoding="utf-8")
LIGHT, DARK, PAPER = (
    dict(re.findall(r"--([\w-]+): (#\w{6});", b)) for b in re.findall(r":root \{(.*?)\}", SHEET, re.S)
)
THEMES = {"light": LIGHT, "dark": DARK, "paper": PAPER}
SERIES = [f"c{number}" for number in range(8)]
TEXTS = ["ink", "ink-2", "link", "good", "bad", "doubt"]

# Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009), at full severity; of linear RGB.
VISIONS = {
    "all colours": np.eye(3),
    "no green": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "no red": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "no blue": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}


def _linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def _contrast(a: str, b: str) -> float:
    """WCAG 2's ratio, 1 to 21."""
    low, high = sorted(float(_linear(one) @ [0.2126, 0.7152, 0.0722]) for one in (a, b))
    return (high + 0.05) / (low + 0.05)


def _lab(linear: np.ndarray) -> np.ndarray:
    """CIE L*a*b* under D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(linear, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_marks_stand_out_from_the_page(theme: str) -> None:
    colours = THEMES[theme]
    texts = {name: _contrast(colours[name], colours["paper"]) for name in TEXTS}
    assert min(texts.values()) >= 4.5, texts
    marks = {name: _contrast(colours[name], colours["paper"]) for name in (*SERIES, "base", "other", "front")}
    assert min(marks.values()) >= 3.0, marks
    assert _contrast(colours["doubt"], colours["doubt-paper"]) >= 4.5
    assert _contrast(colours["good"], colours["good-paper"]) >= 4.5


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", THEMES)
def test_no_two_series_look_alike(theme: str, vision: str) -> None:
    labs = {name: _lab(VISIONS[vision] @ _linear(THEMES[theme][name])) for name in SERIES}
    apart = {(a, b): float(np.linalg.norm(labs[a] - labs[b])) for a, b in combinations(SERIES, 2)}
    assert min(apart.values()) > 20, min(apart.items(), key=lambda pair: pair[1])


def test_paper_is_light() -> None:
    assert {name: value for name, value in PAPER.items() if name in SERIES} == {name: LIGHT[name] for name in SERIES}
    assert PAPER["paper"] == "#ffffff"
