"""Only the team's key can lift what a halt took away: one thing, for one app, up to one halt."""

import dataclasses

import pytest
from alcove.registry._tuf import CryptoSigner, Metadata, Targets
from alcove.registry.errors import MetadataError, MissingTargetError, PublishError, RollbackError, SignatureError
from alcove.registry.policy import Halt, HaltedVersion
from alcove.registry.reinstatements import FIELD, Reinstatement
from alcove.registry.rotation import Draft
from alcove.registry.testing import RepositoryFixture


def item(world: RepositoryFixture, version: str = "1.0.0") -> HaltedVersion:
    """A published version as a halt names it."""
    return HaltedVersion(feature="language_id", version=world.policy(1, version).features["language_id"].default)


def publish(world: RepositoryFixture, halt: Halt) -> None:
    """The server's next halt."""
    world.tree.publish_halt(halt.app, halt.to_bytes())


def lift(world: RepositoryFixture, serial: int, *, signer: CryptoSigner | None = None, is_frozen: bool = False) -> None:
    """The team lifts what halts of "messenger" up to a serial took away."""
    digest = None if is_frozen else item(world).version.manifest_sha256
    draft = Draft(world.tree.state(), now_s=world.clock.now_s())
    draft.lift("text", Reinstatement(app="messenger", feature="language_id", manifest_sha256=digest, serial=serial))
    change, _ = draft.draft().sign(signer or world.keys.teams["text"])
    world.tree.accept_change(change, world.keys.online)


@pytest.fixture
def halted(published: RepositoryFixture) -> RepositoryFixture:
    """Halt 1 takes 1.0.0 away and freezes the feature; a device has seen it."""
    publish(published, Halt(app="messenger", serial=1, halted=(item(published),), frozen=("language_id",)))
    assert published.client().halt("messenger").serial == 1
    return published


def test_team_lifts_and_the_next_halt_gives_back(halted: RepositoryFixture) -> None:
    """The lift alone changes nothing; the halt that follows it is accepted by tree and device."""
    lift(halted, 1)
    assert halted.client().halt("messenger").digests == {item(halted).version.manifest_sha256}
    publish(halted, Halt(app="messenger", serial=2, frozen=("language_id",)))
    for name in ("device", "new device"):
        assert halted.client(name).halt("messenger").digests == frozenset()
    with pytest.raises(PublishError, match="lifts nothing"):
        publish(halted, Halt(app="messenger", serial=3))
    lift(halted, 2, is_frozen=True)
    publish(halted, Halt(app="messenger", serial=3))
    assert halted.client().halt("messenger") == Halt(app="messenger", serial=3)
    assert halted.tree.check().is_sound


def test_halted_again_needs_a_new_lift(halted: RepositoryFixture) -> None:
    """A lift reaches as far as its serial; an old one gives nothing back of a later halt, on tree or device."""
    lift(halted, 1)
    publish(halted, Halt(app="messenger", serial=2, frozen=("language_id",)))
    again = Halt(app="messenger", serial=3, halted=(item(halted),), frozen=("language_id",))
    publish(halted, again)
    assert halted.client().halt("messenger") == again
    without = Halt(app="messenger", serial=4, frozen=("language_id",))
    with pytest.raises(PublishError, match="lifts nothing"):
        publish(halted, without)
    halted.misuse("halt", {"halt/messenger.json": without.to_bytes()})
    client = halted.client()
    client.refresh()
    with pytest.raises(RollbackError):
        client.halt("messenger")
    assert halted.client().read_stored_halt("messenger") == again


@pytest.mark.parametrize(
    "wrong",
    [
        {"app": "keyboard"},
        {"manifest_sha256": "0" * 64},
        {"manifest_sha256": None},
        {"feature": "tagging"},
    ],
)
def test_lift_of_something_else_gives_nothing_back(halted: RepositoryFixture, wrong: dict[str, str | None]) -> None:
    """Another app, version or feature, or the freezing in the place of the version."""
    fields = {"app": "messenger", "feature": "language_id", "manifest_sha256": item(halted).version.manifest_sha256}
    wanted = Reinstatement.model_validate({**fields, "serial": 1, **wrong})
    team = "speech" if wanted.feature == "tagging" else "text"
    draft = Draft(halted.tree.state(), now_s=halted.clock.now_s())
    draft.lift(team, wanted)
    change, _ = draft.draft().sign(halted.keys.teams[team])
    halted.tree.accept_change(change, halted.keys.online)
    without = Halt(app="messenger", serial=2, frozen=("language_id",))
    with pytest.raises(PublishError, match="lifts nothing"):
        publish(halted, without)
    halted.misuse("halt", {"halt/messenger.json": without.to_bytes()})
    client = halted.client()
    client.refresh()
    with pytest.raises(RollbackError):
        client.halt("messenger")


def test_only_the_teams_key_lifts(halted: RepositoryFixture) -> None:
    """Every other key of the tree, alone: the change is refused, or the key has nothing to sign."""
    ring = halted.keys
    online = [getattr(ring.online, field.name) for field in dataclasses.fields(ring.online)]
    for signer in (ring.root, ring.targets, ring.teams["speech"], *online):
        with pytest.raises((PublishError, SignatureError)):
            lift(halted, 1, signer=signer)
    draft = Draft(halted.tree.state(), now_s=halted.clock.now_s())
    with pytest.raises(PublishError, match="does not own"):
        draft.lift("speech", Reinstatement(app="messenger", feature="language_id", serial=1))
    with pytest.raises(MissingTargetError):
        draft.lift("vision", Reinstatement(app="messenger", feature="language_id", serial=1))
    lift(halted, 1)


def test_lift_is_never_taken_back_and_a_push_keeps_it(halted: RepositoryFixture) -> None:
    """Neither by a push nor by hand; the same lift again is nothing to sign."""
    lift(halted, 1)
    halted.push(halted.package("2.0.0"))
    with pytest.raises(PublishError, match="lifted already"):
        lift(halted, 1)
    metadata: Metadata[Targets] = Metadata.from_bytes(halted.tree.team_metadata("text"))
    metadata.signed.version += 1
    del metadata.signed.unrecognized_fields[FIELD]
    metadata.sign(halted.keys.teams["text"])
    with pytest.raises(PublishError, match="takes back"):
        halted.tree.accept_team_metadata(metadata.to_bytes(), {})


@pytest.mark.parametrize("value", [{}, "all", [{}], [{"app": "a", "feature": "b", "serial": 0}], [1], None, 5])
def test_malformed_lifts_are_typed(halted: RepositoryFixture, value: object) -> None:
    """Neither published nor signed on top of."""
    metadata: Metadata[Targets] = Metadata.from_bytes(halted.tree.team_metadata("text"))
    metadata.signed.version += 1
    metadata.signed.unrecognized_fields[FIELD] = value
    metadata.sign(halted.keys.teams["text"])
    with pytest.raises(MetadataError, match=FIELD):
        halted.tree.accept_team_metadata(metadata.to_bytes(), {})
