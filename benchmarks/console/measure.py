"""Measures pages of a seeded server: their time, their bytes, and how they load."""

import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

import aiohttp
from alcove.platform.testing import Served

from benchmarks.console.browsing import Loading, browser, load, sign_in
from benchmarks.console.load import ViewerFigures, cookie_of, percentile
from benchmarks.console.pages import PAGES, ShownPage
from benchmarks.console.seeding import Seeded

__all__ = ["Measured", "PageFigures", "measure_pages"]

NOT_FOUND: Final = 404


@dataclass(frozen=True)
class PageFigures:
    """A page; times in milliseconds.

    Attributes:
        name: of `pages.py`.
        p50_ms, p99_ms: from the request to the last byte of the answer, on one connection.
        answer_bytes: of the page itself, compressed.
        loading: in Chromium with an empty cache; None: not measured.
    """

    name: str
    p50_ms: float
    p99_ms: float
    answer_bytes: int
    loading: Loading | None


@dataclass(frozen=True)
class Measured:
    """Everything; `absent` are pages that the server does not have."""

    pages: tuple[PageFigures, ...]
    absent: tuple[str, ...]
    viewers: ViewerFigures | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


async def measure_pages(
    seeded: Seeded, served: Served, requests: int, *, has_browser: bool
) -> tuple[list[PageFigures], list[str]]:
    """Return the figures of each page, and the names of those that are not there."""
    url = served.console_url or ""
    token = seeded.world.token("operator")
    cookie = await cookie_of(url, token)
    found: list[tuple[ShownPage, list[float], int]] = []
    absent: list[str] = []
    headers = {"Cookie": cookie, "Accept-Encoding": "gzip", "Accept": "text/html"}
    async with aiohttp.ClientSession(headers=headers, auto_decompress=False) as http:
        for page in PAGES:
            times: list[float] = []
            size = 0
            for _ in range(requests + 2):  # two to warm up
                began_s = time.perf_counter()
                async with http.get(url + page.at(seeded.things)) as answer:
                    size = len(await answer.read())
                times.append(1000 * (time.perf_counter() - began_s))
                if answer.status == NOT_FOUND:
                    break
            if answer.status == NOT_FOUND:
                absent.append(page.name)
            else:
                found.append((page, times[2:], size))
    loadings: dict[str, Loading | None] = {}
    if has_browser:
        async with browser() as chromium:
            for page, _, _ in found:
                context = await chromium.new_context(viewport={"width": 1280, "height": 900})
                await sign_in(context, url, token)
                loadings[page.name] = await load(context, url + page.at(seeded.things))
                await context.close()
    return [
        PageFigures(page.name, statistics.median(times), percentile(times, 0.99), size, loadings.get(page.name))
        for page, times, size in found
    ], absent
