"""Trust, health, audit log and home in the console: what they show, to whom, and where they lead, over HTTP."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from alcove.platform.client import AliasProposal, FeatureRules, PlatformClient, Trust
from alcove.platform.console.expiry import needs_people, validity_of_role, words_of
from alcove.platform.console.links import path_of_object
from alcove.platform.testing import Served, ServerWorld

from tests.platform.console.conftest import ROLES, person
from tests.platform.console.test_pages import XSS, Markup

DAY_S = 86_400
PATHS = ("/", "/trust", "/health", "/audit")


@pytest.fixture(scope="module")
def team(world: ServerWorld, served: Served) -> Iterator[PlatformClient]:
    """A client of the team."""
    with world.client(served, "team:text") as client:
        yield client


@pytest.fixture(scope="module")
def proposal(world: ServerWorld, served: Served, team: PlatformClient) -> AliasProposal:
    """A move of an alias that waits for a second person."""
    world.publish(team, "text_30")
    with world.client(served, "operator") as operator:
        operator.set_rules("text_30", FeatureRules(must_approve_aliases=True))
    made = team.set_alias("text_30", "stable", "1.0.0", reason=XSS[0])
    assert isinstance(made, AliasProposal)
    return made


async def test_everybody_reads_each_page_and_only_operators_of_everything_read_details(
    world: ServerWorld, served: Served, proposal: AliasProposal
) -> None:
    """Each page for people and programs, of every role; no page has an element that no template wrote."""
    assert proposal.alias == "stable"
    for role in ROLES:
        async with person(world, served, role) as one:
            for path in PATHS:
                status, page = await one.get(path)
                assert (status, Markup(page).faults) == (200, []), (role, path)
            health = await one.json("/health.json")
            assert {check["name"] for check in health["checks"]} >= {"database", "object store", "alert deliveries"}
            assert str(world.folder) not in str(health)
            assert served.grpc_address not in str(health)


async def test_trust_shows_each_role_with_its_keys_and_who_renews_it(
    world: ServerWorld, served: Served, proposal: AliasProposal
) -> None:
    """The offline roles by a command, the online ones by the server; a team by its features."""
    assert proposal.feature == "text_30"
    async with person(world, served, "reader") as one:
        trust = await one.json("/trust.json")
        roles = {role["role"]: role for role in trust["roles"]}
        assert list(roles) == ["root", "targets", "snapshot", "timestamp", "policy", "halt", "team-speech", "team-text"]
        assert {role["validity"] for role in roles.values()} == {"valid"}
        assert roles["root"]["renewal_command"].startswith("alcove keys renew root.change")
        assert roles["timestamp"]["renewal_command"] == ""
        assert roles["team-text"]["targets"] == trust["tree"]["versions"] >= 1
        assert all(key["has_signed"] for role in roles.values() for key in role["keys"])
        _, page = await one.get("/trust")
        assert "No signature that people renew ends within 30 days" in page
        assert "/features/text_00" in page


async def test_home_leads_to_where_a_waiting_move_of_an_alias_is_approved(
    world: ServerWorld, served: Served, proposal: AliasProposal
) -> None:
    """A team sees its own alone; what waits links to the feature's page."""
    async with person(world, served, "operator") as one:
        data = await one.json("/index.json")
        assert proposal.proposal_id in {each["proposal_id"] for each in data["alias_proposals"]}
        assert data["ending"] == []
        _, page = await one.get("/")
        assert '<a href="/features/text_30">text_30@stable</a>' in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    async with person(world, served, "team:speech") as other:
        assert (await other.json("/index.json"))["alias_proposals"] == []


async def test_the_audit_log_is_searched_by_words_person_action_object_and_day(
    world: ServerWorld, served: Served, proposal: AliasProposal
) -> None:
    """The address has the filters; each entry leads to its page; what is no day is refused in a sentence."""
    assert proposal.reason == XSS[0]
    async with person(world, served, "reader") as one:

        async def subjects(query: str) -> set[tuple[str, str]]:
            found = await one.json(f"/audit.json?{query}")
            return {(row["action"], row["object"]) for row in found["rows"]}

        wanted = ("propose alias", "text_30@stable")
        assert await subjects(f"text={quote('ALERT(1) stable')}&action=alias") >= {wanted}
        assert await subjects("object=text_30%401") == set()
        assert await subjects("object=text_30%40stable") == {wanted}
        assert await subjects("by=team:text/&action=propose") >= {wanted}
        assert await subjects("by=operator/&object=text_30%40stable") == set()
        assert await subjects("until=2020-01-01") == set()
        assert await subjects("since=2020-01-01&text=stable") >= {wanted}
        _, page = await one.get("/audit?object=text_30%40stable")
        assert '<a href="/features/text_30">text_30@stable</a>' in page
        assert "reason: &lt;script&gt;alert(1)&lt;/script&gt;" in page
        for text in XSS:
            for name in ("text", "by", "action", "object", "page", "since"):
                _, page = await one.get(f"/audit?{name}={quote(text)}")
                assert Markup(page).faults == [], (name, text)
        status, page = await one.get("/audit?since=yesterday")
        assert (status, "expected a day such as 2026-11-30" in page) == (400, True)


@pytest.mark.parametrize(
    ("action", "subject", "path"),
    [
        ("halt rollout", "ro-0a1b2c", "/rollouts/ro-0a1b2c"),
        ("delete rollout", "ro-0a1b2c", ""),
        ("stop experiment", "ex-0a1b2c", "/experiments/ex-0a1b2c"),
        ("release version", "text_00 1.2.3", "/features/text_00/versions/1.2.3"),
        ("set rules", "text_00", "/features/text_00"),
        ("create metric", "text_00/clicks", "/features/text_00"),
        ("set holdout", "mail", "/policies/mail"),
        ("override values", "mail/text_00", "/policies/mail"),
        ("create token", "0a1b", "/trust"),
        ("halt rollout", "ro-../../x", ""),
        ("set rules", "javascript:alert(1)", ""),
    ],
)
def test_an_entry_leads_to_the_page_of_its_object(action: str, subject: str, path: str) -> None:
    """And nowhere where it has none, or its name is not one of ours."""
    assert path_of_object(action, subject) == path


def test_people_are_warned_a_month_before_and_of_the_servers_own_when_it_is_late() -> None:
    """30 days and 7 days before the end of what people sign; a quarter of the life of what the server signs."""

    def trust(root_left_s: int, timestamp_left_s: int) -> Trust:
        now_s = 2_000_000_000
        common = {"threshold": 1, "keys": (), "version": 1, "targets": 0, "features": ()}
        roles = [
            {"role": "root", "holder": "offline", "signed_at_s": 1, "expires_at_s": now_s + root_left_s, **common},
            {
                "role": "timestamp",
                "holder": "online",
                "signed_at_s": now_s + timestamp_left_s - DAY_S,
                "expires_at_s": now_s + timestamp_left_s,
                **common,
            },
        ]
        tree = dict.fromkeys(("metadata_bytes", "snapshot_bytes", "targets", "target_bytes", "versions"), 0)
        tokens = dict.fromkeys(("valid", "expiring", "next_expires_at_s"), 0)
        made = {"roles": roles, "tree": tree, "tokens": tokens, "certificate_expires_at_s": 0, "now_s": now_s}
        return Trust.model_validate(made)

    def warnings(root_left_s: int, timestamp_left_s: int) -> list[tuple[str, str]]:
        found = trust(root_left_s, timestamp_left_s)
        return [(role.role, validity_of_role(role, found.now_s)) for role in needs_people(found)]

    assert warnings(31 * DAY_S, 12 * 3600) == []
    assert warnings(30 * DAY_S, 12 * 3600) == [("root", "ends soon")]
    assert warnings(7 * DAY_S, 12 * 3600) == [("root", "ends this week")]
    assert warnings(-1, 5 * 3600) == [("root", "expired"), ("timestamp", "not renewed")]
    assert (words_of(3 * DAY_S), words_of(-3600)) == ("in 3 days", "1 hour ago")
