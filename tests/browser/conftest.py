"""A page of a report in a real browser, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from report_data import SweepRows

from ddqueue.report.html.browser import NAMES, Tab, browser_tab, find_browser
from ddqueue.report.html.document import document
from ddqueue.report.html.page import page

Value = TypeVar("Value")
Look = Callable[[Tab], Awaitable[Value]]


@pytest.fixture(scope="session")
def browser() -> str:
    """The program; skips where there is none."""
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the PATH; Debian has `apt-get install chromium`")
    return program


@pytest.fixture(scope="session")
def report_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every section."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page(document(SweepRows().data())), encoding="utf-8")
    return file


@pytest.fixture
def in_browser(browser: str) -> Callable[[Look[Value]], Value]:
    """Runs a look at a fresh tab, to its end."""

    async def looked(look: Look[Value]) -> Value:
        async with browser_tab(browser) as tab:
            await tab.call("Log.enable")
            await tab.call("Runtime.enable")
            await tab.call("Network.enable")
            return await look(tab)

    return lambda look: asyncio.run(looked(look))
