"""A page that is open while things go wrong, in a real Chromium: servers, sessions, tabs, and texts that would run."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.markup import FIELDS, Field
from tests.platform.console.test_browser import Tab, tab
from tests.platform.console.test_process import children

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium"), pytest.mark.timeout(900)]

NOTE = "#connection:not([hidden])"
NO_NOTE = "#connection[hidden]"
TOUCH_EVERYTHING = """
for (const one of document.querySelectorAll("details")) one.open = true;
for (const one of document.querySelectorAll("*")) {
  for (const name of ["mouseover", "focus", "click", "toggle"]) {
    if (name !== "click" || !["A", "BUTTON", "INPUT", "SUMMARY", "SELECT", "LABEL"].includes(one.tagName)) {
      one.dispatchEvent(new Event(name, {bubbles: false}));
    }
  }
}
"""


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def port() -> int:
    """Where the console of a test is, before and after its server starts again."""
    return free_port()


async def filter_features(one: Tab, text: str) -> None:
    """Type into the filter, which asks for rows by a script."""
    await one.page.fill("input[name=text]", text)


async def test_a_page_continues_at_its_address_after_its_server_was_away(world_of_one: ServerWorld, port: int) -> None:
    """The page says that the console is away; afterwards it works again, at its address, without signing in."""
    options = ("--console", "true", "--console-port", str(port))
    served = world_of_one.start(*options)
    async with tab(world_of_one, served) as one:
        await one.open("/features")
        assert served.stop() == 0
        await filter_features(one, "zzz")
        await one.page.wait_for_selector(NOTE)
        again = world_of_one.start(*options)
        await filter_features(one, "zz")
        await one.page.wait_for_selector(NO_NOTE, state="attached")
        await one.page.wait_for_function("location.search.includes('text=zz')")
        await one.page.reload()
        assert one.page.url.startswith(f"{again.console_url}/features?text=zz")
        assert await one.page.locator("h1").text_content() == "Features"
    assert again.stop() == 0


@pytest.fixture
def world_of_one(tmp_path: Path) -> ServerWorld:
    """A world whose server a test may stop."""
    made = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    for role in ("team:text", "reader"):
        made.token(role)
    return made


async def test_a_console_that_is_killed_comes_back_under_an_open_page(world: ServerWorld, served: Served) -> None:
    """Who was signed in still is; the page needs no more than its next request."""
    async with tab(world, served) as one:
        await one.open("/features")
        (process,) = [pid for pid, command in children(served.pid).items() if "alcove.platform.console" in command]
        os.kill(process, signal.SIGKILL)
        for text in ("z", "zz", "zzz", "zzzz"):
            await filter_features(one, text)
            await one.page.wait_for_timeout(1500)
        await one.page.wait_for_selector("#features-rows .empty")
        await one.page.wait_for_selector(NO_NOTE, state="attached")


async def test_a_session_that_ends_under_an_open_page_leads_back_to_the_same_address(
    world: ServerWorld, served: Served
) -> None:
    """Two tabs: one signs out; the other's next link asks to sign in and then shows what was asked for."""
    with world.client(served, "team:text") as team:
        world.publish(team, "text_20")
    async with tab(world, served) as one:
        await one.open("/features/text_20/versions/1.0.0?done=release")
        other = await one.page.context.new_page()
        await other.goto(one.url + "/features")
        await other.click(".account > summary")
        await other.click("text=Sign out >> nth=-1")
        await other.wait_for_url(re.compile("/sign-in"))
        await one.page.click("main nav.trail a >> nth=-1")
        await one.page.wait_for_url(re.compile(r"/sign-in\?next="))
        await one.page.fill("input[name=token]", world.token("team:text"))
        await one.page.click("main button")
        await one.page.wait_for_url("**/features/text_20")
        await other.goto(one.url + "/features/text_20")
        assert await other.locator("h1").text_content() == "text_20"


async def test_a_form_of_a_session_that_ended_is_refused_with_a_remedy(world: ServerWorld, served: Served) -> None:
    """Nothing is done in the name of somebody else who signed in meanwhile in another tab."""
    with world.client(served, "team:text") as team:
        world.publish(team, "text_21")
    async with tab(world, served) as one:
        await one.open("/features/text_21/versions/1.0.0")
        other = await one.page.context.new_page()
        await other.goto(one.url + "/features")
        await other.click(".account > summary")
        await other.click("text=Sign out >> nth=-1")
        await other.wait_for_url(re.compile("/sign-in"))
        await other.fill("input[name=token]", world.token("operator"))
        await other.click("main button")
        await other.wait_for_url(f"{one.url}/")
        await one.page.click("#action-deprecate > summary")
        await one.page.fill("#action-deprecate input[name=reason]", "old")
        await one.page.click("#action-deprecate button")
        await one.page.wait_for_selector(".problem")
        assert "load the page again" in (await one.page.text_content(".problem") or "")
    with world.client(served, "reader") as reader:
        assert reader.version_details("text_21", version="1.0.0").version.state == "released"


@pytest.fixture(scope="module", params=FIELDS, ids=lambda field: field.name)
def written(request: pytest.FixtureRequest, world: ServerWorld, served: Served) -> Iterator[list[str]]:
    """The addresses that show what was written into a field."""
    field: Field = request.param
    with world.client(served, "team:text") as team, world.client(served, "operator") as operator:
        yield list(field.write(world, team, operator))


async def test_no_text_that_somebody_wrote_runs_in_the_browser(
    world: ServerWorld, served: Served, written: list[str]
) -> None:
    """No dialog, no line in the log (of a refusing policy, too), no request elsewhere, no page left by itself."""
    async with tab(world, served) as one:
        dialogs: list[Any] = []
        one.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        for address in written:
            await one.open(address)
            before = one.page.url
            await one.page.evaluate(TOUCH_EVERYTHING)
            await one.page.wait_for_timeout(30)
            assert one.page.url == before
            # Chromium itself notes answers that are no pages: of addresses that name nothing, or nothing acceptable.
            said = [text for text in one.complaints if not text.startswith("Failed to load resource")]
            assert said == [], address
            assert dialogs == [], address
            assert {url for url in one.elsewhere if not url.startswith(one.url)} == set(), address
            assert "49" not in await one.page.locator("h1").all_text_contents()
