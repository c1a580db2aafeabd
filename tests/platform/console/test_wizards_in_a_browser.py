"""The wizards and the planner in a real Chromium: words stay, sliders move by keyboard, forecasts come in place."""

import asyncio

import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.test_browser import RULES, Tab, axe, tab

__all__ = ["axe"]  # a fixture

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium")]

NEW_ROLLOUT = "/rollouts/new?feature=text_32&app=messenger"
WRITTEN = {
    "textarea[name=audience]": "os in (ios)\nand app_version >= 2.1",
    "input[name='stage.1.share']": "3",
    "input[name=auto_advance_reason]": "<img src=x onerror=console.log('ran')>",
}


@pytest.fixture(scope="module")
def released(world: ServerWorld, served: Served) -> Served:
    """The module's server with a released version."""
    with world.client(served, "team:text") as team:
        world.publish(team, "text_32")
    return served


async def end_session(one: Tab, served: Served) -> None:
    """Revoke the session of a tab, as the server's operator would."""
    cookies = await one.page.context.cookies()
    (token,) = [each["value"] for each in cookies if each["name"] == "alcove-session"]

    def revoke() -> None:
        with PlatformClient(served.grpc_address, token) as session:
            session.delete_session()

    await asyncio.to_thread(revoke)


async def test_a_session_that_ends_while_somebody_writes_costs_a_sign_in_and_no_word(
    world: ServerWorld, released: Served
) -> None:
    """Opened, written, revoked, sent: after signing in everything stands there, and can be sent."""
    async with tab(world, released) as one:
        await one.open(NEW_ROLLOUT)
        for field, text in WRITTEN.items():
            await one.page.fill(field, text)
        await end_session(one, released)
        await one.page.click("text=Check and forecast")
        await one.page.wait_for_selector("text=Your session has ended")
        await one.page.fill("input[name=token]", world.token("operator"))
        await one.page.click("form[action='/sign-in'] button")
        await one.page.click("text=Go on where you were")
        for field, text in WRITTEN.items():
            assert await one.page.input_value(field) == text
        await one.page.click("text=Check and forecast")
        await one.page.wait_for_selector("#forecast-stages")
        await one.page.click("text=Create the draft")
        await one.page.wait_for_url("**/rollouts/ro-*")
        assert [text for text in one.complaints if "401" not in text] == []


async def test_an_audience_is_explained_while_it_is_typed(world: ServerWorld, released: Served) -> None:
    """In place; a session that ends meanwhile takes nothing from the page."""
    async with tab(world, released) as one:
        await one.open(NEW_ROLLOUT)
        await one.page.fill("textarea[name=audience]", "os in (ios")
        await one.page.wait_for_selector("#field-audience-said .fault")
        await one.page.fill("textarea[name=audience]", "os in (ios)")
        await one.page.wait_for_selector("text=System is ios.")
        await end_session(one, released)
        async with one.page.expect_response("**/audience"):
            await one.page.fill("textarea[name=audience]", "os in (android)")
        assert await one.page.input_value("textarea[name=audience]") == "os in (android)"
        assert await one.page.is_visible("text=System is ios.")


async def test_the_planner_follows_its_sliders_by_keyboard(world: ServerWorld, released: Served) -> None:
    """The number, the forecast and the address change, and the page is the same one."""
    async with tab(world, released) as one:
        await one.open("/planner")
        await one.page.evaluate("window.isSamePage = true")
        slider = one.page.locator("input[name='mde.slider']")
        await slider.focus()
        for _ in range(12):
            await one.page.keyboard.press("ArrowRight")
        number = await one.page.input_value("input[name=mde]")
        assert float(number) > 2
        assert await slider.get_attribute("aria-valuetext") == f"{number} percentage points"
        await one.page.wait_for_url(f"**/planner?mde={number}&*")
        await one.page.wait_for_selector(f"text=To find {number} percentage points")
        await one.page.fill("input[name=expected_devices]", "5000000")
        await one.page.wait_for_selector("text=By 5 000 000 devices")
        assert await one.page.evaluate("window.isSamePage")
        await one.page.click("text=Use this in a new experiment")
        await one.page.fill("input[name=app]", "messenger")
        await one.page.click("text=Go on")
        assert await one.page.input_value("input[name=expected_devices]") == "5000000"
        assert one.complaints == []


async def test_axe_finds_no_barrier_where_a_form_was_checked_or_refused(
    world: ServerWorld, released: Served, axe: str
) -> None:
    """Forecast, charts, problems at their fields, and the page that keeps what was written; wide and narrow."""
    for width in (1280, 320):
        async with tab(world, released, width=width) as one:
            await one.open(NEW_ROLLOUT)
            await one.page.click("text=Check and forecast")
            await one.page.wait_for_selector("#forecast-stages")
            await expect_no_barrier(one, axe)
            await one.page.fill("input[name='stage.1.share']", "much")
            await one.page.fill("textarea[name=audience]", "os = ios")
            await one.page.click("text=Check again")
            await one.page.wait_for_selector("[aria-invalid=true]")
            await expect_no_barrier(one, axe)
            await end_session(one, released)
            await one.page.click("text=Check and forecast")
            await one.page.wait_for_selector("text=Your session has ended")
            await expect_no_barrier(one, axe)


async def expect_no_barrier(one: Tab, axe: str) -> None:
    """Nothing that axe-core knows, and nothing wider than the screen."""
    assert await one.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    await one.page.evaluate(axe)
    found = await one.page.evaluate("rules => axe.run(document, rules)", RULES)
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
