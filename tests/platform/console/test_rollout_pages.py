"""Rollouts in the console: what their pages show, who may do what there, and two people who act on one, over HTTP."""

import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from urllib.parse import quote

import pytest
from alcove.platform.client import FeatureRules, Plan, PlatformClient, Rollout
from alcove.platform.console.actions import may
from alcove.platform.console.pages.rollouts.actions import all_actions
from alcove.platform.domain.principal import Role
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.conftest import ROLES, Person, person
from tests.platform.console.rollouts import WATCHED, analyze, draft, prepare
from tests.platform.console.test_pages import XSS, Markup

OPERATORS = ("operator", "operator:text")


@pytest.fixture(scope="module")
def team(world: ServerWorld, served: Served) -> Iterator[PlatformClient]:
    """A client of the team."""
    with world.client(served, "team:text") as client:
        yield client


@pytest.fixture(scope="module")
def operator(world: ServerWorld, served: Served) -> Iterator[PlatformClient]:
    """A client of an operator."""
    with world.client(served, "operator") as client:
        yield client


@pytest.fixture(scope="module")
def feature(world: ServerWorld, team: PlatformClient, operator: PlatformClient) -> str:
    """A feature whose 1.0.0 is the default of some apps and 2.0.0 is published."""
    prepare(world, team, operator, "text_20", "mail")
    for app in ("notes", "chat", "news"):
        first = operator.create_rollout(app, "text_20", "1.0.0")
        operator.advance_rollout(first.rollout_id, 10_000, override_reason="the first version")
    return "text_20"


async def test_a_page_that_loads_again_is_the_same_for_all_of_a_role_and_nobodys(
    world: ServerWorld, served: Served, operator: PlatformClient, feature: str
) -> None:
    """Its regions are there; no form, no name and no token of whoever asked first; a person's own page has all."""
    path = f"/rollouts/{draft(operator, feature, 'mail').rollout_id}"
    async with person(world, served, "operator") as one, person(world, served, "operator") as other:
        own = (await one.get(path))[1]
        assert 'action="/rollouts/' in own
        assert await one.csrf() in own
        loaded = [(await each.get(path, **{"X-Alcove-Idle": "1"}))[1] for each in (one, other)]
        assert loaded[0] == loaded[1]
        regions = re.findall(r'<div id="[\w-]+" data-live="[^"]+">', own)
        assert regions
        assert re.findall(r'<div id="[\w-]+" data-live="[^"]+">', loaded[0]) == regions
        assert 'action="/rollouts/' not in loaded[0]
        for each in (one, other):
            assert await each.csrf() not in loaded[0]
        assert "operator/" not in loaded[0].partition("<main")[0]
        compressed = await one.http.get(one.url + path, headers={"X-Alcove-Idle": "1", "Accept-Encoding": "gzip"})
        assert compressed.headers["Content-Encoding"] == "gzip"
        plain = await one.http.get(one.url + path, headers={"X-Alcove-Idle": "1", "Accept-Encoding": "identity"})
        assert "Content-Encoding" not in plain.headers
        assert await plain.text() == await compressed.text()
        data = await one.http.get(f"{one.url}{path}.json", headers={"X-Alcove-Idle": "1"})
        assert (await data.json())["actions"]


async def test_a_rollout_that_was_paused_by_harm_is_shown_with_its_stages_guardrails_and_who_did_what(
    world: ServerWorld, served: Served, operator: PlatformClient, feature: str
) -> None:
    """Two analyses, of which the second pauses; the next stage is to come; each number has its interval."""
    made = operator.advance_rollout(draft(operator, feature, "mail").rollout_id)
    await analyze(world, made.rollout_id, devices=(400, 400))
    await analyze(world, made.rollout_id, devices=(5000, 5000), crashed=(0.001, 0.2), after_s=60)
    path = f"/rollouts/{made.rollout_id}"
    async with person(world, served, "reader") as one:
        data = await one.json(f"{path}.json")
        assert (data["rollout"]["state"], data["team"], data["actions"]) == ("paused", "text", [])
        assert [step["when"] for step in data["timeline"]] == ["past", "now", "to come", "to come"]
        assert [step["share_basis_points"] for step in data["timeline"]] == [0, 1000, 5000, 10_000]
        assert [move["action"] for move in data["timeline"][1]["moves"]] == ["advance rollout", "pause rollout"]
        assert data["timeline"][1]["moves"][1]["who"] == "the server, as the plan says"
        crash, refused = data["guardrails"]
        assert (crash["verdict"], crash["unit"], crash["margin"]) == ("harmful", "percentage points", 1.0)
        assert crash["low"] > crash["margin"]
        assert 2 <= len(crash["chart"]["series"][0]["points"]) <= len(data["analyses"])
        assert [line["name"] for line in crash["chart"]["lines"]] == ["margin", "no difference"]
        assert refused["verdict"] in ("safe", "inconclusive")
        assert [point["y"] for point in data["share"]["series"][0]["points"]] == [0.0, 10.0, 10.0]
        status, page = await one.get(path)
        assert status == 200
        assert not Markup(page).faults
        for words in (
            'aria-current="step"',
            "Stage 1: 10 %",
            "Worse than its margin allows",
            data["rollout"]["analysis"]["reason"],
            data["rollout"]["promise"],
            f"/features/{feature}/versions/2.0.0",
            "/policies/mail",
            f"/audit?object={made.rollout_id}",
            f'data-live="{path}/live"',
            "Role reader has none here",
        ):
            assert words in page, words


async def test_the_list_filters_orders_and_pages_on_the_server_and_says_the_next_step(
    world: ServerWorld, served: Served, operator: PlatformClient, feature: str
) -> None:
    """Filters stay in the address; who may create is led to the wizard; nothing found is said."""
    made = [draft(operator, feature, "chat").rollout_id for _ in range(3)]
    async with person(world, served, "operator") as one:
        first = await one.json("/rollouts.json?app=chat&state=draft&size=2")
        path, _, query = first["next_page"].partition("?")
        assert "state=draft" in query
        second = await one.json(f"{path}.json?{query}")
        found = [row["rollout_id"] for page in (first, second) for row in page["rows"]]
        assert (found, second["next_page"]) == (made[::-1], None)
        (row,) = (await one.json(f"/rollouts.json?text={made[0]}"))["rows"]
        assert (row["app"], row["state"], row["share_basis_points"], row["decision"]) == ("chat", "draft", 0, None)
        oldest = await one.json("/rollouts.json?app=chat&order=oldest")
        assert [each["state"] for each in oldest["rows"]] == ["completed", "draft", "draft", "draft"]
        page = (await one.get("/rollouts?app=chat"))[1]
        assert page.index(made[2]) < page.index(made[0])
        assert 'href="/rollouts/new"' in page
        assert "Nothing fits these filters" in (await one.get("/rollouts?text=nothing-has-this"))[1]
    async with person(world, served, "reader") as other:
        assert 'href="/rollouts/new"' not in (await other.get("/rollouts"))[1]


BEFORE = {
    "advance": (),
    "approve": ("propose",),
    "pause": ("advance",),
    "resume": ("advance", "pause"),
    "roll-back": ("advance", "pause"),
    "delete": (),
    "halt": (),
}
"""What comes before each action; after a halt nothing more comes."""


def form_of(rollout: Rollout, number: int) -> dict[str, str]:
    """A whole form for any action."""
    return {
        "request_id": f"request-{rollout.rollout_id}-{number}",
        "etag": rollout.etag,
        "seen": "as it was",
        "reason": "for a test",
        "override_reason": "for a test",
        "share": "10",
        "confirmation": rollout.rollout_id,
    }


def bring_about(operator: PlatformClient, *steps: str) -> Rollout:
    """A rollout of text_21 after some steps."""
    operator.set_rules("text_21", FeatureRules(must_approve_rollouts="propose" in steps))
    made = operator.create_rollout("wall", "text_21", "2.0.0")
    for step in steps:
        if step == "pause":
            made = operator.pause_rollout(made.rollout_id)
        else:
            made = operator.advance_rollout(made.rollout_id, 1000, override_reason="for a test")
    return made


async def test_every_action_is_offered_to_operators_and_refused_to_others_when_forged(
    world: ServerWorld, served: Served, operator: PlatformClient, team: PlatformClient
) -> None:
    """Every action × every role over HTTP: what is not offered is refused by the server itself."""
    prepare(world, team, operator, "text_21", "wall")
    async with AsyncExitStack() as stack:
        people = {role: await stack.enter_async_context(person(world, served, role)) for role in ROLES}
        for name, before in BEFORE.items():
            # Who proposed with the operator's token does not approve with its session.
            allowed = [role for role in OPERATORS if (name, role) != ("approve", "operator")]
            others = [role for role in ROLES if role not in allowed]
            spare = [bring_about(operator) for _ in allowed[1:]] if name == "halt" else []
            made = bring_about(operator, *before)
            for number, role in enumerate(others):
                path = f"/rollouts/{made.rollout_id}"
                assert name not in (await people[role].json(f"{path}.json"))["actions"], (name, role)
                status, page = await people[role].act(f"{path}/actions/{name}", **form_of(made, number))
                assert (status, "Not allowed" in page) == (403, True), (name, role, page)
            for number, role in enumerate(allowed, len(others)):
                path = f"/rollouts/{made.rollout_id}"
                assert name in (await people[role].json(f"{path}.json"))["actions"], (name, role)
                status, page = await people[role].act(f"{path}/actions/{name}", **form_of(made, number))
                assert (status, 'class="done"' in page) == (200, True), (name, role, page)
                if name not in ("delete", "halt", "roll-back"):
                    operator.roll_back_rollout(made.rollout_id, "for the next")
                if role != allowed[-1]:
                    made = spare.pop() if spare else bring_about(operator, *before)


def test_what_is_offered_follows_the_table_of_permissions() -> None:
    """Operators of all and of the feature's team, nobody else."""
    for action in all_actions("ro-1"):
        for role in ROLES:
            assert may(Role.parse(role), action.rpc, "text") == (role in OPERATORS), (action.name, role)


async def read_hidden(one: Person, path: str) -> dict[str, str]:
    """What the forms of a page carry unseen: what its reader saw."""
    _, page = await one.get(path)
    return {name: re.search(rf'name="{name}" value="([^"]*)"', page)[1] for name in ("etag", "seen")}  # type: ignore[index]


async def test_two_people_who_act_on_one_rollout_see_both_states_and_nothing_is_done_twice(
    world: ServerWorld, served: Served, operator: PlatformClient, feature: str
) -> None:
    """The slower one is told what he saw and what is there; the action is offered again only where it still fits."""
    made = operator.create_rollout("news", feature, "2.0.0")
    made = operator.advance_rollout(made.rollout_id, 1000, override_reason="a first look")
    path = f"/rollouts/{made.rollout_id}"
    async with person(world, served, "operator") as slow, person(world, served, "operator:text") as fast:
        seen = await read_hidden(slow, path)
        assert seen["seen"] == "running at 10 %"
        form = seen | {"request_id": "slow-request-1", "reason": "users complain"}
        form_of_fast = await read_hidden(fast, path) | {"request_id": "fast-request-1", "reason": "<b>odd</b> numbers"}
        status, page = await fast.act(f"{path}/actions/pause", **form_of_fast)
        assert (status, "The rollout is paused." in page) == (200, True)
        status, page = await slow.act(f"{path}/actions/roll-back", **form)
        assert status == 409
        assert "You saw: running at 10 %. It is now: paused at 10 %: operator:text/" in page
        assert "paused it because &lt;b&gt;odd&lt;/b&gt; numbers. Do it again if it still fits." in page
        assert 'value="users complain"' in page
        assert 'value="slow-request-1"' not in page
        assert f'name="etag" value="{operator.rollout(made.rollout_id).etag}"' in page
        assert operator.rollout(made.rollout_id).state == "paused"
        status, page = await slow.act(f"{path}/actions/pause", **form)
        assert (status, "What you asked for does not fit that any more." in page) == (409, True)
        status, page = await slow.act(f"{path}/actions/roll-back", **form | await read_hidden(slow, path))
        assert (status, "The rollout is rolled back" in page) == (200, True)
        assert "Rolled back" in page
        assert "users complain" in page


async def test_an_advance_without_stages_asks_for_a_share_and_one_with_stages_does_not(
    world: ServerWorld, served: Served, operator: PlatformClient, feature: str
) -> None:
    """Per cent with a point or a comma; what is no share is said in the form; a form without an etag is none."""
    made = operator.create_rollout("news", feature, "2.0.0")
    path = f"/rollouts/{made.rollout_id}"
    async with person(world, served, "operator") as one:
        assert 'name="share"' in (await one.get(path))[1]
        form = form_of(made, 1)
        for wrong in ("0", "101", "2.555", "NaN", "all", "-5"):
            status, page = await one.act(f"{path}/actions/advance", **form | {"share": wrong})
            assert (status, "in steps of 0.01" in page) == (400, True), wrong
        status, page = await one.act(f"{path}/actions/advance", **form | {"etag": ""})
        assert (status, "load the page again" in page) == (400, True)
        status, page = await one.act(f"{path}/actions/halt", **form | {"confirmation": "yes"})
        assert (status, "to confirm" in page) == (400, True)
        status, page = await one.act(f"{path}/actions/advance", **form | {"share": "2,5"})
        assert status == 200
        assert operator.rollout(made.rollout_id).share_basis_points == 250
        operator.roll_back_rollout(made.rollout_id, "for the next")
        staged = draft(operator, feature, "news")
        assert 'name="share"' not in (await one.get(f"/rollouts/{staged.rollout_id}"))[1]
        status, page = await one.act(f"/rollouts/{staged.rollout_id}/actions/delete", **form_of(staged, 2))
        assert (status, "The draft is deleted." in page) == (200, True)
        assert (await one.get(f"/rollouts/{staged.rollout_id}"))[0] == 404
        assert (await one.get("/rollouts/ro-nothing"))[0] == 404


async def test_markup_in_what_people_wrote_about_a_rollout_stays_text(
    world: ServerWorld, served: Served, operator: PlatformClient, feature: str
) -> None:
    """Reasons of plan, pause and end, search words and what forms carry: none runs."""
    texts = [text for text in XSS if text.isprintable()]
    async with person(world, served, "operator") as one:
        for half in (texts[::2], texts[1::2]):
            text = " ".join(half)
            plan = Plan(stages=WATCHED.stages, guardrails=WATCHED.guardrails, auto_advance_reason=text)
            made = operator.create_rollout("notes", feature, "2.0.0", plan=plan)
            made = operator.advance_rollout(made.rollout_id)
            path = f"/rollouts/{made.rollout_id}"
            operator.pause_rollout(made.rollout_id, text)
            pages = [(await one.get(path))[1], (await one.get("/rollouts"))[1]]
            fields = dict.fromkeys(("request_id", "reason", "override_reason", "seen", "share", "confirmation"), text)
            for name, etag in (("advance", made.etag), ("roll-back", made.etag), ("halt", made.etag), ("pause", text)):
                pages.append((await one.act(f"{path}/actions/{name}", **fields, etag=etag))[1])
            operator.roll_back_rollout(made.rollout_id, text)
            pages.append((await one.get(path))[1])
            pages += [(await one.get(f"/rollouts?{name}={quote(text)}"))[1] for name in ("text", "app", "state")]
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages[0]
            for page in pages:
                assert Markup(page).faults == []
