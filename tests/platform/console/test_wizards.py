"""The wizards and the planner over HTTP: what is written is checked, forecast, created once, and never lost."""

import asyncio
import re
from collections.abc import Iterator

import pytest
from alcove.platform.client import Arm, PlatformClient, Segment
from alcove.platform.testing import Served, ServerWorld
from alcove.registry.parameters import Parameter

from tests.platform.console.conftest import ROLES, Person, person
from tests.platform.console.forms import fields_of
from tests.platform.console.test_pages import XSS, Markup

CREATORS = ("operator", "operator:text")
NEW_ROLLOUT = "/rollouts/new?feature=text_30&app=messenger"
NEW_EXPERIMENT = "/experiments/new?feature=text_30&app=messenger"
QUICK = {"guard.error": "", "stage.2.share": "", "stage.3.share": ""}  # a plan that is forecast in no time


@pytest.fixture(scope="module")
def operator(world: ServerWorld, served: Served) -> Iterator[PlatformClient]:
    """A client of an operator; the feature `text_30` has two versions and a metric, its app a layer that is in use."""
    with world.client(served, "team:text") as team:
        for version in ("1.0.0", "1.1.0"):
            world.publish(team, "text_30", version)
        world.publish(team, "text_30", "1.2.0", is_released=False)
        words = {"owner": "anna", "description": XSS[0], "more_is_better": False}
        team.create_metric("text_30", "undone_edits", "count", edges=[2, 4], **words)  # type: ignore[arg-type]
        threshold = Parameter(
            name="threshold", type="float", default="0.5", minimum="0.1", maximum="0.9", description=XSS[1]
        )
        world.publish(team, "text_31", parameters=[threshold])
    with world.client(served, "operator") as client:
        client.create_layer("messenger", "search")
        arms = [
            Arm(name=name, version="1.0.0", share_basis_points=5000, values={}) for name in ("control", "treatment")
        ]
        arms[1] = arms[1].model_copy(update={"version": "1.1.0"})
        running = client.create_experiment(
            "messenger", "text_30", arms, segment=Segment(layer="search", first=0, count=2500)
        )
        client.start_experiment(running.experiment_id)
        yield client


async def send(one: Person, address: str, fields: dict[str, str], step: str) -> tuple[int, str, str]:
    """Status, address and text after a form was sent."""
    headers = {"Origin": one.url, "Sec-Fetch-Site": "same-origin"}
    path = address.partition("?")[0]
    async with one.http.post(one.url + path, data=fields | {"step": step}, headers=headers) as answer:
        return answer.status, str(answer.url).removeprefix(one.url), await answer.text()


async def form(one: Person, address: str) -> dict[str, str]:
    """The fields of a wizard as it is opened."""
    status, page = await one.get(address)
    assert status == 200, page
    assert Markup(page).faults == []
    return fields_of(page)


async def test_a_rollout_is_written_forecast_and_created_once(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Its page follows; the form that is sent a second time leads to the same rollout."""
    async with person(world, served, "operator:text") as one:
        fields = await form(one, NEW_ROLLOUT + "&version=1.0.0")
        assert (fields["app"], fields["version"]) == ("messenger", "1.0.0")
        fields |= QUICK | {"expected_devices": "2000000", "audience": "os in (ios)\r\nand app_version >= 2"}
        status, _, page = await send(one, NEW_ROLLOUT, fields, "check")
        assert status == 200
        assert "App version 2.0.0 or newer." in page
        assert "the stage of 1 % will hold for ever" in page
        assert 'data-chart="' in page
        assert not [each for each in operator.rollouts(feature="text_30") if each.audience]
        fields = fields_of(page)
        answers = [await send(one, NEW_ROLLOUT, fields, "create") for _ in range(2)]
        (made,) = operator.rollouts(feature="text_30")
        assert {address for _, address, _ in answers} == {f"/rollouts/{made.rollout_id}"}
        assert (made.state, made.audience) == ("draft", "app_version >= 2.0.0 and os in (ios)")
        assert [stage.share_basis_points for stage in made.plan.stages] == [100, 10_000]
        assert [(each.metric, each.margin) for each in made.plan.guardrails] == [("crash_fallback", 0.005)]
        assert made.plan.expected_devices == 2_000_000


async def test_an_experiment_is_written_beside_those_that_hold_buckets_of_its_layer(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Who holds which buckets is shown before and after a refusal; other buckets are free."""
    async with person(world, served, "operator") as one:
        fields = await form(one, NEW_EXPERIMENT + "&mde=3&expected_devices=100000")
        assert (fields["mde"], fields["expected_devices"]) == ("3", "100000")
        fields |= {"layer": "search", "layer.first": "2000", "layer.count": "2000"}
        status, _, page = await send(one, NEW_EXPERIMENT, fields, "create")
        assert status == 409
        assert "buckets [0, 2500) of layer" in page
        assert page.count("cell-conflict") == 3
        assert "<td>meets</td>" in page
        fields = fields_of(page) | {"layer.first": "2500", "arm.2.name": "new", "guard.own.undone_edits": "0.5"}
        status, _, page = await send(one, NEW_EXPERIMENT, fields, "check")
        assert status == 200
        assert "100 000 devices" in page
        assert page.count('data-chart="') == 2
        status, address, page = await send(one, NEW_EXPERIMENT, fields_of(page), "create")
        made = operator.experiments(feature="text_30")[-1]
        assert address == f"/experiments/{made.experiment_id}"
        assert [arm.name for arm in made.arms] == ["control", "new"]
        assert (made.segment, made.state) == (Segment(layer="search", first=2500, count=2000), "draft")
        assert made.plan.mde == pytest.approx(0.03)


@pytest.mark.parametrize("address", [NEW_ROLLOUT, NEW_EXPERIMENT])
async def test_a_value_of_any_length_is_answered_with_its_field_and_bound_and_stays(
    world: ServerWorld, served: Served, operator: PlatformClient, address: str
) -> None:
    """Ten thousand characters in each field: one sentence each, nothing is created, and every word is there."""
    async with person(world, served, "operator") as one:
        fields = await form(one, address)
        written = [name for name in fields if name not in ("csrf", "request_id", "feature", "app")]
        for first in range(0, len(written), 20):  # of which 20 together are no form that is too long
            part = written[first : first + 20]
            status, _, page = await send(one, address, fields | dict.fromkeys(part, "x" * 10_000), "create")
            assert status == 400
            shown = fields_of(page)
            for name in part:
                link = re.search(f'<a href="#field-{name.replace(".", "-")}">([^<]+)</a>', page)
                assert link is not None, name
                assert re.search(r": at most \d+ characters; there are 10000\.$", link[1]), name
                is_choice = shown[name] != "x" * 10_000
                assert not is_choice or f'<select id="field-{name.replace(".", "-")}"' in page, name
        status, _, page = await send(one, address, fields | {"audience": "ü" * 10_000}, "create")
        assert (status, fields_of(page)["audience"]) == (400, "ü" * 10_000)
        status, _, page = await send(one, address, fields | {f"more{number}": "" for number in range(400)}, "create")
        assert (status, "Too large" in page) == (413, True)
        for name, text, problem in (
            ("audience", "os = ios", "Character 4: expected one of == != in not in, found =."),
            ("epsilon", "9e9", "expected a number from 0.01 to"),
            ("guard.error", "100", "expected a number from 0 to 99.99 percentage points, got 100."),
        ):
            status, _, page = await send(one, address, fields | {name: text}, "check")
            assert (status, problem in page) == (400, True), name
            assert fields_of(page)[name] == text


@pytest.mark.parametrize("address", [NEW_ROLLOUT, NEW_EXPERIMENT])
async def test_a_session_that_ends_under_a_form_loses_no_word_of_it(
    world: ServerWorld, served: Served, operator: PlatformClient, address: str
) -> None:
    """Signing in again shows the form as it was; nothing is sent by it, and no secret is carried along."""
    async with person(world, served, "operator") as one:
        fields = await form(one, address)
        fields |= {"epsilon": "1.5", "audience": f"os in (ios)\n{XSS[1]}", "values": XSS[0], "token": "secret-in-form"}
        (cookie,) = [each for each in one.http.cookie_jar if each.key == "alcove-session"]
        with PlatformClient(served.grpc_address, cookie.value) as session:
            session.delete_session()
        status, _, page = await send(one, address, fields, "create")
        assert (status, "Your session has ended" in page) == (401, True)
        assert Markup(page).faults == []
        assert fields["csrf"] not in page
        assert "secret-in-form" not in page
        kept = fields_of(page, "/sign-in")
        status, page = await one.post("/sign-in", kept | {"token": "wrong"})
        assert status == 401
        kept = fields_of(page, "/sign-in")
        status, page = await one.post("/sign-in", kept | {"token": world.token("operator")})
        assert (status, "Go on where you were" in page) == (200, True)
        assert Markup(page).faults == []
        again = fields_of(page, address.partition("?")[0])
        assert again["step"] == "resume"
        status, page = await one.post(address.partition("?")[0], again)
        shown = fields_of(page)
        for name in ("epsilon", "audience", "request_id"):
            assert shown[name].replace("\r\n", "\n") == fields[name]
        assert shown["csrf"] != fields["csrf"]
        assert Markup(page).faults == []


async def test_a_form_of_another_session_is_shown_again_and_does_nothing(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Who signed in again in another tab sends it once more; a form that names none does nothing either."""
    before = len(operator.rollouts())
    async with person(world, served, "operator") as one, person(world, served, "operator") as other:
        fields = await form(one, NEW_ROLLOUT)
        for sent in (fields, fields | {"csrf": ""}):
            status, _, page = await send(other, NEW_ROLLOUT, sent | {"epsilon": "1.5"}, "create")
            assert (status, "What you wrote is here again" in page) == (200, True)
            assert fields_of(page)["epsilon"] == "1.5"
        async with one.http.post(one.url + "/rollouts/new", data=fields | {"step": "create"}) as answer:
            assert answer.status == 403  # from no page of the console
    assert len(operator.rollouts()) == before


async def test_each_role_may_plan_and_operators_alone_create(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Why there is no button is said; a forged form meets the server's refusal, with every word kept."""
    before = len(operator.rollouts()), len(operator.experiments())
    for role in ROLES:
        async with person(world, served, role) as one:
            for address in (NEW_ROLLOUT, NEW_EXPERIMENT):
                status, page = await one.get(address)
                assert ("Create the draft" in page) == (role in CREATORS)
                assert (f"Your role is {role}" in page) != (role in CREATORS)
                if role not in CREATORS:
                    status, _, page = await send(one, address, fields_of(page) | {"epsilon": "1.5"}, "create")
                    assert (status, "Not allowed" in page) == (403, True), role
                    assert fields_of(page)["epsilon"] == "1.5"
    assert (len(operator.rollouts()), len(operator.experiments())) == before
    async with person(world, served, "reader") as one:
        data = await one.json(NEW_ROLLOUT.replace("new?", "new.json?"))
        assert (data["may_create"], data["versions"], data["metrics"]) == (False, ["1.1.0", "1.0.0"], ["undone_edits"])
        fields = await form(one, NEW_ROLLOUT)
        status, _, page = await send(one, NEW_ROLLOUT, fields | QUICK, "check")
        assert (status, 'id="forecast-stages"' in page) == (200, True)


async def test_markup_in_any_field_is_shown_as_text(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """Sent, refused, kept and explained: no page has an element that no template wrote."""
    async with person(world, served, "operator") as one:
        forms = {address: await form(one, address) for address in (NEW_ROLLOUT, NEW_EXPERIMENT)}
        for text in XSS:
            for address, fields in forms.items():
                written = [name for name in fields if name not in ("csrf", "feature", "app")]
                for sent in (dict.fromkeys(written, text), {"values": text, "arm.1.name": text, "dimension": text}):
                    _, _, page = await send(one, address, fields | sent, "create")
                    assert Markup(page).faults == []
                _, _, page = await send(one, address, {**fields, "feature": text, "app": text}, "check")
                assert Markup(page).faults == []
            for path in ("/planner", "/rollouts/new", "/experiments/new", "/audience"):
                names = ("mde", "epsilon", "feature", "app", "audience", "text", "version")
                async with one.http.get(one.url + path, params=dict.fromkeys(names, text)) as answer:
                    assert Markup(await answer.text()).faults == []


async def test_an_audience_is_read_while_it_is_written(world: ServerWorld, served: Served) -> None:
    """In plain words, or with the character at which it goes wrong; the form's token is asked for."""
    async with person(world, served, "reader") as one:
        found = await one.json("/audience.json?audience=locale+not+in+(de)+and+memory_mb+>=+4096")
        assert found["words"] == ["Language is not de.", "Memory 4096 MB or more."]
        status, page = await one.act("/audience", audience="os in (ios")
        assert (status, "Character 11" in page, "▲" in page) == (200, True, True)
        assert (await one.post("/audience", {"audience": "os in (ios)"}))[0] == 403


async def test_the_planner_keeps_its_numbers_in_the_address(world: ServerWorld, served: Served) -> None:
    """A slider that was moved counts, and else the number; a new experiment begins with them."""
    async with person(world, served, "reader") as one:
        query = (
            "mde=2&mde.was=2&mde.slider=150&epsilon=1&epsilon.was=2&epsilon.slider=165&mechanism=randomized_response"
        )
        async with one.http.get(f"{one.url}/planner?{query}") as answer:
            address, page = str(answer.url), await answer.text()
        assert address == f"{one.url}/planner?mde=8.9&epsilon=1&mechanism=randomized_response"
        assert Markup(page).faults == []
        assert 'href="/experiments/new?mde=8.9&amp;expected_devices=100000&amp;epsilon=1' in page
        status, page = await one.get("/planner?mde=" + "9" * 2000)
        assert (status, "at most 32 characters; there are 2000." in page) == (400, True)
        status, page = await one.get("/planner?mde=0", **{"HX-Request": "true"})
        assert (status, "expected a number from 0.05 to 50" in page) == (200, True)


async def test_who_asks_ten_times_at_once_meets_no_error(world: ServerWorld, served: Served) -> None:
    """The forecasts of one person queue; whatever is not there yet is said to be computed."""
    async with person(world, served, "reader") as one:
        answers = await asyncio.gather(*(one.json(f"/planner.json?mde={number}") for number in range(2, 8)))
        assert all(each["problems"] == {} for each in answers)
        assert all((each["forecast"] is None) == each["is_computing"] for each in answers)


async def test_the_wizards_begin_with_a_feature(world: ServerWorld, served: Served, operator: PlatformClient) -> None:
    """And are reached from the pages of the feature and of a released version."""
    async with person(world, served, "reader") as one:
        for path in ("/rollouts/new", "/experiments/new"):
            status, page = await one.get(path)
            assert (status, '<option value="text_31"' in page) == (200, True)
            assert (await one.get(path + "?feature=none_such&app=a"))[0] == 404
        _, page = await one.get("/features/text_30/versions/1.0.0")
        assert 'href="/rollouts/new?feature=text_30&amp;version=1.0.0"' in page
        assert "/rollouts/new?" not in (await one.get("/features/text_30/versions/1.2.0"))[1]


async def test_values_of_parameters_are_offered_and_kept(
    world: ServerWorld, served: Served, operator: PlatformClient
) -> None:
    """What the version declares is shown; a value outside its bounds is refused by its name."""
    async with person(world, served, "operator") as one:
        address = "/rollouts/new?feature=text_31"
        status, page = await one.get(address)
        assert (status, "<td>0.1 to 0.9</td>" in page, Markup(page).faults) == (200, True, [])
        fields = fields_of(page) | QUICK | {"app": "messenger", "values": "threshold=0.95"}
        status, _, page = await send(one, address, fields, "create")
        assert (status, "threshold" in page, fields_of(page)["values"]) == (400, True, "threshold=0.95")
        await send(one, address, fields_of(page) | {"values": "threshold = 0.4\n"}, "create")
        assert [each.values for each in operator.rollouts(feature="text_31")] == [{"threshold": "0.4"}]
