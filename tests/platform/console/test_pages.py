"""What the pages show, who may do what there, and markup in what people have written: over HTTP, a real server."""

from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from alcove.platform.client import AliasProposal, FeatureRules, PlatformClient
from alcove.platform.console.actions import may
from alcove.platform.console.pages.version_actions import actions_of
from alcove.platform.domain.principal import Role
from alcove.platform.testing import Served, ServerWorld
from alcove.registry.package import create_package
from alcove.registry.testing import FakeVerifier

from tests.platform.console.conftest import ROLES, Person, person

XSS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "</title><script>alert(1)</script>",
    "{{ 7 * 7 }}{% for x in y %}",
    "<a href='javascript:alert(1)'>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "--><script>alert(1)</script>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "\u202e<b onmouseover=alert(1)>",
)
_TAGS = """
html head meta title link script body a header img nav details summary div p strong br code form input label select
option button main footer section h1 h2 h3 h4 h5 h6 span ul ol li time data table caption thead tbody tr th td dl dt dd
aside em figure figcaption iframe pre fieldset legend textarea datalist svg path article progress noscript
"""
TAGS = frozenset(_TAGS.split())
MARKS = {"svg": {"viewbox", "width", "height", "fill"}, "path": {"d"}}
"""What a chart's legend draws its marks with: these elements with these attributes alone."""


class Markup(HTMLParser):
    """What elements and attributes a page has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what no template writes."""
        is_mark = set(dict(attrs)) == MARKS.get(tag)
        if not (tag in TAGS or is_mark) or (
            tag == "script" and not (dict(attrs).get("src") or "").startswith("/assets/")
        ):
            self.faults.append(self.get_starttag_text() or tag)
        for name, value in attrs:
            leads = name in ("href", "src", "action") and not (value or "").startswith(("/", "#", "https://example"))
            if leads or name.startswith("on") or name in ("style", "srcdoc"):
                self.faults.append(f"{tag} {name}={value}")


@pytest.fixture(scope="module")
def team(world: ServerWorld, served: Served) -> Iterator[PlatformClient]:
    """A client of the team."""
    with world.client(served, "team:text") as client:
        yield client


async def test_a_feature_and_its_version_are_shown_and_are_data(
    world: ServerWorld, served: Served, team: PlatformClient
) -> None:
    """List, feature, version and comparison, each for people and for programs."""
    for version in ("1.0.0", "1.1.0"):
        world.publish(team, "text_00", version)
    team.set_alias("text_00", "stable", "1.1.0", reason="for a test")
    async with person(world, served, "reader") as one:
        listed = await one.json("/features.json?text=text_0")
        (row,) = [row for row in listed["rows"] if row["feature"] == "text_00"]
        assert (row["newest_release"], row["states"]) == ("1.1.0", {"released": 2})
        assert 'href="/features/text_00/versions/1.1.0"' in (await one.get("/features"))[1]
        feature = await one.json("/features/text_00.json")
        assert [row["version"] for row in feature["versions"]["rows"]] == ["1.1.0", "1.0.0"]
        _, page = await one.get("/features/text_00?order=oldest")
        assert page.index("versions/1.0.0") < page.index("versions/1.1.0")
        assert "stable" in page
        shown = await one.json("/features/text_00/versions/1.1.0.json")
        assert shown["version"]["aliases"] == ["stable"]
        assert [line["action"] for line in shown["history"]] == [
            "release version",
            "passed version",
            "publish version",
        ]
        assert shown["actions"] == []
        _, page = await one.get("/features/text_00/versions/1.1.0")
        assert "<h3>text_00 1.1.0</h3>" in page
        assert not Markup(page).faults
        compared = await one.json("/features/text_00/versions/1.0.0/compare.json?with=1.1.0")
        assert {row["change"] for row in compared["rows"]} == {0}
        assert "1.1.0" in (await one.get("/features/text_00/versions/1.0.0/compare?with=1.1.0"))[1]


async def test_lists_go_on_where_a_page_ends(world: ServerWorld, served: Served, team: PlatformClient) -> None:
    """Every row is on one page, once; filters stay in the address."""
    for number in range(3):
        world.publish(team, "text_10", f"0.{number}.0", is_released=False)
    async with person(world, served, "reader") as one:
        first = await one.json("/features/text_10.json?state=registered&size=2")
        assert "state=registered" in first["versions"]["next_page"]
        path, _, query = first["versions"]["next_page"].partition("?")
        second = await one.json(f"{path}.json?{query}")
        versions = [row["version"] for page in (first, second) for row in page["versions"]["rows"]]
        assert versions == [f"0.{number}.0" for number in reversed(range(3))]
        assert second["versions"]["next_page"] is None
        assert 'rel="next"' in (await one.get("/features/text_10?state=registered&size=2"))[1]


async def test_home_says_what_needs_somebody_and_else_the_next_step(
    world: ServerWorld, served: Served, team: PlatformClient
) -> None:
    """Versions that wait for a release; a team sees its own alone."""
    world.publish(team, "text_11", "3.0.0", is_released=False)
    async with person(world, served, "team:text") as one:
        data = await one.json("/index.json")
        assert ("text_11", "3.0.0") in {(each["feature"], each["version"]) for each in data["drafts"]}
        assert "/features/text_11/versions/3.0.0" in (await one.get("/"))[1]
    async with person(world, served, "team:speech") as other:
        assert (await other.json("/index.json"))["drafts"] == []
        assert "alcove model push" in (await other.get("/"))[1]


def may_do(role: str, name: str) -> bool:
    """Whether a role may do something to a version of team `text`, written down apart from the table."""
    return role == "team:text" or (name == "revoke" and role in ("operator", "operator:text"))


async def test_every_action_is_offered_to_its_roles_and_refused_to_the_others_when_forged(
    world: ServerWorld, served: Served, team: PlatformClient
) -> None:
    """Every action × every role over HTTP: what is not offered is refused by the server itself."""
    states = {
        "validate": (),
        "release": ("validate",),
        "alias": ("validate", "release"),
        "deprecate": ("validate", "release"),
        "revoke": (),
    }
    people: dict[str, Person] = {}
    number = 0
    for role in ROLES:
        async with person(world, served, role) as one:
            people[role] = one
            for name, before in states.items():
                number += 1
                version = f"1.{number}.0"
                world.publish(team, "text_12", version, is_released=False)
                for step in before:
                    if step == "validate":
                        team.validate_version("text_12", version)
                    else:
                        team.release_version("text_12", version, reason="for a test")
                path = f"/features/text_12/versions/{version}"
                offered = (await one.json(f"{path}.json"))["actions"]
                assert (name in offered) == may_do(role, name), (role, name)
                status, page = await one.act(
                    f"{path}/actions/{name}",
                    request_id=f"request-{number:04d}",
                    reason="for a test",
                    alias="stable",
                    confirmation=f"text_12 {version}",
                )
                assert status == (200 if may_do(role, name) else 403), (role, name, page)
                if may_do(role, name):
                    assert 'class="done"' in page
                else:
                    assert "Not allowed" in page


def test_what_is_offered_follows_the_table_of_permissions() -> None:
    """The team's own operator may, another team's may not, and a call that is in no table is nobody's."""
    for action in actions_of("text_00", "1.0.0"):
        for role in ROLES:
            assert may(Role.parse(role), action.rpc, "text") == may_do(role, action.name)
    assert not may(Role.parse("operator"), "/alcove.api.registry.v1.RegistryService/DropEverything", "text")


async def test_an_action_asks_for_a_reason_and_for_words_that_cannot_be_typed_by_chance(
    world: ServerWorld, served: Served, team: PlatformClient
) -> None:
    """What was written stays in the form; nothing has changed."""
    world.publish(team, "text_13", "1.0.0")
    path = "/features/text_13/versions/1.0.0"
    async with person(world, served, "team:text") as one:
        status, page = await one.act(f"{path}/actions/deprecate", request_id="deprecate-1", reason="  ")
        assert status == 400
        assert "Say why" in page
        status, page = await one.act(
            f"{path}/actions/revoke", request_id="revoke-001", reason="leaks", confirmation="yes"
        )
        assert status == 400
        assert 'value="leaks"' in page
        assert 'value="revoke-001"' in page
        assert "text_13 1.0.0” to confirm" in page
        status, page = await one.act(f"{path}/actions/nothing", request_id="nothing-01")
        assert status == 404
        assert (await one.json(f"{path}.json"))["version"]["state"] == "released"
        assert (await one.get(f"{path}/actions/revoke"))[0] == 200


async def test_a_form_that_is_sent_twice_acts_once_and_a_late_one_says_what_is_there(
    world: ServerWorld, served: Served, team: PlatformClient
) -> None:
    """The same request id is the same mutation; another person's comes too late and is told so."""
    world.publish(team, "text_14", "1.0.0")
    path = "/features/text_14/versions/1.0.0"
    async with person(world, served, "team:text") as one:
        for _ in range(2):
            status, page = await one.act(f"{path}/actions/deprecate", request_id="deprecate-1", reason="old")
            assert (status, 'class="done"' in page) == (200, True)
        status, page = await one.act(f"{path}/actions/deprecate", request_id="deprecate-2", reason="old")
        assert status == 409
        assert "Not now" in page
        history = (await one.json(f"{path}.json"))["history"]
        assert [line["action"] for line in history].count("deprecate version") == 1


async def test_who_proposed_with_a_token_does_not_approve_with_a_session(
    world: ServerWorld, served: Served, team: PlatformClient
) -> None:
    """A session is the same person as its token; another person approves on the feature's page."""
    world.publish(team, "text_15", "1.0.0")
    with world.client(served, "operator") as operator:
        operator.set_rules("text_15", FeatureRules(must_approve_aliases=True))
    proposal = team.set_alias("text_15", "stable", "1.0.0", reason="for a test")
    assert isinstance(proposal, AliasProposal)
    address = f"/features/text_15/actions/approve-{proposal.proposal_id}"
    async with person(world, served, "team:text") as proposer:
        status, page = await proposer.act(address, request_id="approve-01")
        assert (status, "Not allowed" in page) == (403, True)
    async with person(world, served, "operator") as other:
        assert address in (await other.get("/features/text_15"))[1]
        status, page = await other.act(address, request_id="approve-02")
        assert (status, "The alias has moved" in page) == (200, True)
    assert [one.alias for one in team.aliases("text_15").aliases] == ["stable"]


async def test_markup_in_what_people_write_is_shown_as_text(
    world: ServerWorld, served: Served, team: PlatformClient
) -> None:
    """Card, tags, reasons, filters, names in addresses, errors: no page has an element that no template wrote."""
    hostile = "\n\n".join(f"# {text}\n\n- {text}\n\n[{text}]({text})" for text in XSS)
    package = create_package(
        feature="text_16",
        team="text",
        version="1.0.0",
        programs={"f32": b"program with a hostile card"},
        card=hostile,
        verifier=FakeVerifier(),
    )
    for data in package.blobs().values():
        team.upload_blob(data)
    team.publish_version(world.sign(package), package.manifest.to_bytes())
    team.validate_version("text_16", "1.0.0")
    team.release_version("text_16", "1.0.0", reason=XSS[0])
    for number, text in enumerate(text for text in XSS if text.isprintable()):
        team.set_tag("text_16", "1.0.0", f"tag{number}", text)
        team.set_alias("text_16", f"alias{number}", "1.0.0", reason=text)
    async with person(world, served, "team:text") as one:
        pages = [(await one.get("/features/text_16/versions/1.0.0"))[1], (await one.get("/features/text_16"))[1]]
        for text in XSS:
            async with one.http.get(one.url + "/features", params={"text": text, "team": text, "page": text}) as answer:
                pages.append(await answer.text())
            async with one.http.get(one.url + "/features/text_16", params={"text": text, "done": text}) as answer:
                pages.append(await answer.text())
            async with one.http.get(one.url + f"/{text}") as answer:
                pages.append(await answer.text())
            async with one.http.get(
                one.url + "/features/text_16/versions/1.0.0/compare", params={"with": text}
            ) as answer:
                pages.append(await answer.text())
            fields = {"request_id": text, "reason": text, "alias": text, "confirmation": text, "theme": text}
            actions = [f"/features/text_16/versions/1.0.0/actions/{name}" for name in ("alias", "revoke", "release")]
            pages += [(await one.act(path, **fields))[1] for path in (*actions, "/theme")]
        for page in pages:
            assert Markup(page).faults == []
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages[0]
        assert "{{ 7 * 7 }}" in pages[0]


async def test_colors_are_kept_in_a_cookie(world: ServerWorld, served: Served) -> None:
    """And only those that there are."""
    async with person(world, served, "reader") as one:
        status, page = await one.act("/theme", theme="dark", next="/features")
        assert (status, 'data-theme="dark"' in page) == (200, True)
        assert (await one.act("/theme", theme="pink"))[0] == 400
        assert 'data-theme="dark"' in (await one.get("/"))[1]
