"""A team's floor withdraws old versions for good, whatever the policy key signs or a stolen server serves."""

import pytest
from alcove.registry._tuf import Metadata, Targets
from alcove.registry.errors import MetadataError, PublishError, RollbackError, SignatureError
from alcove.registry.min_versions import FIELD
from alcove.registry.team import sign_min_version
from alcove.registry.testing import RepositoryFixture

YEAR_S = 365 * 86_400


def floor(world: RepositoryFixture, min_version: str, *, team: str = "text", feature: str = "language_id") -> bytes:
    """The team's next metadata with a floor."""
    return sign_min_version(
        world.tree.team_metadata(team),
        team=team,
        feature=feature,
        min_version=min_version,
        signer=world.keys.teams[team],
        expires_s=world.clock.now_s() + YEAR_S,
    )


@pytest.fixture
def two(published_repository: RepositoryFixture) -> RepositoryFixture:
    """Versions 1.0.0 and 2.0.0; policy 1 runs 1.0.0."""
    published_repository.push(published_repository.package("2.0.0"))
    return published_repository


def test_device_refuses_a_version_below_the_floor(two: RepositoryFixture) -> None:
    """Though it is signed and the policy still names it; versions at the floor go on."""
    client = two.client()
    assert client.min_version("language_id") is None
    client.manifest("language_id", "1.0.0")
    assert two.tree.accept_team_metadata(floor(two, "2.0.0"), {}, team="text").added == ()
    client.refresh()
    assert client.min_version("language_id") == "2.0.0"
    with pytest.raises(RollbackError, match=r"1\.0\.0 is below the team's minimum version 2\.0\.0"):
        client.manifest("language_id", "1.0.0")
    assert client.manifest("language_id", "2.0.0").version == "2.0.0"
    assert client.min_version("bandwidth") is None
    assert client.min_version("unknown") is None


def test_policy_below_the_floor_is_not_published_and_is_found_by_the_check(two: RepositoryFixture) -> None:
    """A policy from before the floor is a problem until its successor."""
    two.tree.accept_team_metadata(floor(two, "1.5.0"), {})
    with pytest.raises(PublishError, match=r"below the team's minimum version 1\.5\.0"):
        two.tree.publish_policy("messenger", two.policy(2, "1.0.0").to_bytes())
    assert [problem.thing for problem in two.tree.check().problems] == ["policy/messenger.json"]
    two.tree.publish_policy("messenger", two.policy(2, "2.0.0").to_bytes())
    assert two.tree.check().is_sound


def test_floor_only_rises(two: RepositoryFixture) -> None:
    """The team's side refuses to sign a lower one, the tree to publish it; a push keeps it."""
    two.tree.accept_team_metadata(floor(two, "1.5.0"), {})
    with pytest.raises(PublishError, match="never falls"):
        floor(two, "1.4.9")
    assert floor(two, "1.5.0") == two.tree.team_metadata("text")
    two.push(two.package("3.0.0"))
    assert two.client().min_version("language_id") == "1.5.0"
    for parse_min_versions in ({}, {"language_id": "1.4.9"}):
        metadata: Metadata[Targets] = Metadata.from_bytes(two.tree.team_metadata("text"))
        metadata.signed.version += 1
        metadata.signed.unrecognized_fields[FIELD] = parse_min_versions
        metadata.sign(two.keys.teams["text"])
        with pytest.raises(PublishError, match="lowers the minimum version"):
            two.tree.accept_team_metadata(metadata.to_bytes(), {})
    two.tree.accept_team_metadata(floor(two, "2.0.0"), {})


@pytest.mark.parametrize("value", [[], "1.0.0", {"language_id": 1}, {"language_id": "1"}, {"policy": "1.0.0"}, None])
def test_malformed_floors_are_typed(two: RepositoryFixture, value: object) -> None:
    """Neither published nor signed on top of."""
    metadata: Metadata[Targets] = Metadata.from_bytes(two.tree.team_metadata("text"))
    metadata.signed.version += 1
    metadata.signed.unrecognized_fields[FIELD] = value
    metadata.sign(two.keys.teams["text"])
    with pytest.raises(MetadataError, match=FIELD):
        two.tree.accept_team_metadata(metadata.to_bytes(), {})


def test_floor_is_signed_only_on_the_teams_own_metadata(two: RepositoryFixture) -> None:
    """Another team's metadata, or a version that is none."""
    with pytest.raises(SignatureError):
        sign_min_version(
            two.tree.team_metadata("speech"),
            team="text",
            feature="language_id",
            min_version="1.0.0",
            signer=two.keys.teams["text"],
            expires_s=two.clock.now_s() + YEAR_S,
        )
    with pytest.raises(MetadataError):
        floor(two, "latest")
