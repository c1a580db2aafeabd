"""A device refuses, by typed errors, what an attacker can serve or a misused key can sign; real bytes, no socket."""

from pathlib import Path

import pytest
from alcove.registry import layout, limits
from alcove.registry._tuf import Metadata, MetaFile, Snapshot, Timestamp
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import (
    DocumentError,
    DocumentTooLargeError,
    FetchError,
    IntegrityError,
    MetadataError,
    RegistryError,
    RollbackError,
    SignatureError,
    WrongSubjectError,
)
from alcove.registry.policy import Halt, HaltedVersion
from alcove.registry.signed_time import utc
from alcove.registry.testing import RepositoryFixture

DAY_S = 86_400
TIMESTAMP = "metadata/timestamp.json"


def read_everything(client: RepositoryClient, version: str = "1.0.0") -> None:
    """What a device does at a check-in."""
    client.policy("messenger")
    client.manifest("language_id", version)


def test_rolled_back_timestamp_is_refused(published_repository: RepositoryFixture) -> None:
    """An old, validly signed timestamp after a newer one."""
    old = (published_repository.tree.folder / TIMESTAMP).read_bytes()
    published_repository.tree.publish_policy("messenger", published_repository.policy(2).to_bytes())
    client = published_repository.client()
    assert client.policy("messenger").serial == 2
    published_repository.fetcher.replaced[TIMESTAMP] = old
    for again in (client, published_repository.client()):
        with pytest.raises(RollbackError):
            again.refresh()
    published_repository.fetcher.replaced.clear()
    client.refresh()


def test_rolled_back_snapshot_is_refused(published_repository: RepositoryFixture) -> None:
    """A stolen timestamp key points to an older snapshot, or to a younger one that lists older roles."""
    old = published_repository.tree.state().timestamp.snapshot_meta
    old_roles = dict(published_repository.tree.state().snapshot.meta)
    published_repository.tree.publish_policy("messenger", published_repository.policy(2).to_bytes())
    client = published_repository.client()
    client.policy("messenger")
    state = published_repository.tree.state()
    expires = utc(published_repository.clock.now_s() + DAY_S)

    timestamp = Metadata(Timestamp(version=state.timestamp.version + 1, expires=expires, snapshot_meta=old))
    timestamp.sign(published_repository.keys.online.timestamp)
    published_repository.fetcher.replaced[TIMESTAMP] = timestamp.to_bytes()
    with pytest.raises(RollbackError):
        client.refresh()

    without = {name: meta for name, meta in state.snapshot.meta.items() if name != "halt.json"}
    for step, meta in enumerate((old_roles, without), start=2):
        snapshot = Metadata(Snapshot(version=state.snapshot.version + 1, expires=expires, meta=meta))
        snapshot.sign(published_repository.keys.online.snapshot)
        link = MetaFile.from_data(snapshot.signed.version, snapshot.to_bytes(), ["sha256"])
        timestamp = Metadata(Timestamp(version=state.timestamp.version + step, expires=expires, snapshot_meta=link))
        timestamp.sign(published_repository.keys.online.timestamp)
        published_repository.fetcher.replaced[TIMESTAMP] = timestamp.to_bytes()
        published_repository.fetcher.replaced[f"metadata/{snapshot.signed.version}.snapshot.json"] = snapshot.to_bytes()
        with pytest.raises(RollbackError):
            published_repository.client().refresh()


def test_rolled_back_policy_serial_is_refused(published_repository: RepositoryFixture) -> None:
    """Newer metadata by the policy key with an older policy, or with two policies of one serial."""
    for serial in (2, 3):
        published_repository.tree.publish_policy("messenger", published_repository.policy(serial).to_bytes())
    client = published_repository.client()
    assert client.policy("messenger").serial == 3
    same_serial = published_repository.policy(3).model_copy(update={"features": {}})
    for document in (published_repository.policy(2), same_serial):
        published_repository.misuse("policy", {"policy/messenger.json": document.to_bytes()})
        for again in (client, published_repository.client()):
            again.refresh()
            with pytest.raises(RollbackError):
                again.policy("messenger")
        stored = client.read_stored_policy("messenger")
        assert stored is not None
        assert stored == published_repository.tree.policy("messenger") or stored.serial == 3
    published_repository.misuse("policy", {"policy/messenger.json": published_repository.policy(4).to_bytes()})
    client.refresh()
    assert client.policy("messenger").serial == 4


def test_halt_that_gives_back_or_disappears_is_refused(published_repository: RepositoryFixture) -> None:
    """A stolen halt key cannot lift a halt on a device that has seen it."""
    ref = published_repository.policy(1).features["language_id"].default
    halt = Halt(app="messenger", serial=1, halted=(HaltedVersion(feature="language_id", version=ref),))
    published_repository.tree.publish_halt("messenger", halt.to_bytes())
    client = published_repository.client()
    assert client.halt("messenger").digests == {ref.manifest_sha256}
    lifted = Halt(app="messenger", serial=2)
    for documents in ({"halt/messenger.json": lifted.to_bytes()}, {}):
        published_repository.misuse("halt", documents)
        client.refresh()
        with pytest.raises(RollbackError):
            client.halt("messenger")
    assert client.read_stored_halt("messenger") == halt


def test_mixed_states_are_refused(published_repository: RepositoryFixture) -> None:
    """Every file of an old state in the place of its successor, one at a time."""
    old = {path.name: path.read_bytes() for path in (published_repository.tree.folder / "metadata").iterdir()}
    before = published_repository.tree.state()
    published_repository.push(published_repository.package("2.0.0"))
    published_repository.tree.publish_policy("messenger", published_repository.policy(2, "2.0.0").to_bytes())
    after = published_repository.tree.state()
    pairs = {
        f"{after.snapshot.version}.snapshot.json": f"{before.snapshot.version}.snapshot.json",
        f"{after.roles['policy'].version}.policy.json": f"{before.roles['policy'].version}.policy.json",
        f"{after.roles['team-text'].version}.team-text.json": f"{before.roles['team-text'].version}.team-text.json",
    }
    for new_name, old_name in pairs.items():
        published_repository.fetcher.replaced = {f"metadata/{new_name}": old[old_name]}
        client = published_repository.client(f"device {new_name}")
        with pytest.raises((IntegrityError, RollbackError)):
            read_everything(client, "2.0.0")
    published_repository.fetcher.replaced = {}
    assert published_repository.client().policy("messenger").serial == 2


def test_metadata_signed_by_a_stranger_is_refused(published_repository: RepositoryFixture) -> None:
    """Timestamp signed with any other key of the tree, and a broken signature."""
    timestamp: Metadata[Timestamp] = Metadata.from_bytes((published_repository.tree.folder / TIMESTAMP).read_bytes())
    keys = published_repository.keys
    for signer in (keys.online.snapshot, keys.online.policy, keys.targets, keys.root, keys.teams["text"]):
        timestamp.signed.version += 1
        timestamp.sign(signer)
        published_repository.fetcher.replaced[TIMESTAMP] = timestamp.to_bytes()
        with pytest.raises(SignatureError) as caught:
            published_repository.client().refresh()
        assert caught.value.role == "timestamp"


def test_every_flipped_byte_of_a_manifest_is_refused(published_repository: RepositoryFixture) -> None:
    """Between the tree and the device; the right bytes are accepted afterwards."""
    manifest = published_repository.package().manifest
    path = layout.target_file(manifest.path, manifest.sha256)
    data = manifest.to_bytes()
    client = published_repository.client()
    client.refresh()
    for position in range(len(data)):
        altered = bytearray(data)
        altered[position] ^= 1
        published_repository.fetcher.replaced[path] = bytes(altered)
        with pytest.raises(IntegrityError) as caught:
            client.manifest("language_id", "1.0.0")
        assert (caught.value.thing, caught.value.expected) == (manifest.path, manifest.sha256)
    for altered_length in (data[:-1], b""):
        published_repository.fetcher.replaced[path] = altered_length
        with pytest.raises(IntegrityError):
            client.manifest("language_id", "1.0.0")
    published_repository.fetcher.replaced[path] = data + b"x"
    with pytest.raises(DocumentTooLargeError):
        client.manifest("language_id", "1.0.0")
    published_repository.fetcher.replaced.clear()
    assert client.manifest("language_id", "1.0.0") == manifest


def test_every_flipped_byte_of_the_signed_files_is_refused_or_harmless(published_repository: RepositoryFixture) -> None:
    """Timestamp, snapshot, targets, team and policy metadata, every seventh byte of each.

    Harmless are bytes outside of what is signed: the timestamp alone may be spelled otherwise, for nothing pins its
    digest; whatever a device accepts says the same.
    """
    expected = (published_repository.policy(1), published_repository.package().manifest)
    names = [path.name for path in (published_repository.tree.folder / "metadata").iterdir()]
    current = [
        "timestamp.json",
        f"{published_repository.tree.state().snapshot.version}.snapshot.json",
        "1.targets.json",
        "2.team-text.json",
        "2.policy.json",
    ]
    assert set(current) <= set(names)
    count = 0
    for name in current:
        data = (published_repository.tree.folder / "metadata" / name).read_bytes()
        for position in range(0, len(data), 7):
            altered = bytearray(data)
            altered[position] ^= 1
            published_repository.fetcher.replaced = {f"metadata/{name}": bytes(altered)}
            client = published_repository.client(f"{name} {position}")
            count += 1
            try:
                seen = (client.policy("messenger"), client.manifest("language_id", "1.0.0"))
            except (MetadataError, DocumentError, FetchError):
                continue
            assert name == "timestamp.json"
            assert seen == expected
    assert count > 300


@pytest.mark.parametrize(
    ("path", "limit_bytes"),
    [
        ("metadata/2.root.json", limits.ROOT_METADATA_MAX_BYTES),
        (TIMESTAMP, limits.TIMESTAMP_METADATA_MAX_BYTES),
    ],
)
def test_endless_answer_is_cut_off(published_repository: RepositoryFixture, path: str, limit_bytes: int) -> None:
    """Reading stops within one piece of the bound."""
    published_repository.fetcher.replaced[path] = b" " * (limit_bytes * 4)
    with pytest.raises(DocumentTooLargeError) as caught:
        published_repository.client().refresh()
    assert caught.value.limit_bytes == limit_bytes
    assert limit_bytes < caught.value.size_bytes <= limit_bytes + 4096


def test_signed_document_above_its_bound_is_not_even_fetched(published_repository: RepositoryFixture) -> None:
    """A misused policy key cannot fill a device's memory."""
    published_repository.misuse("policy", {"policy/messenger.json": b" " * (limits.POLICY_MAX_BYTES + 1)})
    client = published_repository.client()
    client.refresh()
    published_repository.fetcher.requests.clear()
    with pytest.raises(DocumentTooLargeError):
        client.policy("messenger")
    assert not [path for path in published_repository.fetcher.requests if path.startswith("targets/")]


def test_document_of_another_app_or_feature_is_refused(published_repository: RepositoryFixture) -> None:
    """Signed by the right role at the right path, but about something else."""
    foreign = published_repository.policy(9, app="keyboard").to_bytes()
    published_repository.misuse("policy", {"policy/messenger.json": foreign})
    halt = Halt(app="keyboard", serial=1).to_bytes()
    published_repository.misuse("halt", {"halt/messenger.json": halt})
    client = published_repository.client()
    with pytest.raises(WrongSubjectError) as caught:
        client.policy("messenger")
    assert (caught.value.field, caught.value.expected, caught.value.seen) == ("app", "messenger", "keyboard")
    with pytest.raises(WrongSubjectError):
        client.halt("messenger")
    assert client.read_stored_policy("messenger") is None


def test_manifest_of_another_version_under_a_path_is_refused(published_repository: RepositoryFixture) -> None:
    """A team that signs 1.0.0 as 2.0.0, or bandwidth as language_id."""
    data = published_repository.package().manifest.to_bytes()
    published_repository.misuse("team-text", {"language_id/2.0.0.json": data})
    with pytest.raises(WrongSubjectError) as caught:
        published_repository.client().manifest("language_id", "2.0.0")
    assert (caught.value.expected, caught.value.seen) == ("language_id/2.0.0.json", "language_id/1.0.0.json")


def test_target_signed_without_sha256_is_refused(published_repository: RepositoryFixture) -> None:
    """A digest becomes part of a path on the device, so its form is checked first."""
    published_repository.misuse("team-text", {"language_id/1.0.0.json": b"{}"}, hashes=("sha512",))
    with pytest.raises(MetadataError, match="SHA-256"):
        published_repository.client().manifest("language_id", "1.0.0")


def test_garbage_in_the_place_of_any_document_is_typed(published_repository: RepositoryFixture) -> None:
    """Each file of the tree is replaced by each kind of garbage."""
    files = [
        str(path.relative_to(published_repository.tree.folder))
        for part in ("metadata", "targets")
        for path in (published_repository.tree.folder / part).rglob("*.json")
        if not path.name.startswith("1.root")
    ]
    for path in files:
        for garbage in (b"", b"null", b"[]", b"{}", b"\xff\xfe\0", b"[" * 5000, b'{"signed":{"_type":"x"}}', None):
            published_repository.fetcher.replaced = {path: garbage}
            client = published_repository.client(f"{path} {garbage!r}".replace("/", "_")[:80])
            try:
                client.policy("messenger")
                client.manifest("language_id", "1.0.0")
                client.halt("messenger")
            except RegistryError:
                continue
            # Only files of past states are never asked for.
            assert int(Path(path).name.split(".")[0]) in range(1, 4)


@pytest.mark.parametrize("root", [b"", b"{}", b"not json"])
def test_unusable_trusted_root_is_typed(published_repository: RepositoryFixture, root: bytes) -> None:
    """An app built with a broken root gets a named error."""
    client = RepositoryClient(
        published_repository.folder / "x",
        published_repository.fetcher,
        "https://tree.invalid/",
        root,
        clock=published_repository.clock,
    )
    with pytest.raises(MetadataError):
        client.refresh()


def test_root_of_another_tree_is_refused(published_repository: RepositoryFixture, tmp_path: Path) -> None:
    """Nothing of this tree is signed by that one's keys."""
    other = RepositoryFixture(tmp_path / "other")
    client = RepositoryClient(
        published_repository.folder / "x",
        published_repository.fetcher,
        "https://tree.invalid",
        other.tree.root_bytes(),
        clock=published_repository.clock,
    )
    with pytest.raises(SignatureError):
        client.refresh()
