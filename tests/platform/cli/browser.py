"""Drives Debian's Chromium, headless and over its DevTools protocol, so that tests can load pages and click.

What a page logs, raises or asks the network for is kept; the mouse moves and clicks as a person's does.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # of a container's root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--window-size=1400,1000",
)


class Page:
    """One page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []
        self.requests: list[str] = []

    async def send(self, method: str, **parameters: object) -> Any:
        """Return what a command of the protocol answers; events that come before it are kept."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._message()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    async def open(self, address: str) -> None:
        """Load a page, and wait until it has loaded."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")
        await self.send("Page.navigate", url=address)
        while (await self._message()).get("method") != "Page.loadEventFired":
            pass

    async def value(self, expression: str) -> Any:
        """Return what an expression is on the page."""
        answer = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def point_at(self, selector: str, *, is_clicked: bool = False) -> None:
        """Scroll to an element and move the mouse to its middle; click there if asked."""
        await self.value(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', inline: 'center'}})")
        box = await self.value(
            f"(() => {{ const b = document.querySelector({selector!r}).getBoundingClientRect();"
            " return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        place = {"x": box[0], "y": box[1]}
        await self.send("Input.dispatchMouseEvent", type="mouseMoved", **place)
        if is_clicked:
            for kind in ("mousePressed", "mouseReleased"):
                await self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    async def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._socket.receive_json(timeout=20)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"].get("exception", {}).get("description", "thrown"))
        elif method in {"Runtime.consoleAPICalled", "Log.entryAdded"}:
            self.complaints.append(json.dumps(parameters))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message


@asynccontextmanager
async def opened(address: str, profile: Path) -> AsyncIterator[Page]:
    """A browser that shows an address; `profile` is a folder of its own."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    try:
        port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                targets = await answer.json()
            socket_address = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
            async with http.ws_connect(socket_address, max_msg_size=0) as socket:
                page = Page(socket)
                await page.open(address)
                yield page
                await page.send("Browser.close")
        await asyncio.wait_for(process.wait(), 20)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _port(written: Path) -> int:
    """Return the port that the browser chose: it writes it when it listens."""
    for _ in range(200):
        lines = await asyncio.to_thread(lambda: written.read_text().splitlines() if written.exists() else [])
        if lines:
            return int(lines[0])
        await asyncio.sleep(0.1)
    raise AssertionError("the browser did not come up in 20 s")
