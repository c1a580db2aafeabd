"""The console in a real Chromium: nothing is logged, no policy is violated, and axe-core finds no barrier.

axe-core comes by `python tools/console_assets.py --axe` from npm into build/, once.
"""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.client import Arm
from alcove.platform.testing import Served, ServerWorld
from playwright.async_api import Page, async_playwright

from tests.platform.cli.browser import CHROMIUM, PATIENCE_MS

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium")]

PATHS = (
    "/",
    "/experiments",
    "/features",
    "/features?text=zzz",
    "/features/text_00",
    "/features/text_00/versions/1.0.0",
    "/features/text_00/versions/1.0.0/compare?with=1.1.0",
    "/devices",
    "/devices?app=messenger&device=3&os=ios&held=text_00%3D1.0.0",
    "/devices?app=messenger&os=a%20b",
    "/policies",
    "/policies/messenger?with=1",
    "/privacy",
    "/privacy/messenger",
    "/sessions",
    "/nothing",
    "/rollouts",
    "/rollouts/new",
    "/rollouts/new?feature=text_00&app=messenger",
    "/experiments/new?feature=text_00&app=messenger",
    "/planner",
    "/trust",
    "/audit",
    "/audit?text=zzz",
    "/health",
    "/nothing",
)
AXE = "axe.min.js"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


class Tab:
    """A tab, with what it complained of."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.elsewhere.append(request.url))

    async def open(self, path: str) -> None:
        """Load a page."""
        await self.page.goto(self.url + path, wait_until="load")


@asynccontextmanager
async def tab(
    world: ServerWorld, served: Served, *, scheme: Any = "light", width: int = 1280, role: str = "team:text"
) -> AsyncIterator[Tab]:
    """A tab of a browser in which somebody has signed in by the form."""
    assert served.console_url is not None
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
        context = await browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            timezone_id="America/New_York",
            locale="en-US",
        )
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        one = Tab(page, served.console_url)
        await one.open("/features")
        await page.fill("input[name=token]", world.token(role))
        await page.click("text=Sign in >> nth=-1")
        await page.wait_for_url("**/features")
        yield one
        await browser.close()


@pytest.fixture(scope="module")
def seeded(world: ServerWorld, served: Served) -> Served:
    """The module's server with a feature of two versions, an alias, a reason with markup, and an app that compares."""
    with world.client(served, "team:text") as team:
        world.publish(team, "text_00")
        world.publish(team, "text_00", "1.1.0", is_released=False)
        team.set_alias("text_00", "stable", "1.0.0", reason="<img src=x onerror=console.log('ran')>")
        team.set_tag("text_00", "1.0.0", "note", "<script>console.log('ran')</script>")
        for version in ("1.0.0", "1.1.0"):
            world.publish(team, "text_01", version)
    with world.client(served, "operator") as operator:
        first = operator.create_rollout("messenger", "text_01", "1.0.0")
        operator.advance_rollout(first.rollout_id, share_basis_points=10_000, override_reason="the first version")
        operator.set_holdout("messenger", 500)
        arms = [Arm(name=name, version=f"1.{name}.0", share_basis_points=5000) for name in "01"]
        operator.start_experiment(operator.create_experiment("messenger", "text_01", arms).experiment_id)
    return served


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_page_complains_asks_elsewhere_or_is_wider_than_the_screen(
    world: ServerWorld, seeded: Served, scheme: str
) -> None:
    """Each page in light and dark; also at the width of a small phone."""
    for width in (1280, 320):
        async with tab(world, seeded, scheme=scheme, width=width) as one:
            for path in PATHS:
                await one.open(path)
                wide = await one.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                assert wide <= 0, (path, width)
            # Chromium itself notes an answer that is no page, or one of what cannot be read: two of the paths.
            assert [text for text in one.complaints if "404" not in text and "400" not in text] == []
            assert {url for url in one.elsewhere if not url.startswith(one.url)} == set()


@pytest.fixture(scope="module")
def axe(repository: Path) -> str:
    """The script of axe-core; fetched where it is not there yet."""
    path = repository / "build" / AXE
    if not path.exists():
        command = [sys.executable, "-m", "tools.console_assets", "--axe"]
        done = subprocess.run(command, cwd=repository, check=False, capture_output=True, text=True, timeout=200)
        if done.returncode != 0:
            pytest.skip("axe-core did not come from npm: python -m tools.console_assets --axe")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_barrier_on_any_page(world: ServerWorld, seeded: Served, scheme: str, axe: str) -> None:
    """By the rules of WCAG 2.2 AA and axe's own, wide and narrow."""
    for width in (1280, 320):
        async with tab(world, seeded, scheme=scheme, width=width) as one:
            for path in PATHS:
                await one.open(path)
                await one.page.evaluate(axe)
                found = await one.page.evaluate("rules => axe.run(document, rules)", RULES)
                faults = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]
                assert faults == [], (path, scheme, width)


async def test_times_are_in_the_viewers_zone_and_in_utc_on_hover(world: ServerWorld, seeded: Served) -> None:
    """The server says UTC; the script says what the viewer's clock shows."""
    async with tab(world, seeded) as one:
        await one.open("/features/text_00/versions/1.0.0")
        shown = await one.page.text_content("main time >> nth=0")
        title = await one.page.get_attribute("main time >> nth=0", "title")
        assert title is not None
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", title)
        assert shown is not None
        assert re.search(r"[AP]M$", shown)


async def test_a_version_is_revoked_by_keyboard_once_its_words_are_typed(world: ServerWorld, seeded: Served) -> None:
    """The button waits for the words; the page then says what happened."""
    async with tab(world, seeded) as one:
        await one.open("/features/text_00/versions/1.1.0")
        await one.page.focus("#action-revoke > summary")
        await one.page.keyboard.press("Enter")
        button = one.page.locator("#action-revoke button")
        assert await button.is_disabled()
        await one.page.fill("#action-revoke input[name=reason]", "leaks")
        await one.page.fill("#action-revoke input[name=confirmation]", "text_00 1.1.0")
        assert await button.is_enabled()
        await one.page.keyboard.press("Enter")
        await one.page.wait_for_selector(".done")
        assert "revoked" in (await one.page.text_content("h1") or "")


async def test_a_filter_changes_the_rows_and_the_address_without_a_new_page(world: ServerWorld, seeded: Served) -> None:
    """What one sees can be shared; with no script the form does the same."""
    async with tab(world, seeded) as one:
        await one.open("/features")
        await one.page.evaluate("window.isSamePage = true")
        await one.page.fill("input[name=text]", "zzz")
        await one.page.wait_for_selector("#features-rows .empty")
        assert "text=zzz" in one.page.url
        assert await one.page.evaluate("window.isSamePage")
        assert one.complaints == []
