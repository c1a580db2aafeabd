"""Reports on open pages in a real Chromium: a running experiment hears them; the privacy page of two aggregators."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.platform.aggregator.provisioning import create_pair
from alcove.platform.client import Arm, Experiment, ExperimentPlan
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.test_browser import RULES, axe, tab
from tests.platform.console.test_experiments import counted, operator, team
from tests.platform.console.test_live_pages import until
from tests.platform.services.test_experiments import send_reports, task_of

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium"), pytest.mark.timeout(600)]
__all__ = ["axe", "counted", "operator", "team"]  # fixtures

URLS = {"leader_url": "https://leader.example/dap", "helper_url": "https://helper.example"}


async def test_new_reports_change_an_open_page_though_the_etag_stays(
    world: ServerWorld, served: Served, counted: Experiment
) -> None:
    """Nobody changes the experiment, and nobody loads the page: its number of reports and its intervals do."""
    async with tab(world, served, role="reader") as one:
        await one.open(f"/experiments/{counted.experiment_id}")
        await one.page.wait_for_selector(".live-state.is-live")
        before = await one.page.text_content("main") or ""
        assert "600" in before
        await one.page.evaluate("window.isSamePage = true")
        task = task_of(world, "counted", "text_20")
        send_reports(served, task, accepted=(0.3, 0.9), per_arm=200, seed=2)
        await until(one.page, "document.querySelector('main').textContent.includes('1 000')")
        assert await one.page.evaluate("window.isSamePage")
        assert [text for text in one.complaints if not text.startswith("Failed to load resource")] == []


@pytest.fixture
def prio3(tmp_path: Path) -> Iterator[tuple[ServerWorld, Served]]:
    """A server with two aggregators, which are away, and a running experiment that asks for reports to them."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    for role in ("team:text", "operator"):
        world.token(role)
    file = create_pair(tmp_path / "pair", *URLS.values())["collector"]
    file.write_text(json.dumps(json.loads(file.read_text()) | URLS | {"min_batch_size": 100}))
    served = world.start("--console", "true", "--console-port", "0", "--aggregators", str(file))
    with world.client(served, "team:text") as team, world.client(served, "operator") as operator:
        for version in ("1.0.0", "2.0.0"):
            world.publish(team, "text_00", version)
        arms = [Arm(name=name, version=f"{name}.0.0", share_basis_points=5000) for name in "12"]
        made = operator.create_experiment("mail", "text_00", arms, plan=ExperimentPlan(mde=0.05))
        assert made.mechanism == "prio3"
        operator.start_experiment(made.experiment_id)
    yield world, served
    served.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_privacy_page_says_what_two_aggregators_see(
    prio3: tuple[ServerWorld, Served], scheme: str, axe: str
) -> None:
    """ε for a window's sums, two shares, the smallest batch, the addresses of both; no barrier, wide and narrow."""
    for width in (1280, 320):
        async with tab(*prio3, scheme=scheme, width=width, role="operator") as one:
            await one.open("/privacy/mail")
            said = " ".join((await one.page.text_content("main") or "").split())
            for words in (
                "ε = 1 for each window’s sums",
                "split into two shares, of which each alone is noise",
                "100 reports of a window; below it neither aggregator releases anything",
                "leader.example",
                "helper.example",
            ):
                assert words in said, words
            assert "randomized before it leaves" not in said
            assert await one.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            await one.page.evaluate(axe)
            found = await one.page.evaluate("rules => axe.run(document, rules)", RULES)
            assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
            assert one.complaints == []
