"""The report as a person sees it: on a desktop, on a phone, in both themes, and on paper."""

from __future__ import annotations

import base64
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ddqueue.report.html.browser import Tab, picture

InBrowser = Callable[[Callable[[Tab], Awaitable[Any]]], Any]

DESKTOP_PX, PHONE_PX = 1280, 390

# Everything whose right end lies beyond the window, unless a box of its own scrolls it.
OVERFLOWING = """
(() => {
  const scrolled = e => {
    for (; e; e = e.parentElement) if (getComputedStyle(e).overflowX !== 'visible') return true;
  };
  const wide = [...document.querySelectorAll('body *')].filter(
    e => !e.closest('svg *') && e.getBoundingClientRect().right > innerWidth + 1 && !scrolled(e));
  return {page: document.documentElement.scrollWidth, window: innerWidth,
          wide: wide.map(e => e.tagName + ' ' + e.textContent.slice(0, 60))};
})()
"""

# The contrast (WCAG 2) of every text against the nearest background behind it.
POOR_CONTRAST = """
(() => {
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = parts(c).map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor; if ((parts(c)[3] ?? 1) > 0.5) return c;
    }
    return 'rgb(255, 255, 255)';
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Map(); let texts = 0;
  for (let node; node = walker.nextNode();) {
    const e = node.parentElement;
    if (!node.textContent.trim() || e.tagName === 'title') continue;
    texts++;
    const style = getComputedStyle(e);
    const [a, b] = [light(e.closest('svg') ? style.fill : style.color), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) seen.set(e.tagName + '.' + e.getAttribute('class') + ': ' + node.textContent.slice(0, 40), ratio);
  }
  return {texts, poor: Object.fromEntries(seen)};
})()
"""

# Texts of one plot that run into each other or out of it, of those that are not drawn on purpose over marks.
PLOTS = """
[...document.querySelectorAll('svg.plot')].map(plot => {
  const text = look => [...plot.querySelectorAll('text.' + look)].map(e => e.textContent);
  const frame = plot.getBoundingClientRect();
  const boxes = [...plot.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
  const outside = boxes.filter(([, b]) =>
    b.left < frame.left - 2 || b.right > frame.right + 2 || b.top < frame.top - 2 || b.bottom > frame.bottom + 2);
  const ticks = [...plot.querySelectorAll('text:is(.tick, .title, .simulated, .axis)')].map(
    e => [e.textContent, e.getBoundingClientRect()]);
  const meet = (p, q) =>
    p.left < q.right - 2 && q.left < p.right - 2 && p.top < q.bottom - 2 && q.top < p.bottom - 2;
  const hits = ticks.flatMap(
    ([a, p], i) => ticks.slice(i + 1).filter(([, q]) => meet(p, q)).map(([b]) => a + ' / ' + b));
  return {title: text('title'), x: text('x-axis'), y: text('y-axis'), ticks: text('tick'), simulated: text('simulated'),
          label: plot.getAttribute('aria-label'), legend: plot.closest('figure').querySelectorAll('.legend li').length,
          size_px: Math.min(...[...plot.querySelectorAll('text')].map(e => e.getBoundingClientRect().height)),
          outside: outside.map(([t]) => t), hits};
})
"""


async def _value(tab: Tab, expression: str) -> Any:
    found = await tab.call("Runtime.evaluate", expression=expression, returnByValue=True)
    assert "exceptionDetails" not in found, found["exceptionDetails"]
    return found["result"]["value"]


async def _open(tab: Tab, page: Path, width_px: int, scheme: str = "light") -> None:
    await tab.resize(width_px, 900, mobile=width_px < 500)
    await tab.prefer(scheme)
    await tab.open(page.as_uri())


def _complaints(tab: Tab) -> list[dict[str, Any]]:
    """What the page wrote to the console, its errors, and every request but that for the page itself."""
    wrong = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
    requests = [one for one in tab.events if one.get("method") == "Network.requestWillBeSent"]
    return [one for one in tab.events if one.get("method") in wrong] + requests[1:]


@pytest.mark.parametrize("width_px", [DESKTOP_PX, PHONE_PX])
def test_nothing_is_wider_than_the_window_and_nothing_complains(
    in_browser: InBrowser, report_page: Path, width_px: int
) -> None:
    async def look(tab: Tab) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        await _open(tab, report_page, width_px)
        return await _value(tab, OVERFLOWING), _complaints(tab)

    found, complaints = in_browser(look)
    assert complaints == []
    assert found["window"] == width_px
    assert found["wide"] == []
    assert found["page"] <= width_px


@pytest.mark.parametrize(
    ("width_px", "height_px", "wanted"),
    [(DESKTOP_PX, 900, "#answers tbody tr"), (PHONE_PX, 844, "#answers li")],
)
def test_the_answer_is_on_the_first_screen(
    in_browser: InBrowser, report_page: Path, width_px: int, height_px: int, wanted: str
) -> None:
    ends = f"[...document.querySelectorAll('{wanted}')].slice(0, 4).map(one => one.getBoundingClientRect().bottom)"

    async def look(tab: Tab) -> list[float]:
        await tab.resize(width_px, height_px, mobile=width_px < 500)
        await tab.open(report_page.as_uri())
        found: list[float] = await _value(tab, ends)
        return found

    found = in_browser(look)
    assert len(found) >= 2
    assert max(found[:4] if width_px == DESKTOP_PX else found[:2]) <= height_px


@pytest.mark.parametrize("width_px", [DESKTOP_PX, PHONE_PX])
def test_every_plot_can_be_read(in_browser: InBrowser, report_page: Path, width_px: int) -> None:
    async def look(tab: Tab) -> list[dict[str, Any]]:
        await _open(tab, report_page, width_px)
        return await _value(tab, PLOTS)

    plots = in_browser(look)
    assert len(plots) > 15
    for plot in plots:
        assert [len(plot[part]) for part in ("title", "x", "y")] == [1, 1, 1], plot
        assert plot["simulated"] == ["simulated"]
        assert len(plot["ticks"]) >= 4
        assert "(" in plot["x"][0], f"{plot['x']} has no unit"
        assert plot["legend"] >= 1
        assert plot["outside"] == [], plot["title"]
        assert plot["hits"] == [], plot["title"]
        assert plot["size_px"] >= 8, plot["title"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_themes(in_browser: InBrowser, report_page: Path, scheme: str) -> None:
    async def look(tab: Tab) -> tuple[dict[str, Any], str]:
        await _open(tab, report_page, DESKTOP_PX, scheme)
        return await _value(tab, POOR_CONTRAST), await _value(tab, "getComputedStyle(document.body).backgroundColor")

    found, background = in_browser(look)
    assert found["texts"] > 500
    assert found["poor"] == {}
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}[scheme]


def test_it_prints_dark_on_white_with_its_details_open(in_browser: InBrowser, report_page: Path) -> None:
    async def look(tab: Tab) -> tuple[bytes, dict[str, Any], str, Any]:
        await _open(tab, report_page, DESKTOP_PX, "dark")
        pdf = await tab.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        await tab.call("Emulation.setEmulatedMedia", media="print")
        hidden = "[...document.querySelectorAll('details > *')].filter(e => !e.checkVisibility()).length"
        background = await _value(tab, "getComputedStyle(document.body).backgroundColor")
        return base64.b64decode(pdf["data"]), await _value(tab, POOR_CONTRAST), background, await _value(tab, hidden)

    pdf, contrast, background, hidden = in_browser(look)
    assert pdf.startswith(b"%PDF-")
    assert pdf.count(b"/Type /Page\n") > 3
    assert background == "rgb(255, 255, 255)"
    assert contrast["poor"] == {}
    assert hidden == 0


def test_a_picture_is_the_whole_page_at_twice_its_width(browser: str, report_page: Path) -> None:
    import asyncio

    found = asyncio.run(picture(browser, report_page, 800))
    assert found.startswith(b"\x89PNG\r\n")
    width_px, height_px = struct.unpack(">II", found[16:24])
    assert width_px == 1600
    assert height_px > 5000


def test_a_page_that_asks_for_something_or_runs_a_script_would_be_seen(
    in_browser: InBrowser, report_page: Path, tmp_path: Path
) -> None:
    worse = tmp_path / "worse.html"
    extra = '<img src="http://127.0.0.1:9/x.png"><script>document.title = "run"</script></body>'
    worse.write_text(report_page.read_text(encoding="utf-8").replace("</body>", extra), encoding="utf-8")

    async def look(tab: Tab) -> tuple[str, list[dict[str, Any]]]:
        await _open(tab, worse, DESKTOP_PX)
        return await _value(tab, "document.title"), _complaints(tab)

    title, complaints = in_browser(look)
    assert title == "trees@1: ddqueue report", "the page's own policy stops scripts"
    assert len(complaints) >= 2
