"""What the wizards read from a form, apart from any server: fields, sliders, audiences, layers, forecasts in turn."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from alcove.platform.client import Claim, DeadlineError, GuardrailPlan, Layer, Plan, Segment, StagePlan
from alcove.platform.console import forecasting
from alcove.platform.console.forecasting import ComputingError, Forecasts
from alcove.platform.console.kept_forms import FORM_BYTES, RESUME, keep, read_long_form
from alcove.platform.console.pages.wizards.audiences import read_audience
from alcove.platform.console.pages.wizards.layers import strips_of
from alcove.platform.console.sheets import Input, Sheet
from alcove.platform.console.simulating import Simulated, Simulator, why_not
from alcove.platform.console.simulation_process import simulate_plan
from alcove.platform.console.sliders import PLACES, number_at, place_of, settle
from alcove.platform.console.viewer import VIEWER

PERCENT = Input("share", "Share", kind="number", unit="%", high=100)


@pytest.mark.parametrize(
    ("text", "points", "problem"),
    [
        ("1", 100, ""),
        (" 0,5 ", 50, ""),
        ("", None, ""),
        ("0.29", 29, ""),
        ("0.001", None, "Share: expected a share in steps of 0.01 %, got 0.001."),
        ("101", None, "Share: expected a number from 0 to 100 %, got 101."),
        ("nan", None, "Share: expected a number from 0 to 100 %, got nan."),
        ("1e9", None, "Share: expected a number from 0 to 100 %, got 1e9."),
        ("1" * 40, None, "Share: at most 32 characters; there are 40."),
    ],
)
def test_a_share_is_read_or_refused_with_its_bound(text: str, points: int | None, problem: str) -> None:
    """What was written stays as it was."""
    sheet = Sheet([PERCENT], {"share": text})
    assert sheet.basis_points("share") == points
    assert sheet.problems == ({"share": problem} if problem else {})
    assert sheet.values["share"] == text


def test_lists_pairs_and_choices_say_what_they_expect() -> None:
    """Each field reads its own form, and the rest of the sheet is read all the same."""
    fields = (
        Input("edges", "Edges"),
        Input("values", "Values", kind="words"),
        Input("kind", "Kind", kind="choice", options=(("a", "A"),)),
        Input("count", "Count", kind="number", low=1),
    )
    good = Sheet(fields, {"edges": "10, 20,", "values": "a=1\r\nb = x", "kind": "a", "count": "1 000"})
    assert (good.numbers("edges"), good.pairs("values")) == ((10.0, 20.0), {"a": "1", "b": "x"})
    assert (good.text("kind"), good.whole("count"), good.problems) == ("a", 1000, {})
    bad = Sheet(fields, {"edges": "10;20", "values": "a=1\na=2", "kind": "b", "count": "1.5"})
    assert (bad.numbers("edges"), bad.pairs("values"), bad.text("kind"), bad.whole("count")) == ((), {}, "", None)
    assert set(bad.problems) == {"edges", "values", "kind", "count"}


def test_a_slider_and_its_number_agree_at_every_place() -> None:
    """The number at a place is on that place again, near enough, and inside the bounds."""
    for field in (
        Input("a", "A", kind="range", low=0.05, high=50, is_logarithmic=True),
        Input("b", "B", kind="range", low=1, high=99),
    ):
        for place in range(PLACES + 1):
            number = number_at(field, place)
            assert field.low <= float(number) <= field.high
            assert abs(place_of(field, number) - place) <= 3
    assert settle({"a": field}, {"a": "5"}) is None


def test_an_audience_says_what_it_means() -> None:
    """Versions, memory, words and those that are left out, and where it is none."""
    cases = {
        "": ("Every device of the app.",),
        "app_version >= 2.1 and app_version < 3": ("App version 2.1.0 or newer, and below 3.0.0.",),
        "app_version == 2.1": ("App version 2.1.0 exactly.",),
        "memory_mb < 4096": ("Memory below 4096 MB.",),
        "locale in (de, en-GB, fr) and locale not in (de-AT)": (
            "Language is de, en-GB or fr.",
            "Language is not de-AT.",
        ),
    }
    for text, words in cases.items():
        assert read_audience(text).words == words, text
    unknown = read_audience("os in (ios) and color == red")
    assert (unknown.position, unknown.around[1]) == (16, "color")
    assert "from and below one of" in read_audience("memory_mb < 4000").problem
    assert read_audience("a" * 10_000).problem == "Audience: at most 4096 characters; there are 10000."


def test_a_strip_shows_what_is_held_and_what_is_asked_for() -> None:
    """To the bucket: a claim that ends where the new one begins is no conflict."""
    claims = (
        Claim(experiment_id="ex-1", feature="a", first=0, count=2500),
        Claim(experiment_id="ex-2", feature="b", first=5000, count=1),
    )
    layer = Layer(app="app", name="search", created_at_s=0, claims=claims)
    (strip,) = strips_of([layer], Segment(layer="search", first=2500, count=2500))
    assert (strip.conflicts, strip.free) == ((), ((2500, 5000), (5001, 10_000)))
    assert [strip.cells.count(kind) for kind in ("taken", "new", "conflict", "free")] == [13, 12, 1, 24]
    (strip,) = strips_of([layer], Segment(layer="search", first=2499, count=2502))
    assert strip.conflicts == claims
    (strip,) = strips_of([layer], Segment(layer="other", first=0, count=10_000))
    assert (strip.conflicts, strip.is_chosen) == ((), False)


async def make_request(body: bytes) -> web.Request:
    """A request with a long form."""
    reader = StreamReader(BaseProtocol(asyncio.get_running_loop()), 2**20, loop=asyncio.get_running_loop())
    reader.feed_data(body)
    reader.feed_eof()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return make_mocked_request("POST", "/rollouts/new", headers=headers, payload=reader, client_max_size=16)


async def test_a_long_form_may_be_long_and_no_longer() -> None:
    """Other forms of the same console keep their bound; what proves who somebody is is read and not kept."""
    body = urlencode({"audience": "x" * (FORM_BYTES - 200), "token": "t", "csrf": "c", "step": "create"}).encode()
    kept = await keep(await make_request(body))
    assert kept is not None
    assert set(kept.fields) == {"audience"}
    read = await read_long_form(await make_request(body), "session")
    assert (set(read.fields), read.is_of_session, read.step) == ({"audience", "step"}, False, RESUME)
    with pytest.raises(web.HTTPRequestEntityTooLarge):
        await keep(await make_request(body + b"&more=" + b"x" * 300))


class Browser:
    """A request of somebody whose browser may have gone."""

    def __init__(self, name: str = "reader/1") -> None:
        self.viewer = SimpleNamespace(info=SimpleNamespace(principal=name))
        self.transport: Any = SimpleNamespace(is_closing=lambda: False)

    def __getitem__(self, key: object) -> Any:
        assert key is VIEWER
        return self.viewer


def asked_by(browser: Browser) -> web.Request:
    """The browser as pages see it."""
    return cast("web.Request", browser)


async def test_the_same_question_is_computed_once_and_another_waits_for_its_turn() -> None:
    """What nobody waits for any more, because the slider moved on, is not computed at all."""
    forecasts, begun = Forecasts(), []
    first, gate = asyncio.Event(), asyncio.Event()

    async def compute(name: str) -> str:
        begun.append(name)
        first.set()
        await gate.wait()
        return name

    here, gone = Browser(), Browser()
    names = {"a": here, "b": gone, "c": here}
    tasks = [
        asyncio.create_task(forecasts.get(asked_by(browser), name, lambda name=name: compute(name)))  # type: ignore[misc]
        for name, browser in (*names.items(), ("a", Browser()))
    ]
    await first.wait()
    gone.transport = None
    gate.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [answers[0], answers[2], answers[3]] == ["a", "c", "a"]
    assert isinstance(answers[1], ComputingError)
    assert begun == ["a", "c"]
    assert await forecasts.get(asked_by(here), "a", lambda: compute("a")) == "a"
    assert begun == ["a", "c"]


async def test_a_forecast_that_is_not_there_yet_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says that it computes; asked again, the answer is there.  A deadline of the server is the same."""
    monkeypatch.setattr(forecasting, "WAIT_S", 0.0)
    forecasts, gate = Forecasts(), asyncio.Event()

    async def compute() -> str:
        await gate.wait()
        return "found"

    async def be_late() -> str:
        raise DeadlineError("DEADLINE_EXCEEDED", "", "too late")

    one = asked_by(Browser())
    with pytest.raises(ComputingError):
        await forecasts.get(one, "a", compute)
    gate.set()
    monkeypatch.setattr(forecasting, "WAIT_S", 60.0)
    assert await forecasts.get(one, "a", compute) == "found"
    with pytest.raises(ComputingError):
        await forecasts.get(one, "b", be_late)


WATCHED = Plan(
    stages=(StagePlan(share_basis_points=2000, minimum_cohort=50), StagePlan(share_basis_points=10_000)),
    guardrails=(GuardrailPlan(metric="crash_fallback", margin=0.02),),
    expected_devices=20_000,
)


async def test_a_plan_is_simulated_in_a_process_of_its_own() -> None:
    """With a sound version and a harmful one; each has at least one run."""
    found = await Simulator(run_s=0.0, end_s=200.0).run(WATCHED, {"crash_fallback": 0.001})
    assert (found.devices, found.problem) == (20_000, "")
    assert [one.runs >= 1 for one in found.outcomes] == [True, True]
    assert found.outcomes[1].title == "A harmful version: crash fallback 0.1 % → 8.1 %"
    assert isinstance(found, Simulated)


def test_what_cannot_be_simulated_says_why() -> None:
    """Nothing watched, and a plan that could not be created."""
    assert "Nothing is watched" in why_not(Plan())
    assert why_not(WATCHED) == ""
    plan = WATCHED.model_copy(update={"epsilon": "99"}).model_dump(mode="json")
    assert "epsilon" in simulate_plan({"plan": plan, "behavior": {}, "devices": 1000, "run_s": 0.0})["problem"]
    plan = WATCHED.model_dump(mode="json")
    assert simulate_plan({"plan": plan, "behavior": {"error": 2.0}, "devices": 1000, "run_s": 0.0})["problem"]
