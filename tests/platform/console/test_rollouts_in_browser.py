"""A rollout's page in a real Chromium: nothing complains, axe-core finds no barrier, and it is halted by keyboard."""

import asyncio
from pathlib import Path

import pytest
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.rollouts import analyze, draft, prepare
from tests.platform.console.test_browser import AXE, RULES, tab

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium")]


@pytest.fixture(scope="module")
def path(world: ServerWorld, served: Served) -> str:
    """The address of a rollout that was paused by harm, with two analyses and an advance that nobody proposed."""
    with world.client(served, "team:text") as team, world.client(served, "operator") as operator:
        prepare(world, team, operator, "text_20", "mail")
        made = operator.advance_rollout(draft(operator, "text_20", "mail").rollout_id)
    asyncio.run(analyze(world, made.rollout_id, devices=(400, 400)))
    asyncio.run(analyze(world, made.rollout_id, devices=(5000, 5000), crashed=(0.001, 0.2), after_s=3600))
    return f"/rollouts/{made.rollout_id}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_rollout_page_complains_or_has_a_barrier(
    world: ServerWorld, served: Served, path: str, scheme: str, repository: Path
) -> None:
    """List and rollout, with every action unfolded and each chart's table, wide and narrow."""
    axe = repository / "build" / AXE
    for width in (1280, 320):
        async with tab(world, served, scheme=scheme, width=width, role="operator") as one:
            for address in ("/rollouts", path):
                await one.open(address)
                await one.page.evaluate(
                    "for (const each of document.querySelectorAll('main details')) each.open = true"
                )
                wide = await one.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                assert wide <= 0, (address, width)
                if axe.exists():  # test_browser.py fetches it
                    await one.page.evaluate(axe.read_text(encoding="utf-8"))
                    found = await one.page.evaluate("rules => axe.run(document, rules)", RULES)
                    faults = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]
                    assert faults == [], (address, scheme, width)
            assert one.complaints == []
            assert {url for url in one.elsewhere if not url.startswith(one.url)} == set()


async def test_a_rollout_is_halted_by_keyboard_once_its_id_is_typed(
    world: ServerWorld, served: Served, path: str
) -> None:
    """The button waits for the id; the page then says what happened, and why."""
    name = path.rpartition("/")[2]
    async with tab(world, served, role="operator") as one:
        await one.open(path)
        await one.page.focus("#action-halt > summary")
        await one.page.keyboard.press("Enter")
        button = one.page.locator("#action-halt button")
        assert await button.is_disabled()
        await one.page.fill("#action-halt input[name=reason]", "it crashes")
        await one.page.fill("#action-halt input[name=confirmation]", name)
        assert await button.is_enabled()
        await one.page.keyboard.press("Enter")
        await one.page.wait_for_selector(".done")
        shown = await one.page.text_content("main") or ""
        assert "halted it" in shown
        assert "it crashes" in shown
