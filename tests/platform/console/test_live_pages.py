"""Charts and live regions in a real Chromium: drawn, changed in place, and honest about a connection that is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from alcove.platform.console.assets import Assets
from alcove.platform.console.charts import Axis, Chart, Line, Point, Series
from alcove.platform.console.rendering import Renderer
from alcove.platform.console.security import set_headers
from playwright.async_api import Page, async_playwright

from tests.platform.cli.browser import CHROMIUM, PATIENCE_MS

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium")]

T0 = 1_800_000_000
TEMPLATE = """{% extends "base.html" %}{% import "components/charts.html" as charts %}
{% import "components/live.html" as live %}
{% block content %}<h1>Rollout</h1>
{% call live.region("watched", "/watched") %}
<p data-announce>State <strong>{{ state }}</strong></p>
<p id="since">{{ 1800000000 | time }}</p>
<details id="more"><summary>More</summary><p><a id="link" href="/">a link</a></p></details>
{{ charts.show(chart) }}
{% endcall %}{% endblock %}"""
COLORED = """selector => {
  const canvas = document.querySelector(selector + " canvas");
  const mark = getComputedStyle(document.querySelector(selector + " .series-1 svg")).color.match(/[0-9]+/g).map(Number);
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    count += data[i] === mark[0] && data[i + 1] === mark[1] && data[i + 2] === mark[2];
  }
  return count;
}"""

SHOW = """isHidden => {
  Object.defineProperty(document, "hidden", {configurable: true, get: () => isHidden});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def until(tab: Page, expression: str) -> None:
    """Wait until an expression is true; the page's policy forbids Playwright's own way, which evaluates text in it."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while not await tab.evaluate(expression):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


@dataclass
class Site:
    """A site of one page that changes, with the parts of the console."""

    state: str = "running"
    value: float = 0.2
    streams: list[web.StreamResponse] = field(default_factory=list)
    is_away: bool = False
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def chart(self) -> Chart:
        """Three looks at one measure; one has no upper end; its name is markup."""
        points = [Point(T0, 0.1, -2.0, 2.2), Point(T0 + 86_400, 0.15, -1.0), Point(T0 + 172_800, self.value, -0.4, 0.9)]
        lines = [Line("margin", 0.5), Line("no difference", 0.0, is_bound=False)]
        series = [Series("<script>console.log('ran')</script>", points)]
        y = Axis("Difference", "percentage points")
        return Chart("guard", "Refused answers", Axis("Time", kind="time"), y, series, lines)

    async def tell(self) -> None:
        """Say to all who listen that something changed."""
        for stream in self.streams:
            await stream.write(b'event: changed\ndata: {"etag": "x"}\n\n')

    async def end(self, why: str) -> None:
        """End all streams."""
        for stream in self.streams:
            await stream.write(f'event: end\ndata: {{"why": "{why}"}}\n\n'.encode())
            await stream.write_eof()
        self.streams.clear()


@asynccontextmanager
async def open_tab(*, scheme: Any = "light", width: int = 1280) -> AsyncIterator[tuple[Page, Site]]:
    """A tab on the page."""
    site, assets = Site(), Assets()
    renderer = Renderer(assets)

    async def page(request: web.Request) -> web.Response:
        context = {"viewer": None, "theme": "auto", "path": "/", "address": "/", "json_address": ""}
        template = renderer.environment.from_string(TEMPLATE)
        text = template.render(context, chart=site.chart(), state=site.state)
        return web.Response(text=text, content_type="text/html")

    async def live(request: web.Request) -> web.StreamResponse:
        if site.is_away:
            raise web.HTTPServiceUnavailable
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        site.streams.append(stream)
        await stream.write(b'event: changed\ndata: {"etag": "x"}\n\n')
        try:
            while stream in site.streams and request.transport is not None:  # noqa: ASYNC110 - a test's own server
                await asyncio.sleep(0.02)
        finally:
            if stream in site.streams:  # the page went away
                site.streams.remove(stream)
        return stream

    async def protect(_request: web.Request, response: web.StreamResponse) -> None:
        set_headers(response, is_secure=False)

    app = web.Application()
    app.add_routes([web.get("/watched", page), web.get("/watched/live", live), *assets.routes()])
    app.on_response_prepare.append(protect)
    async with TestServer(app) as server, async_playwright() as playwright:
        site.url = str(server.make_url("/")).rstrip("/")
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
        tab = await browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            timezone_id="America/New_York",
            locale="en-US",
        )
        tab.set_default_timeout(PATIENCE_MS)
        tab.on("console", lambda message: site.complaints.append(message.text))
        tab.on("pageerror", lambda error: site.complaints.append(str(error)))
        tab.on("request", lambda request: site.requests.append(request.url))
        await tab.goto(f"{site.url}/watched")
        await tab.wait_for_selector("#chart-guard canvas")
        yield tab, site
        await site.end("ended")
        await browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_chart_is_drawn_in_the_colors_of_its_legend(scheme: str) -> None:
    """At each width, without a complaint (of the content policy, too), a request elsewhere, or a wider page."""
    for width in (320, 1280, 3840):
        async with open_tab(scheme=scheme, width=width) as (tab, site):
            await until(tab, f"({COLORED})('#chart-guard') > 50")
            assert await tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            legend = await tab.text_content("#chart-guard .chart-legend")
            assert legend is not None
            assert "<script>" in legend
            assert "margin: 0.5 percentage points" in " ".join(legend.split())
            await tab.hover("#chart-guard .u-over")
            tip = await tab.text_content(".chart-tip")
            assert tip is not None
            assert "0.15 percentage points [-1, +∞]" in tip
            assert site.complaints == []
            assert [url for url in site.requests if not url.startswith(site.url)] == []


async def test_a_chart_follows_the_theme_and_the_width_without_moving_what_is_below() -> None:
    """Its height is fixed before it is drawn."""
    async with open_tab() as (tab, _site):
        await until(tab, f"({COLORED})('#chart-guard') > 50")
        below = await tab.evaluate("document.querySelector('.chart-table').getBoundingClientRect().top")
        await tab.emulate_media(color_scheme="dark")
        await until(tab, f"({COLORED})('#chart-guard') > 50")
        assert await tab.evaluate("document.querySelector('.chart-table').getBoundingClientRect().top") == below
        shifts = await tab.evaluate(
            """new Promise(done => new PerformanceObserver(list => done(list.getEntries().map(each => each.value)))
               .observe({type: "layout-shift", buffered: true}) || setTimeout(() => done([]), 500))"""
        )
        assert sum(shifts) < 0.01
        await tab.set_viewport_size({"width": 500, "height": 900})
        await until(tab, "document.querySelector('.uplot').offsetWidth < 500")


async def test_a_change_is_taken_in_place_and_announced() -> None:
    """Focus, what is unfolded and scroll stay; where nothing differs nothing is touched."""
    async with open_tab(width=500) as (tab, site):
        await tab.set_viewport_size({"width": 500, "height": 400})
        await tab.wait_for_selector(".live-state.is-live")
        await tab.click("#more > summary")
        await tab.focus("#link")
        await tab.evaluate(
            """() => {
              window.changes = 0;
              new MutationObserver(list => { window.changes += list.length; })
                .observe(document.getElementById("watched"),
                  {subtree: true, childList: true, attributes: true, characterData: true});
              scrollTo(0, 150);
            }"""
        )
        scrolled = await tab.evaluate("scrollY")
        assert scrolled > 0
        async with tab.expect_response("**/watched"):  # the page
            await site.tell()
        await tab.wait_for_timeout(200)
        assert await tab.evaluate("window.changes") == 0
        site.state, site.value = "paused", 0.6
        await site.tell()
        await until(tab, "document.querySelector('#watched strong').textContent === 'paused'")
        assert await tab.evaluate("document.activeElement.id") == "link"
        assert await tab.evaluate("document.getElementById('more').open")
        assert await tab.evaluate("scrollY") == scrolled
        assert (
            await tab.evaluate("JSON.parse(document.querySelector('[data-chart]').dataset.chart).series[0].points[2].y")
            == 0.6
        )
        assert await tab.locator("#chart-guard canvas").count() == 1
        await until(tab, "document.querySelector('.spoken').textContent === 'State paused'")
        assert site.complaints == []


async def test_a_lost_connection_is_said_and_what_was_missed_is_loaded() -> None:
    """The page asks again, later each time, and says that it is live again."""
    async with open_tab() as (tab, site):
        await tab.wait_for_selector(".live-state.is-live")
        site.is_away = True
        await site.end("unavailable")
        await until(tab, "document.querySelector('.live-state').textContent.startsWith('Not live: the server')")
        site.state, site.is_away = "halted", False
        await until(tab, "document.querySelector('.live-state').textContent === 'Live again'")
        await until(tab, "document.querySelector('#watched strong').textContent === 'halted'")
        await site.end("signed_out")
        await until(tab, "document.querySelector('.live-state').textContent.includes('signed out')")


async def test_a_page_that_was_hidden_listens_no_more_and_catches_up_when_it_is_seen() -> None:
    """A minute later its stream ends, its place is free and it loads nothing; seen again it shows what it missed."""
    async with open_tab() as (tab, site):
        await tab.wait_for_selector(".live-state.is-live")
        await tab.clock.install()
        await tab.evaluate(SHOW, True)
        await tab.clock.fast_forward(59_000)
        assert len(site.streams) == 1
        await tab.clock.fast_forward(2_000)
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while site.streams:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.02)
        asked = len(site.requests)
        site.state = "halted"
        await site.tell()
        assert await tab.text_content("#watched strong") == "running"
        assert len(site.requests) == asked
        await tab.evaluate(SHOW, False)
        await until(tab, "document.querySelector('#watched strong').textContent === 'halted'")
        await until(tab, "document.querySelector('.live-state').classList.contains('is-live')")
        assert len(site.streams) == 1
        assert site.complaints == []
