"""An experiment's page and report in a real Chromium: no barrier at any width, and a report that prints."""

import re
from pathlib import Path

import pytest
from alcove.platform.client import Experiment
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.test_browser import RULES, axe, tab
from tests.platform.console.test_experiments import counted, operator, team

pytestmark = [pytest.mark.thorough, pytest.mark.needs("chromium")]
__all__ = ["axe", "counted", "operator", "team"]  # fixtures


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_neither_page_complains_or_has_a_barrier(
    world: ServerWorld,
    served: Served,
    counted: Experiment,
    axe: str,
    scheme: str,
) -> None:
    """Wide and narrow, by the rules of WCAG 2.2 AA and axe's own."""
    path = f"/experiments/{counted.experiment_id}"
    for width in (1280, 320):
        async with tab(world, served, scheme=scheme, width=width) as one:
            for address in (path, f"{path}/report"):
                await one.open(address)
                wide = await one.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                assert wide <= 0, (address, width)
                await one.page.evaluate(axe)
                found = await one.page.evaluate("rules => axe.run(document, rules)", RULES)
                assert [each["id"] for each in found["violations"]] == [], (address, scheme, width)
            assert one.complaints == []


async def test_the_report_is_printed_without_navigation_and_with_its_decision(
    world: ServerWorld, served: Served, counted: Experiment, tmp_path: Path
) -> None:
    """Chromium makes a PDF of A4 pages; what is seen in print has the decision and no menu."""
    async with tab(world, served) as one:
        await one.open(f"/experiments/{counted.experiment_id}/report")
        await one.page.pdf(path=str(tmp_path / "report.pdf"), prefer_css_page_size=True)
        data = (tmp_path / "report.pdf").read_bytes()
        assert data.startswith(b"%PDF")
        assert len(re.findall(rb"/Type\s*/Page\b", data)) >= 1
        await one.page.emulate_media(media="print")
        assert await one.page.is_visible(".decision .lead")
        assert "ndecided" in (await one.page.text_content(".decision .lead") or "")
        for hidden in ("header.top", "footer", ".downloads", ".trail"):
            assert not await one.page.is_visible(hidden), hidden
