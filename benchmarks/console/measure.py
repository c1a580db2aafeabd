"""Measures pages of a seeded server: their time, their bytes, how they load, and what viewers cost other callers."""

import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from alcove.platform.services.auth.local import create_local_token
from alcove.platform.testing import Served

from benchmarks.console.browsing import Loading, browser, load, sign_in
from benchmarks.console.pages import PAGES, ShownPage
from benchmarks.console.seeding import Seeded

__all__ = ["Measured", "PageFigures", "ViewerFigures", "measure_pages", "measure_viewers"]

VIEWERS: Final = 100
VIEWERS_OF_TOKEN: Final = 25  # a token has at most 32 sessions and 32 streams
PATH: Final = "/rollouts/{rollout}"
ARRIVED_S: Final = 10.0  # after which all viewers have their pages, and until which the last one has ended
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
    """What people with live pages cost who calls.

    Attributes:
        viewers: how many, each with a session of its own.
        p99_without_ms, p99_with_ms: of calls, in each round, in its order.
        live: streams that stayed open to the end, of all rounds.
        events: changes that they told.
        failed: streams that did not stay, and pages that viewers did not get.
    """

    viewers: int
    p99_without_ms: tuple[float, ...]
    p99_with_ms: tuple[float, ...]
    live: int
    events: int
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


async def cookie_of(url: str, token: str, address: str = "127.0.0.1") -> str:
    """Sign in from an address, as a proxy of the server tells it; return "name=value" of the session's cookie."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        sent = {"Origin": url, "Sec-Fetch-Site": "same-origin", "X-Forwarded-For": address}
        async with http.post(f"{url}/sign-in", data={"token": token}, headers=sent, allow_redirects=False) as answer:
            (cookie,) = answer.cookies.values()
            return f"{cookie.key}={cookie.value}"


async def cookies_of_viewers(url: str, tokens: Sequence[str]) -> list[str]:
    """Sign everybody in, each from an address of its own, in the order of their tokens."""
    return [await cookie_of(url, token, f"10.0.{at // 250}.{1 + at % 250}") for at, token in enumerate(tokens)]


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
    url, data_dir = served.console_url or "", seeded.world.data_dir
    people = range(VIEWERS // VIEWERS_OF_TOKEN)
    tokens = [create_local_token(data_dir, "reader", name=f"viewers-{each}")[0] for each in people]
    cookies = asyncio.run(cookies_of_viewers(url, [token for token in tokens for _ in range(VIEWERS_OF_TOKEN)]))
    others = os.sched_getaffinity(0) - {core} or {core}
    os.sched_setaffinity(0, others)
    module = [sys.executable, "-m", "benchmarks.console.viewers"]
    calling = [*module, "call", served.grpc_address, seeded.world.token("reader"), seeded.rollout_id, str(seconds)]
    watching = [*module, "watch", url, PATH.format_map(seeded.things), str(seconds + 2 * ARRIVED_S)]
    without: list[float] = []
    with_viewers: list[float] = []
    seen: Counter[str] = Counter()
    for _ in range(rounds):
        without.append(_p99_ms(calling))
        watcher = subprocess.Popen(watching, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if watcher.stdin is not None:
            watcher.stdin.write("\n".join(cookies))
            watcher.stdin.close()
        time.sleep(ARRIVED_S)
        _change(data_dir / "alcove.db", seeded.rollout_id)  # all viewers load the page anew, while calls are made
        with_viewers.append(_p99_ms(calling))
        said = "" if watcher.stdout is None else watcher.stdout.read()
        watcher.wait(600)
        seen.update(json.loads(said))
    return ViewerFigures(VIEWERS, tuple(without), tuple(with_viewers), seen["live"], seen["events"], seen["failed"])


def _change(database: Path, rollout_id: str) -> None:
    """Change the rollout as another server of the same database does: to its viewers it has another etag."""
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        connection.execute("UPDATE rollouts SET revision = revision + 1 WHERE rollout_id = ?", (rollout_id,))


def _p99_ms(command: Sequence[str]) -> float:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return 1000 * _percentile(json.loads(done.stdout), 0.99)


def _percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
