"""The server publishes policies, halts and renewals with its own keys, and refuses what these must not sign."""

import threading
from pathlib import Path

import pytest
from alcove.registry import layout, limits
from alcove.registry.errors import (
    DocumentError,
    DocumentTooLargeError,
    MissingTargetError,
    PublishError,
    ReadOnlyRepositoryError,
    StaleMetadataError,
    StorageError,
)
from alcove.registry.policy import FeaturePolicy, Halt, HaltedVersion, Policy, VersionRef
from alcove.registry.repository import Repository, initialize_repository
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.testing_seams import ManualClock


def signed_files(world: RepositoryFixture) -> dict[Path, bytes]:
    """Every file a client may read."""
    folder = world.tree.folder
    return {
        path: path.read_bytes()
        for part in (layout.METADATA, layout.TARGETS)
        for path in (folder / part).rglob("*")
        if path.is_file()
    }


def test_policy_is_published_once_and_its_serial_only_rises(published_repository: RepositoryFixture) -> None:
    """The same bytes change nothing; an equal or lower serial is refused."""
    tree = published_repository.tree
    before = signed_files(published_repository)
    assert not tree.publish_policy("messenger", published_repository.policy(1).to_bytes())
    assert signed_files(published_repository) == before
    assert tree.publish_policy("messenger", published_repository.policy(5).to_bytes())
    changed = published_repository.policy(5).model_copy(update={"features": {}})
    for document in (changed, published_repository.policy(4)):
        with pytest.raises(StaleMetadataError) as caught:
            tree.publish_policy("messenger", document.to_bytes())
        assert caught.value.expected_version == 6
    assert tree.policy("messenger") == published_repository.policy(5)
    assert tree.policy("keyboard") is None
    assert tree.publish_policy("keyboard", published_repository.policy(1, app="keyboard").to_bytes())
    assert tree.policy("messenger") == published_repository.policy(5)


def test_policy_that_names_an_unsigned_version_is_refused(published_repository: RepositoryFixture) -> None:
    """Unknown number, other digest, other feature, other app, malformed or oversize."""
    good = published_repository.policy(2)
    digest = good.features["language_id"].default.manifest_sha256

    def make_policy_naming(feature: str, version: str, manifest_sha256: str) -> bytes:
        default = VersionRef(version=version, manifest_sha256=manifest_sha256)
        rules = FeaturePolicy(min_version="0.0.1", default=default)
        return Policy(app="messenger", serial=2, features={feature: rules}).to_bytes()

    before = signed_files(published_repository)
    for data in (
        make_policy_naming("language_id", "2.0.0", digest),
        make_policy_naming("language_id", "1.0.0", "0" * 64),
        make_policy_naming("bandwidth", "1.0.0", digest),
    ):
        with pytest.raises(PublishError, match="no team has signed"):
            published_repository.tree.publish_policy("messenger", data)
    with pytest.raises(PublishError, match="'messenger', not 'keyboard'"):
        published_repository.tree.publish_policy("keyboard", good.to_bytes())
    with pytest.raises(DocumentError):
        published_repository.tree.publish_policy("messenger", good.to_bytes() + b" ")
    with pytest.raises(DocumentTooLargeError):
        published_repository.tree.publish_policy("messenger", b" " * (limits.POLICY_MAX_BYTES + 1))
    assert signed_files(published_repository) == before


def test_halt_cannot_be_lifted_by_its_own_key(published_repository: RepositoryFixture) -> None:
    """Each halt names all that the one before took away."""
    ref = published_repository.policy(1).features["language_id"].default
    item = HaltedVersion(feature="language_id", version=ref)
    tree = published_repository.tree
    assert tree.halt("messenger") is None
    halt = Halt(app="messenger", serial=1, halted=(item,))
    assert tree.publish_halt("messenger", halt.to_bytes())
    assert not tree.publish_halt("messenger", halt.to_bytes())
    with pytest.raises(PublishError, match="reinstates nothing"):
        tree.publish_halt("messenger", Halt(app="messenger", serial=2).to_bytes())
    with pytest.raises(StaleMetadataError):
        tree.publish_halt("messenger", Halt(app="messenger", serial=1, frozen=("language_id",)).to_bytes())
    with pytest.raises(PublishError):
        tree.publish_halt("keyboard", halt.to_bytes())
    wider = Halt(app="messenger", serial=2, halted=(item,), frozen=("language_id",))
    assert tree.publish_halt("messenger", wider.to_bytes())
    assert tree.halt("messenger") == wider


def test_refresh_renews_what_is_half_spent_and_warns_of_the_rest(published_repository: RepositoryFixture) -> None:
    """Timestamp after half a day, snapshot after 3.5 days, policy and halt after 15; a warning 30 days ahead."""
    tree, clock = published_repository.tree, published_repository.clock
    assert tree.refresh().renewed == ()
    seen: dict[str, int] = {}
    for hour in range(6, 16 * 24, 6):
        clock.time_s += 6 * 3600
        refreshed = tree.refresh()
        assert refreshed.expiring == {}
        for role in refreshed.renewed:
            seen.setdefault(role, hour)
    assert seen == {"timestamp": 18, "snapshot": 90, "policy": 366, "halt": 366}
    clock.time_s += 320 * 86_400
    assert set(tree.refresh().expiring) == {"root", "targets", "team-text", "team-speech"}


def test_tree_without_keys_publishes_nothing(published_repository: RepositoryFixture) -> None:
    """Reading works; every publication names the missing key."""
    tree = Repository(published_repository.tree.folder, clock=published_repository.clock)
    assert tree.policy("messenger") == published_repository.policy(1)
    for call in (
        tree.refresh,
        lambda: tree.publish_policy("messenger", b""),
        lambda: tree.publish_halt("messenger", b""),
        lambda: tree.accept_team_metadata(b"", {}),
    ):
        with pytest.raises(ReadOnlyRepositoryError):
            call()


def test_second_ceremony_in_the_same_folder_is_refused(world: RepositoryFixture) -> None:
    """A tree is never replaced; a team without key is named."""
    with pytest.raises(PublishError, match="already"):
        initialize_repository(world.tree.folder, world.keys, world.TEAMS)
    with pytest.raises(PublishError, match="no key for: vision"):
        initialize_repository(world.folder / "other", world.keys, {"vision": ["segment"]})


def test_unknown_team_and_absent_tree_are_named(world: RepositoryFixture) -> None:
    """Typed errors with the thing in them."""
    with pytest.raises(MissingTargetError, match="team-vision"):
        world.tree.team_metadata("vision")
    with pytest.raises(MissingTargetError, match="team-vision"):
        world.tree.accept_team_metadata(world.tree.team_metadata("text"), {}, team="vision")
    absent = Repository(world.folder / "absent", keys=world.keys.online)
    with pytest.raises(StorageError, match=r"1\.root\.json"):
        absent.state()
    with pytest.raises(StorageError, match=r"\.lock"):
        absent.refresh()


def test_publications_at_once_happen_one_after_another(published_repository: RepositoryFixture) -> None:
    """Eight threads with the same eight policies: each serial is published at most once and the last one stands."""
    errors: list[BaseException] = []

    def publish(serials: range) -> None:
        for serial in serials:
            try:
                Repository(
                    published_repository.tree.folder, keys=published_repository.keys.online, clock=ManualClock()
                ).publish_policy("messenger", documents[serial])
            except StaleMetadataError:
                pass
            except BaseException as error:  # noqa: BLE001 - shown by the assertion below
                errors.append(error)

    documents = {serial: published_repository.policy(serial).to_bytes() for serial in range(2, 10)}
    threads = [threading.Thread(target=publish, args=(range(2, 10),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    state = published_repository.tree.state()
    assert state.roles["policy"].version == 2 + 8
    assert published_repository.tree.policy("messenger") == published_repository.policy(9)
    assert published_repository.tree.check().is_sound
