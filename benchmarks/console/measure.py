"""Measures pages of a seeded server: their time, their bytes, how they load, and what viewers cost other callers."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import aiohttp
from alcove.platform.testing import Served

from benchmarks.console.browsing import Loading, browser, load, sign_in
from benchmarks.console.pages import PAGES, ShownPage
from benchmarks.console.seeding import Seeded

__all__ = ["Measured", "PageFigures", "ViewerFigures", "measure_pages", "measure_viewers"]

VIEWERS: Final = 100
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
class ViewerFigures:
    """What viewers cost who calls.

    Attributes:
        viewers: how many.
        kind: "live" where pages have streams of events, else "reloading".
        p99_without_ms, p99_with_ms: of calls, in each round, in its order.
        failed: answers that viewers did not get.
    """

    viewers: int
    kind: str
    p99_without_ms: tuple[float, ...]
    p99_with_ms: tuple[float, ...]
    failed: int

    @property
    def ratios(self) -> list[float]:
        """With viewers, relative to without, round by round."""
        return [a / b for a, b in zip(self.p99_with_ms, self.p99_without_ms, strict=True)]


@dataclass(frozen=True)
class Measured:
    """Everything; `absent` are pages that the server does not have."""

    pages: tuple[PageFigures, ...]
    absent: tuple[str, ...]
    viewers: ViewerFigures | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


async def cookie_of(url: str, token: str) -> str:
    """Sign in; return "name=value" of the session's cookie."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        sent = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
        async with http.post(f"{url}/sign-in", data={"token": token}, headers=sent, allow_redirects=False) as answer:
            (cookie,) = answer.cookies.values()
            return f"{cookie.key}={cookie.value}"


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
        PageFigures(page.name, statistics.median(times), _percentile(times, 0.99), size, loadings.get(page.name))
        for page, times, size in found
    ], absent


def measure_viewers(seeded: Seeded, served: Served, *, rounds: int, seconds: float, core: int) -> ViewerFigures:
    """Return the 99th percentile of calls, without and with viewers in turn; who measures stays off `core`."""
    url = served.console_url or ""
    cookie = asyncio.run(cookie_of(url, seeded.world.token("operator")))
    others = os.sched_getaffinity(0) - {core} or {core}
    os.sched_setaffinity(0, others)
    path = f"/rollouts/{seeded.rollout_id}"
    if not _is_there(url + path, cookie):
        path = f"/features/{seeded.feature}/versions/{seeded.versions[-2]}"
    module = [sys.executable, "-m", "benchmarks.console.viewers"]
    calling = [*module, "call", served.grpc_address, seeded.world.token("reader"), seeded.rollout_id, str(seconds)]
    watching = [*module, "watch", url, cookie, path, str(VIEWERS), str(seconds + 6)]
    without: list[float] = []
    with_viewers: list[float] = []
    kind, failed = "", 0
    for _ in range(rounds):
        without.append(_p99_ms(calling))
        watcher = subprocess.Popen(watching, stdout=subprocess.PIPE, text=True)
        time.sleep(6)  # all of them have arrived
        with_viewers.append(_p99_ms(calling))
        said, _ = watcher.communicate(timeout=600)
        kind, _, lost = json.loads(said)
        failed += lost
    return ViewerFigures(VIEWERS, kind, tuple(without), tuple(with_viewers), failed)


def _is_there(address: str, cookie: str) -> bool:
    async def ask() -> bool:
        async with aiohttp.ClientSession() as http, http.get(address, headers={"Cookie": cookie}) as answer:
            return answer.status != NOT_FOUND

    return asyncio.run(ask())


def _p99_ms(command: Sequence[str]) -> float:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return 1000 * _percentile(json.loads(done.stdout), 0.99)


def _percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
