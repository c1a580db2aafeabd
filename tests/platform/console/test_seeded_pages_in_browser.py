"""The seeded server's pages in a real Chromium show what was seeded."""

import re
import time
from collections.abc import Iterator

import pytest
from alcove.platform.testing import Served

from benchmarks.console.seeding import Seeded, Sizes, seed
from tests.platform.console.test_browser import tab

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Seeded, Served]]:
    """A server with few of everything."""
    sizes = Sizes(features=2, versions=6, rollouts=40, experiments=40)
    made = seed(tmp_path_factory.mktemp("seeded") / "world", sizes, now_s=int(time.time()))
    served = made.world.start("--console", "true", "--console-port", "0")
    yield made, served
    served.stop()


async def test_a_running_experiment_of_the_seed_has_its_reports(seeded: tuple[Seeded, Served]) -> None:
    """What is measured and pictured is a page with numbers: the counts are of the task that its policy would name."""
    made, served = seeded
    async with tab(made.world, served, role="operator") as one:
        await one.open(f"/experiments/{made.experiment_id}")
        said = await one.page.text_content("main") or ""
        assert re.search(r"\b0 reports", said) is None
        assert "planned" in said
