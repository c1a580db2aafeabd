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
    draft.reinstate(
        "text", Reinstatement(app="messenger", feature="language_id", manifest_sha256=digest, serial=serial)
    )
    change, _ = draft.draft().sign(signer or world.keys.teams["text"])
    world.tree.accept_request(change, world.keys.online)


@pytest.fixture
def halted_repository(published_repository: RepositoryFixture) -> RepositoryFixture:
    """Halt 1 takes 1.0.0 away and freezes the feature; a device has seen it."""
    publish(
        published_repository,
        Halt(app="messenger", serial=1, halted=(item(published_repository),), frozen=("language_id",)),
    )
    assert published_repository.client().halt("messenger").serial == 1
    return published_repository


def test_team_lifts_and_the_next_halt_gives_back(halted_repository: RepositoryFixture) -> None:
    """The lift alone changes nothing; the halt that follows it is accepted by tree and device."""
    lift(halted_repository, 1)
    assert halted_repository.client().halt("messenger").digests == {item(halted_repository).version.manifest_sha256}
    publish(halted_repository, Halt(app="messenger", serial=2, frozen=("language_id",)))
    for name in ("device", "new device"):
        assert halted_repository.client(name).halt("messenger").digests == frozenset()
    with pytest.raises(PublishError, match="reinstates nothing"):
        publish(halted_repository, Halt(app="messenger", serial=3))
    lift(halted_repository, 2, is_frozen=True)
    publish(halted_repository, Halt(app="messenger", serial=3))
    assert halted_repository.client().halt("messenger") == Halt(app="messenger", serial=3)
    assert halted_repository.tree.check().is_sound


def test_halted_again_needs_a_new_lift(halted_repository: RepositoryFixture) -> None:
    """A lift reaches as far as its serial; an old one gives nothing back of a later halt, on tree or device."""
    lift(halted_repository, 1)
    publish(halted_repository, Halt(app="messenger", serial=2, frozen=("language_id",)))
    again = Halt(app="messenger", serial=3, halted=(item(halted_repository),), frozen=("language_id",))
    publish(halted_repository, again)
    assert halted_repository.client().halt("messenger") == again
    without = Halt(app="messenger", serial=4, frozen=("language_id",))
    with pytest.raises(PublishError, match="reinstates nothing"):
        publish(halted_repository, without)
    halted_repository.misuse("halt", {"halt/messenger.json": without.to_bytes()})
    client = halted_repository.client()
    client.refresh()
    with pytest.raises(RollbackError):
        client.halt("messenger")
    assert halted_repository.client().read_stored_halt("messenger") == again


@pytest.mark.parametrize(
    "wrong",
    [
        {"app": "keyboard"},
        {"manifest_sha256": "0" * 64},
        {"manifest_sha256": None},
        {"feature": "tagging"},
    ],
)
def test_lift_of_something_else_gives_nothing_back(
    halted_repository: RepositoryFixture, wrong: dict[str, str | None]
) -> None:
    """Another app, version or feature, or the freezing in the place of the version."""
    fields = {
        "app": "messenger",
        "feature": "language_id",
        "manifest_sha256": item(halted_repository).version.manifest_sha256,
    }
    wanted = Reinstatement.model_validate({**fields, "serial": 1, **wrong})
    team = "speech" if wanted.feature == "tagging" else "text"
    draft = Draft(halted_repository.tree.state(), now_s=halted_repository.clock.now_s())
    draft.reinstate(team, wanted)
    change, _ = draft.draft().sign(halted_repository.keys.teams[team])
    halted_repository.tree.accept_request(change, halted_repository.keys.online)
    without = Halt(app="messenger", serial=2, frozen=("language_id",))
    with pytest.raises(PublishError, match="reinstates nothing"):
        publish(halted_repository, without)
    halted_repository.misuse("halt", {"halt/messenger.json": without.to_bytes()})
    client = halted_repository.client()
    client.refresh()
    with pytest.raises(RollbackError):
        client.halt("messenger")


def test_only_the_teams_key_lifts(halted_repository: RepositoryFixture) -> None:
    """Every other key of the tree, alone: the change is refused, or the key has nothing to sign."""
    ring = halted_repository.keys
    online = [getattr(ring.online, field.name) for field in dataclasses.fields(ring.online)]
    for signer in (ring.root, ring.targets, ring.teams["speech"], *online):
        with pytest.raises((PublishError, SignatureError)):
            lift(halted_repository, 1, signer=signer)
    draft = Draft(halted_repository.tree.state(), now_s=halted_repository.clock.now_s())
    with pytest.raises(PublishError, match="does not own"):
        draft.reinstate("speech", Reinstatement(app="messenger", feature="language_id", serial=1))
    with pytest.raises(MissingTargetError):
        draft.reinstate("vision", Reinstatement(app="messenger", feature="language_id", serial=1))
    lift(halted_repository, 1)


def test_lift_is_never_taken_back_and_a_push_keeps_it(halted_repository: RepositoryFixture) -> None:
    """Neither by a push nor by hand; the same lift again is nothing to sign."""
    lift(halted_repository, 1)
    halted_repository.push(halted_repository.package("2.0.0"))
    with pytest.raises(PublishError, match="reinstated already"):
        lift(halted_repository, 1)
    metadata: Metadata[Targets] = Metadata.from_bytes(halted_repository.tree.team_metadata("text"))
    metadata.signed.version += 1
    del metadata.signed.unrecognized_fields[FIELD]
    metadata.sign(halted_repository.keys.teams["text"])
    with pytest.raises(PublishError, match="takes back"):
        halted_repository.tree.accept_team_metadata(metadata.to_bytes(), {})


@pytest.mark.parametrize("value", [{}, "all", [{}], [{"app": "a", "feature": "b", "serial": 0}], [1], None, 5])
def test_malformed_lifts_are_typed(halted_repository: RepositoryFixture, value: object) -> None:
    """Neither published nor signed on top of."""
    metadata: Metadata[Targets] = Metadata.from_bytes(halted_repository.tree.team_metadata("text"))
    metadata.signed.version += 1
    metadata.signed.unrecognized_fields[FIELD] = value
    metadata.sign(halted_repository.keys.teams["text"])
    with pytest.raises(MetadataError, match=FIELD):
        halted_repository.tree.accept_team_metadata(metadata.to_bytes(), {})
