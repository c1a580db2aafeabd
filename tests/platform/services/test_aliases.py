"""Aliases move, are approved by a second person and forget nothing; tags come and go; each says who."""

from collections.abc import Callable

import pytest
from alcove.platform.client import (
    AliasMove,
    AliasProposal,
    FailedPreconditionError,
    FeatureRules,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    PlatformClient,
)
from alcove.platform.domain.limits import ALIASES_MAX, TAGS_MAX
from alcove.platform.services.auth.local import create_local_token, list_local_audit
from alcove.platform.store import Store
from alcove.platform.testing import Served, ServerWorld
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError


@pytest.fixture
def versions(world: ServerWorld, team: PlatformClient, feature: str) -> str:
    """A feature with the versions 1.0.0, 2.0.0 and 3.0.0."""
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        world.publish(team, feature, version)
    return feature


@pytest.fixture
def other_member(world: ServerWorld, served: Served) -> PlatformClient:
    """Another member of the team `text`, with a token of their own."""
    token, _ = create_local_token(world.data_dir, "team:text")
    return PlatformClient(served.grpc_address, token)


def path(moves: list[AliasMove]) -> list[tuple[str, str]]:
    """Where an alias went."""
    return [(move.from_version, move.to_version) for move in moves]


def test_an_alias_moves_and_every_move_stays(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, versions: str
) -> None:
    """Set, moved, taken away, set again: found by the alias now, and every move with who, when and why."""
    for version, why in (("1.0.0", "first"), ("2.0.0", "better"), ("1.0.0", "it was not")):
        move = team.set_alias(versions, "production", version, reason=why)
        assert isinstance(move, AliasMove)
        assert (move.to_version, move.reason, move.approved_by) == (version, why, "")
        assert operator.version_details(versions, alias="production").version.version == version
        assert operator.version(versions, version)[0].aliases == ("production",)
    team.set_alias(versions, "canary", "3.0.0", reason="try")
    team.remove_alias(versions, "production", reason="over")
    with pytest.raises(NotFoundError, match=f"{versions}@production"):
        operator.version_details(versions, alias="production")
    team.set_alias(versions, "production", "3.0.0", reason="again")
    moves = operator.alias_moves(versions, "production")
    assert path(moves) == [("", "1.0.0"), ("1.0.0", "2.0.0"), ("2.0.0", "1.0.0"), ("1.0.0", ""), ("", "3.0.0")]
    assert [move.reason for move in moves] == ["first", "better", "it was not", "over", "again"]
    assert all(move.moved_by.startswith("team:text/") and move.moved_at_s > 0 for move in moves)
    assert [(move.alias, move.to_version) for move in operator.aliases(versions).aliases] == [
        ("canary", "3.0.0"),
        ("production", "3.0.0"),
    ]
    assert len(operator.alias_moves(versions)) == 6
    audited = [entry.action for entry in list_local_audit(world.data_dir) if entry.subject == f"{versions}@production"]
    assert audited == ["move alias"] * 5


def test_pointing_it_where_it_points_is_no_move(team: PlatformClient, versions: str) -> None:
    """The last move is the answer, and there is one."""
    first = team.set_alias(versions, "production", "1.0.0", reason="first")
    assert team.set_alias(versions, "production", "1.0.0", reason="once more") == first
    assert len(team.alias_moves(versions)) == 1


def test_a_repeated_request_moves_once(team: PlatformClient, versions: str) -> None:
    """The same id gives the stored answer, though the alias has moved on."""
    first = team.set_alias(versions, "a", "1.0.0", reason="x", request_id=f"set-{versions}")
    team.set_alias(versions, "a", "2.0.0", reason="x")
    assert team.set_alias(versions, "a", "1.0.0", reason="x", request_id=f"set-{versions}") == first
    assert path(team.alias_moves(versions)) == [("", "1.0.0"), ("1.0.0", "2.0.0")]


def test_a_second_person_approves_where_the_feature_asks_for_it(
    team: PlatformClient, other_member: PlatformClient, operator: PlatformClient, versions: str
) -> None:
    """A proposal moves nothing; its proposer cannot approve it, another member of the team can; the move names both."""
    operator.set_rules(versions, FeatureRules(must_approve_aliases=True))
    proposal = team.set_alias(versions, "production", "1.0.0", reason="first")
    assert isinstance(proposal, AliasProposal)
    assert operator.aliases(versions).aliases == ()
    assert operator.aliases(versions).proposals == (proposal,)
    with pytest.raises(NotFoundError):
        operator.version_details(versions, alias="production")
    with pytest.raises(PermissionDeniedError, match="somebody else must approve it"):
        team.approve_alias(proposal.proposal_id)
    with other_member:
        move = other_member.approve_alias(proposal.proposal_id)
    assert (move.to_version, move.reason) == ("1.0.0", "first")
    assert move.moved_by == proposal.proposed_by
    assert move.approved_by.startswith("team:text/")
    assert move.approved_by != move.moved_by
    assert operator.version_details(versions, alias="production").version.version == "1.0.0"
    assert operator.aliases(versions).proposals == ()
    with pytest.raises(FailedPreconditionError, match="propose again"):
        operator.approve_alias(proposal.proposal_id)
    removal = team.remove_alias(versions, "production", reason="over")
    assert isinstance(removal, AliasProposal)
    assert operator.approve_alias(removal.proposal_id).to_version == ""
    assert operator.aliases(versions).aliases == ()


def test_a_proposal_is_stale_once_the_alias_moved(
    team: PlatformClient, operator: PlatformClient, versions: str
) -> None:
    """Of two proposals the one that is approved first wins; the other never undoes it unseen."""
    operator.set_rules(versions, FeatureRules(must_approve_aliases=True))
    proposals = [team.set_alias(versions, "production", version, reason="x") for version in ("1.0.0", "2.0.0")]
    first, second = (item.proposal_id for item in proposals if isinstance(item, AliasProposal))
    operator.approve_alias(second)
    with pytest.raises(FailedPreconditionError, match=first) as refusal:
        operator.approve_alias(first)
    assert refusal.value.kind == "StaleProposalError"
    assert path(operator.alias_moves(versions)) == [("", "2.0.0")]


def test_another_team_cannot_approve(
    client: Callable[[str], PlatformClient], team: PlatformClient, operator: PlatformClient, versions: str
) -> None:
    """The second person is of the team, or an operator."""
    operator.set_rules(versions, FeatureRules(must_approve_aliases=True))
    proposal = team.set_alias(versions, "production", "1.0.0", reason="x")
    assert isinstance(proposal, AliasProposal)
    with pytest.raises(PermissionDeniedError, match="team 'text'"):
        client("team:speech").approve_alias(proposal.proposal_id)
    assert operator.aliases(versions).aliases == ()


def test_a_version_revoked_since_is_not_approved(team: PlatformClient, operator: PlatformClient, versions: str) -> None:
    """An alias that pointed to it before stays, and shows what it points to."""
    team.set_alias(versions, "old", "1.0.0", reason="x")
    operator.set_rules(versions, FeatureRules(must_approve_aliases=True))
    proposal = team.set_alias(versions, "production", "1.0.0", reason="x")
    assert isinstance(proposal, AliasProposal)
    team.revoke_version(versions, "1.0.0", reason="it lies")
    with pytest.raises(FailedPreconditionError, match="is revoked"):
        operator.approve_alias(proposal.proposal_id)
    assert operator.version_details(versions, alias="old").version.state == "revoked"


def test_what_names_nothing_is_not_found(team: PlatformClient, shared_feature: str) -> None:
    """Aliases, features and proposals that there are not."""
    with pytest.raises(NotFoundError, match=f"{shared_feature}@nothing"):
        team.remove_alias(shared_feature, "nothing", reason="x")
    with pytest.raises(NotFoundError, match="no feature named 'nothing'"):
        team.set_alias("nothing", "a", "1.0.0", reason="x")
    with pytest.raises(NotFoundError, match="no proposal named 'ap-0'"):
        team.approve_alias("ap-0")
    with pytest.raises(InvalidRequestError, match="exactly one of version and alias"):
        team.version_details(shared_feature)
    with pytest.raises(InvalidRequestError, match="exactly one of version and alias"):
        team.version_details(shared_feature, version="1.0.0", alias="a")


def test_a_feature_has_so_many_aliases_and_a_version_so_many_tags(team: PlatformClient, versions: str) -> None:
    """The bound and the number are reported; moving or changing what is there stays possible."""
    for number in range(max(ALIASES_MAX, TAGS_MAX)):
        if number < ALIASES_MAX:
            team.set_alias(versions, f"a{number}", "1.0.0", reason="x")
        if number < TAGS_MAX:
            team.set_tag(versions, "1.0.0", f"k{number}", "v")
    with pytest.raises(InvalidRequestError, match=f"at most {ALIASES_MAX} aliases of a feature, got {ALIASES_MAX + 1}"):
        team.set_alias(versions, "one-more", "1.0.0", reason="x")
    with pytest.raises(InvalidRequestError, match=f"at most {TAGS_MAX} tags of a version, got {TAGS_MAX + 1}"):
        team.set_tag(versions, "1.0.0", "one-more", "v")
    team.set_alias(versions, "a0", "2.0.0", reason="x")
    assert len(team.set_tag(versions, "1.0.0", "k0", "w").tags) == TAGS_MAX


def test_tags_come_and_go_and_say_who_set_them(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, versions: str
) -> None:
    """Set, changed, removed; the version lists them by key, the audit log keeps what was before."""
    team.set_tag(versions, "1.0.0", "quality.suite", "passed")
    tagged = team.set_tag(versions, "1.0.0", "owner", "Ana María ✓")
    assert [(tag.key, tag.value) for tag in tagged.tags] == [("owner", "Ana María ✓"), ("quality.suite", "passed")]
    assert all(tag.set_by.startswith("team:text/") and tag.set_at_s > 0 for tag in tagged.tags)
    team.set_tag(versions, "1.0.0", "owner", "Ben")
    assert [tag.key for tag in team.remove_tag(versions, "1.0.0", "quality.suite").tags] == ["owner"]
    assert operator.version(versions, "1.0.0")[0].tags[0].value == "Ben"
    assert operator.version(versions, "2.0.0")[0].tags == ()
    with pytest.raises(NotFoundError, match=f"{versions} 1.0.0 quality.suite"):
        team.remove_tag(versions, "1.0.0", "quality.suite")
    entries = [entry for entry in list_local_audit(world.data_dir) if entry.subject == f"{versions} 1.0.0"]
    changes = [
        (entry.action, entry.details["key"], entry.details["before"])
        for entry in entries
        if entry.action.endswith("tag")
    ]
    assert changes == [
        ("set tag", "quality.suite", None),
        ("set tag", "owner", None),
        ("set tag", "owner", "Ana María ✓"),
        ("remove tag", "quality.suite", "passed"),
    ]


@pytest.mark.parametrize(
    "table", ["state_moves", "alias_moves", "alias_proposals", "validations", "feature_rules"]
)  # fmt: skip
async def test_histories_only_grow(store: Store, table: str) -> None:
    """Even with the connection: the database itself refuses to change or remove what happened."""
    rows = {
        "state_moves": "(1, 1, 'registered', 'validated', 'p', 1, 'r')",
        "alias_moves": "(1, 'f', 'a', NULL, '1.0.0', 'p', 1, 'r', NULL)",
        "alias_proposals": "(1, 'ap-1', 'f', 'a', 0, NULL, '1.0.0', 'p', 1, 'r')",
        "validations": "(1, 1, true, '[]', 'p', 1)",
        "feature_rules": "(1, 'f', '{}', 'p', 1)",
    }
    async with store.write() as session:
        await session.execute(text("INSERT INTO features VALUES ('f', 't')"))
        await session.execute(
            text("INSERT INTO versions VALUES (1, 'f', '1.0.0', '00', :manifest, 1)"), {"manifest": b""}
        )
        await session.execute(text(f"INSERT INTO {table} VALUES {rows[table]}"))
    for statement in (f"UPDATE {table} SET sequence = 2", f"DELETE FROM {table}"):
        with pytest.raises(DBAPIError, match="append-only"):
            async with store.write() as session:
                await session.execute(text(statement))
    async with store.read() as session:
        assert (await session.execute(text(f"SELECT count(*) FROM {table}"))).scalar() == 1
