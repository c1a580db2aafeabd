"""Drives Debian's Chromium with Playwright, so that tests can load pages, point and click.

What a page logs, raises or asks the network for is kept.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Page as BrowserPage
from playwright.async_api import async_playwright

CHROMIUM = shutil.which("chromium")
PATIENCE_MS = 120_000


class Page:
    """One page of the browser."""

    def __init__(self, page: BrowserPage) -> None:
        self._page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    async def value(self, expression: str) -> Any:
        """Return what an expression is on the page."""
        return await self._page.evaluate(expression)

    async def point_at(self, selector: str, *, is_clicked: bool = False) -> None:
        """Scroll to an element and move the mouse to its middle; click there if asked."""
        act = self._page.click if is_clicked else self._page.hover
        await act(selector, force=True)  # of a group of SVG the middle may be another's


@asynccontextmanager
async def open_page(address: str) -> AsyncIterator[Page]:
    """A browser that shows an address."""
    async with async_playwright() as playwright:
        # A container's root has no sandbox.
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
        shown = await browser.new_page(viewport={"width": 1400, "height": 1000})
        shown.set_default_timeout(PATIENCE_MS)
        page = Page(shown)
        await shown.goto(address)
        yield page
        await browser.close()
