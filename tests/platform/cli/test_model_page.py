"""`alcove model inspect --html`: a page, looked at in a real browser, that says what a program is and sends nothing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.cli.program_summary import summarize_file
from alcove.platform.inspection.page import page_of
from alcove.platform.inspection.page.layout import layout_of
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly, samples
from alcove.runtime.testing_ops import op_samples

from tests.platform.cli.browser import open_page
from tests.platform.cli.terminal import alcove

needs_browser = pytest.mark.needs("chromium")


@pytest.fixture
def page(classifier: Path, tmp_path: Path) -> Path:
    """Its page, with times."""
    path = tmp_path / "page.html"
    said = alcove("model", "inspect", classifier, "--html", path, "--profile")
    assert (said.code, said.err) == (0, "")
    assert "it needs no network" in said.out
    return path


def facts_in(page: str) -> Any:
    """What a page has in its JSON block."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.fixture
def facts(page: Path) -> Any:
    """What that page was made of."""
    return facts_in(page.read_text(encoding="utf-8"))


@needs_browser
async def test_a_page_loads_without_a_complaint_and_asks_for_nothing(page: Path, facts: Any) -> None:
    """No error, no warning, no request but for the file itself; all operators, weights and lives are drawn."""
    async with open_page(page.as_uri()) as shown:
        assert await shown.value("document.body.dataset.isDrawn") == "yes"
        for selector, count in (
            ("#graph-picture .node", len(facts["ops"])),
            ("#operator-table tbody tr", len(facts["ops"])),
            ("#weight-table tbody tr", len(facts["weights"])),
            ("#memory-picture .life", len(facts["plan"])),
            ("#graph-picture .edge", len(facts["graph"]["edges"])),
        ):
            assert await shown.value(f"document.querySelectorAll({selector!r}).length") == count > 0
        assert facts["digest"] in await shown.value("document.querySelector('#promises').textContent")
        assert shown.complaints == []
        assert shown.requests == [page.as_uri()]


@pytest.mark.thorough
@needs_browser
async def test_pointing_at_an_operator_shows_its_line_size_and_time(page: Path, facts: Any) -> None:
    """The same in the graph, in the table and in the memory plan; nothing is shown when the mouse has left."""
    async with open_page(page.as_uri()) as shown:
        assert await shown.value("document.querySelector('#tip').hidden")
        for selector in ('.node[data-op="1"]', '#operator-table tr[data-op="1"]'):
            await shown.point_at(selector)
            tooltip = await shown.value("document.querySelector('#tip').textContent")
            assert f"line {facts['ops'][1]['source']}" in tooltip
            assert facts["ops"][1]["gives"] in tooltip
            assert re.search(r"[\d.]+ µs, [\d.]+ % of the run", tooltip)
            assert not await shown.value("document.querySelector('#tip').hidden")
            assert await shown.value("document.querySelector('.node[data-op=\"1\"]').classList.contains('marked')")
        await shown.point_at("#memory-picture .life:last-of-type")
        assert re.search(r"bytes? at|B at|KiB.* at", await shown.value("document.querySelector('#tip').textContent"))
        await shown.point_at("h1")
        assert await shown.value("document.querySelector('#tip').hidden")
        assert not await shown.value("document.querySelector('.node.marked') !== null")
        assert shown.complaints == []


@pytest.mark.thorough
@needs_browser
async def test_clicking_a_column_sorts_the_operators_and_again_the_other_way(page: Path, facts: Any) -> None:
    """Numbers from the greatest, then from the least; the header says which."""
    order = "[...document.querySelectorAll('#operator-table tbody tr')].map((line) => Number(line.dataset.op))"
    column = "#operator-table th:nth-child(9) button"  # time
    async with open_page(page.as_uri()) as shown:
        times = [op["time_us"] for op in facts["ops"]]
        assert await shown.value(order) == list(range(len(times)))
        await shown.point_at(column, is_clicked=True)
        down = [times[at] for at in await shown.value(order)]
        assert down == sorted(times, reverse=True)
        assert await shown.value("document.querySelector('#operator-table th:nth-child(9)').ariaSort") == "descending"
        await shown.point_at(column, is_clicked=True)
        assert [times[at] for at in await shown.value(order)] == sorted(times)
        assert shown.complaints == []


EVIL = "</script><img src=http://127.0.0.1:9/x onerror=\"document.title='owned'\"><!--<script>/*DATA*/&amp;"


def evil(tmp_path: Path) -> Path:
    """A program all of whose names are markup."""
    import numpy as np
    from alcove.runtime.format.spec import DType

    build = Assembly()
    x = build.input(EVIL, DType.F32, (1, 4))
    weights = build.panels(EVIL, np.ones((4, 4), np.float32), np.zeros(4, np.float32))
    (y,) = build.op("linear", [x, weights], (DType.F32, (1, 4)), attributes=(0, 0, 0.0, 0.0))
    build.output(EVIL, y)
    path = tmp_path / "evil.alc"
    path.write_bytes(write_program(build.spec()))
    return path


def test_names_of_a_hostile_program_stay_data(tmp_path: Path) -> None:
    """No character of a program can end the element that it stands in; what is read back is what it says."""
    facts = summarize_file(evil(tmp_path))
    page = page_of(facts)
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert facts_in(page)["ports"][0]["name"] == EVIL


@needs_browser
async def test_markup_in_a_programs_names_is_shown_as_text(tmp_path: Path) -> None:
    """The browser makes no element of it, runs nothing, and asks for nothing."""
    path = tmp_path / "page.html"
    path.write_text(page_of(summarize_file(evil(tmp_path))), encoding="utf-8")
    async with open_page(path.as_uri()) as shown:
        assert await shown.value("document.querySelectorAll('img').length") == 0
        assert EVIL in await shown.value("document.querySelector('#ports').textContent")
        assert "owned" not in await shown.value("document.title")
        assert shown.complaints == []
        assert shown.requests == [path.as_uri()]


@pytest.fixture
def spoiled(page: Path) -> Path:
    """A page with a script that throws and an image from elsewhere."""
    said = page.read_text(encoding="utf-8")
    page.write_text(said.replace("<nav>", "<img src='http://127.0.0.1:9/x'><script>missing()</script><nav>"))
    return page


@needs_browser
async def test_a_page_that_would_load_something_is_caught(spoiled: Path) -> None:
    """The control of the tests above: both are noticed, and the page's policy stops the image."""
    async with open_page(spoiled.as_uri()) as shown:
        assert any("missing is not defined" in complaint for complaint in shown.complaints)
        assert any("Content Security Policy" in complaint for complaint in shown.complaints)


@pytest.mark.parametrize("name", sorted(samples() | op_samples()))
def test_every_program_has_a_page(name: str, tmp_path: Path) -> None:
    """Every operator of the manifest, sizes that come with inputs, states, infinite attributes: all as JSON."""
    path = tmp_path / "some.alc"
    path.write_bytes((samples() | op_samples())[name])
    facts = facts_in(page_of(summarize_file(path)))
    assert len(facts["graph"]["nodes"]) == len(facts["ops"])
    places = [tuple(place) for place in facts["graph"]["nodes"]]
    assert len(set(places)) == len(places)  # no box lies on another
    for start, end, _ in facts["graph"]["edges"]:
        assert places[start][0] < places[end][0]


def test_branches_of_a_graph_stand_side_by_side_and_meet_below() -> None:
    """A diamond: 0 above 1 and 2, both above 3."""
    ops = [
        {"inputs": [0], "outputs": [1]},
        {"inputs": [1], "outputs": [2]},
        {"inputs": [1], "outputs": [3]},
        {"inputs": [2, 3], "outputs": [4]},
    ]
    found = layout_of(ops)
    assert found["nodes"] == [(0, 0), (1, 0), (1, 1), (2, 0)]
    assert found["edges"] == [(0, 1, 1), (0, 2, 1), (1, 3, 2), (2, 3, 3)]
    assert (found["rows"], found["columns"]) == (3, 2)


def test_a_page_in_no_folder_is_refused_before_anything_is_done(classifier: Path, tmp_path: Path) -> None:
    """Wrong use, in one sentence."""
    said = alcove("model", "inspect", classifier, "--html", tmp_path / "none" / "page.html")
    assert (said.code, said.out) == (2, "")
    assert "is no folder" in said.err
