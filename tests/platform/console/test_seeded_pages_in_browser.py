"""The seeded server's pages in a real Chromium show what was seeded, and axe-core finds no barrier on any of them."""

import re
import time
from collections.abc import Iterator

import pytest
from alcove.platform.testing import Served
from playwright.async_api import Frame, Page

from benchmarks.console.pages import PAGES
from benchmarks.console.publishing import publish_policy
from benchmarks.console.seeding import Seeded, Sizes, seed
from tests.platform.console.test_browser import RULES, Tab, axe, tab

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium"), pytest.mark.timeout(900)]
__all__ = ["axe"]  # fixture

UNFOLD = "for (const each of document.querySelectorAll('main details:not(.program)')) each.open = true"


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Seeded, Served]]:
    """A server with few of everything, and a policy that it has signed."""
    sizes = Sizes(features=2, versions=6, rollouts=40, experiments=40)
    made = seed(tmp_path_factory.mktemp("seeded") / "world", sizes, now_s=int(time.time()))
    served = made.world.start("--console", "true", "--console-port", "0")
    publish_policy(made, served)
    yield made, served
    served.stop()


async def barriers(shown: Page | Frame, axe: str) -> list[tuple[str, list[str]]]:
    """The rules of axe-core that a page breaks, with where; not those of its frames, which are asked themselves."""
    await shown.evaluate(axe)
    found = await shown.evaluate("rules => axe.run(document, rules)", RULES | {"iframes": False})
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]


async def test_a_running_experiment_of_the_seed_has_its_reports(seeded: tuple[Seeded, Served]) -> None:
    """What is measured and pictured is a page with numbers: the counts are of the task that its policy would name."""
    made, served = seeded
    async with tab(made.world, served, role="operator") as one:
        await one.open(f"/experiments/{made.experiment_id}")
        said = await one.page.text_content("main") or ""
        assert re.search(r"\b0 reports", said) is None
        assert "planned" in said


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_barrier_on_any_page_with_its_data(
    seeded: tuple[Seeded, Served], scheme: str, axe: str
) -> None:
    """Every page of the list, by which a new one is measured too: unfolded, wide and as narrow as a small phone."""
    made, served = seeded
    for width in (1280, 320):
        async with tab(made.world, served, scheme=scheme, width=width, role="operator") as one:
            for page in (each for each in PAGES if each.title):  # the others are parts of pages
                answer = await one.page.goto(one.url + page.at(made.things), wait_until="load")
                assert answer is not None
                assert answer.ok, page.name
                await one.page.evaluate(UNFOLD)
                assert await barriers(one.page, axe) == [], (page.name, scheme, width)
                wide = await one.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                assert wide <= 0, (page.name, width)
            assert one.complaints == []


async def frame_of(one: Tab) -> Frame:
    """The frame with the program of the version's page that is open, once it has drawn its graph.

    The frame is in what is folded, and loads when it is seen: waiting for it before that never ends. Its page comes
    when a process has opened the program, a minute on a busy machine, so only the picture says that it is there.
    """
    await one.page.click("details.program > summary")
    place = one.page.locator("details.program iframe")
    await place.scroll_into_view_if_needed()
    await one.page.frame_locator("details.program iframe").locator("#graph-picture .node").first.wait_for()
    found = await (await place.element_handle()).content_frame()
    assert found is not None
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_framed_graph_of_a_version_is_drawn_and_has_no_barrier(
    seeded: tuple[Seeded, Served], scheme: str, axe: str
) -> None:
    """Its own script runs under its own policy, with no origin; the page round it stays as wide as the screen."""
    made, served = seeded
    path = "/features/{feature}/versions/{version}".format_map(made.things)
    for width in (1280, 320):
        async with tab(made.world, served, scheme=scheme, width=width) as one:
            await one.open(path)
            frame = await frame_of(one)
            assert frame.url == f"{one.url}{path}/programs/f32"
            assert await frame.evaluate("origin") == "null"
            assert await frame.locator("#operator-table tr").count() > 1
            assert await barriers(frame, axe) == [], (scheme, width)
            assert await barriers(one.page, axe) == [], (scheme, width)
            assert await one.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
            assert one.complaints == []
