"""A headless Chromium or Chrome, spoken to over its DevTools protocol: for a picture of a page, and for looking at one.

Source: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from ddqueue.errors import DdqueueError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_START_S, _ANSWER_S, _END_S = 60.0, 60.0, 5.0
_PORT_FILE = "DevToolsActivePort"


def find_browser() -> str | None:
    """The path of a browser that can be driven; None when there is none on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Tab:
    """One page of a running browser. `events` holds everything it has told so far, in order."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self.events: list[dict[str, Any]] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command. Raises DdqueueError when the browser refuses, ends or is silent."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        try:
            return await asyncio.wait_for(answer, _ANSWER_S)
        except TimeoutError:
            raise DdqueueError(f"the browser did not answer {method} within {_ANSWER_S:g} s") from None
        finally:
            self._waiting.pop(number, None)

    async def open(self, url: str) -> None:
        """Load a page, and return when everything in it has been."""
        self._loaded.clear()
        await self.call("Page.enable")
        await self.call("Page.navigate", url=url)
        try:
            await asyncio.wait_for(self._loaded.wait(), _ANSWER_S)
        except TimeoutError:
            raise DdqueueError(f"the browser did not finish loading {url} within {_ANSWER_S:g} s") from None

    async def resize(self, width_px: int, height_px: int, scale: float = 1.0, mobile: bool = False) -> None:
        """The window as a page sees it, in CSS pixels."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width_px,
            height=height_px,
            deviceScaleFactor=scale,
            mobile=mobile,
        )

    async def prefer(self, scheme: str) -> None:
        """`light` or `dark`."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self) -> bytes:
        """A PNG of the whole page, however long."""
        size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(found["data"])

    async def listen(self) -> None:
        """Take what the browser sends until it ends; runs beside the calls."""
        async for message in self._socket:
            said = message.json()
            answer = self._waiting.get(said.get("id", 0))
            if answer is None:
                self.events.append(said)
                if said.get("method") == "Page.loadEventFired":
                    self._loaded.set()
            elif not answer.done():
                if "error" in said:
                    answer.set_exception(DdqueueError(f"the browser refused: {said['error'].get('message')}"))
                else:
                    answer.set_result(said["result"])
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(DdqueueError("the browser has ended"))


@asynccontextmanager
async def browser_tab(program: str) -> AsyncIterator[Tab]:
    """A tab of a browser of our own, with an empty profile that is deleted at the end.

    Raises:
        DdqueueError: it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="ddqueue-browser-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program,
            *_arguments(profile),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            port = await _port(process, Path(profile))
            async with aiohttp.ClientSession() as session:
                url = await _tab_url(session, port)
                async with session.ws_connect(url, max_msg_size=0) as socket:
                    tab = Tab(socket)
                    listening = asyncio.create_task(tab.listen())
                    try:
                        yield tab
                    finally:
                        listening.cancel()
                        with suppress(asyncio.CancelledError):
                            await listening
        finally:
            await _end(process)


async def picture(program: str, page: Path, width_px: int) -> bytes:
    """A PNG of a local page at that width, at twice the resolution of the screen."""
    async with browser_tab(program) as tab:
        await tab.resize(width_px, 900, scale=2.0)
        await tab.prefer("light")
        await tab.open(page.absolute().as_uri())
        return await tab.screenshot()


def _arguments(profile: str) -> list[str]:
    arguments = [
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--no-default-browser-check",
        "--hide-scrollbars",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "about:blank",
    ]
    # Chromium refuses to run as root inside its own sandbox; the page it opens is ours and runs no script.
    return ["--no-sandbox", *arguments] if os.geteuid() == 0 else arguments


async def _port(process: asyncio.subprocess.Process, profile: Path) -> int:
    """The port it chose, which it writes into its profile once it listens."""
    deadline = asyncio.get_running_loop().time() + _START_S
    while asyncio.get_running_loop().time() < deadline:
        if process.returncode is not None:
            raise DdqueueError(f"the browser ended at once, with code {process.returncode}")
        with suppress(FileNotFoundError):
            lines = (profile / _PORT_FILE).read_text().split("\n")
            if len(lines) > 1:
                return int(lines[0])
        await asyncio.sleep(0.05)
    raise DdqueueError(f"the browser did not start within {_START_S:g} s")


async def _tab_url(session: aiohttp.ClientSession, port: int) -> str:
    async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
        tabs = await reply.json()
    found = next((tab for tab in tabs if tab["type"] == "page"), None)
    if found is None:
        raise DdqueueError("the browser has no tab")
    return str(found["webSocketDebuggerUrl"])


async def _end(process: asyncio.subprocess.Process) -> None:
    """With all its processes, which share its session."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_S)
            return
