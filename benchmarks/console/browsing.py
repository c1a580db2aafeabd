"""Opens pages in Chromium and reads what it says of their loading."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Browser, BrowserContext, async_playwright

__all__ = ["Loading", "browser", "load", "sign_in"]

PATIENCE_MS = 120_000
SETTLING_MS = 500
"""After the first large paint: a chart that is drawn later is a larger one, and may move what is there."""
OBSERVE = """
window.seen = {lcp: 0, shift: 0};
new PerformanceObserver(list => list.getEntries().forEach(each => { window.seen.lcp = each.startTime; }))
  .observe({type: "largest-contentful-paint", buffered: true});
new PerformanceObserver(list => list.getEntries().filter(each => !each.hadRecentInput)
    .forEach(each => { window.seen.shift += each.value; }))
  .observe({type: "layout-shift", buffered: true});
"""


@dataclass(frozen=True)
class Loading:
    """How a page came, with an empty cache.

    Attributes:
        paint_ms: until the largest thing was painted (Largest Contentful Paint), from the start of the navigation.
        shift: Cumulative Layout Shift, a part of the screen; 0: nothing moved.
        transferred_bytes: over the network, headers included, of the page and all that it loads.
    """

    paint_ms: float
    shift: float
    transferred_bytes: int


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Chromium; a container's root has no sandbox."""
    async with async_playwright() as playwright:
        path = shutil.which("chromium")
        made = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield made
        await made.close()


async def sign_in(context: BrowserContext, url: str, token: str) -> None:
    """Sign in by the form."""
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    await page.goto(f"{url}/sign-in")
    await page.fill("input[name=token]", token)
    await page.click("main button")
    await page.wait_for_url(f"{url}/")
    await page.close()


async def load(context: BrowserContext, url: str) -> Loading | None:
    """Load a page as somebody does who was never there; None: there is none."""
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    await page.add_init_script(OBSERVE)
    session = await context.new_cdp_session(page)
    transferred: list[float] = []
    session.on("Network.loadingFinished", lambda event: transferred.append(event["encodedDataLength"]))
    await session.send("Network.enable")
    await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    answer = await page.goto(url, wait_until="load")  # not "networkidle": a live page's stream never ends
    if answer is not None and answer.ok:
        await page.wait_for_function("window.seen.lcp > 0")
        await page.wait_for_timeout(SETTLING_MS)
    seen: dict[str, Any] = await page.evaluate("window.seen")
    await page.close()
    if answer is None or answer.status == 404:
        return None
    return Loading(seen["lcp"], seen["shift"], int(sum(transferred)))
