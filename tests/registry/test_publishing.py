"""What may enter the tree, and what is refused before anything is written?"""

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from alcove.registry import layout, limits
from alcove.registry._tuf import CryptoSigner, Metadata, TargetFile, Targets
from alcove.registry.clock import utc
from alcove.registry.errors import (
    DocumentError,
    DocumentTooLarge,
    ExpiredMetadata,
    IntegrityError,
    MetadataError,
    MissingBlobError,
    MissingTarget,
    PublishError,
    ReadOnlyTreeError,
    RegistryError,
    SignatureError,
    StaleMetadataError,
    StorageError,
    VersionExists,
    WrongSubjectError,
)
from alcove.registry.package import Package
from alcove.registry.policy import FeaturePolicy, Halt, HaltedVersion, Policy, VersionRef
from alcove.registry.team import sign_version
from alcove.registry.testing import ManualClock, TreeWorld
from alcove.registry.tree import Tree, initialise_tree

YEAR_S = 365 * 86_400


def signed_files(world: TreeWorld) -> dict[Path, bytes]:
    """Every file a client may read."""
    folder = world.tree.folder
    return {
        path: path.read_bytes()
        for part in (layout.METADATA, layout.TARGETS)
        for path in (folder / part).rglob("*")
        if path.is_file()
    }


def team_metadata(
    world: TreeWorld,
    targets: Mapping[str, bytes],
    *,
    version: int = 2,
    expires_in_s: int = YEAR_S,
    signer: CryptoSigner | None = None,
    hashes: tuple[str, ...] = ("sha256",),
) -> bytes:
    """Metadata that team "text" signs by hand, whatever it says."""
    metadata = Metadata(
        Targets(
            version=version,
            expires=utc(world.clock.now_s() + expires_in_s),
            targets={path: TargetFile.from_data(path, data, list(hashes)) for path, data in targets.items()},
        )
    )
    metadata.sign(signer or world.keys.teams["text"])
    return metadata.to_bytes()


def manifest_of(package: Package) -> dict[str, bytes]:
    """The package's manifest by path."""
    return {package.manifest.path: package.manifest.to_bytes()}


def test_pushed_versions_are_readable_and_ordered(world: TreeWorld) -> None:
    """Each version is in the tree with its digest, in the order of its number."""
    packages = {version: world.package(version) for version in ("1.9.0", "1.10.0", "1.0.0")}
    for package in packages.values():
        accepted = world.push(package)
        assert (accepted.team, accepted.added) == ("text", (package.manifest,))
    assert [ref.version for ref in world.tree.versions("language_id")] == ["1.0.0", "1.9.0", "1.10.0"]
    for ref in world.tree.versions("language_id"):
        assert ref.manifest_sha256 == packages[ref.version].manifest.sha256
        assert world.tree.manifest("language_id", ref.version) == packages[ref.version].manifest
    assert world.tree.versions("bandwidth") == world.tree.versions("unknown") == ()
    with pytest.raises(MissingTarget):
        world.tree.manifest("language_id", "9.9.9")


def test_same_push_again_changes_nothing(world: TreeWorld) -> None:
    """A push that lost its answer is repeated as it was."""
    package = world.package()
    signed = world.sign(package)
    world.upload(package)
    world.tree.accept_team_metadata(signed, manifest_of(package))
    before = signed_files(world)
    assert world.tree.accept_team_metadata(signed, manifest_of(package)).added == ()
    assert signed_files(world) == before
    assert world.sign(package) == signed


def test_version_that_exists_is_refused_by_team_and_tree(world: TreeWorld) -> None:
    """Another manifest under the same number: the team's side refuses to sign, the tree to publish."""
    world.push(world.package())
    other = world.package()
    changed = other.manifest.model_copy(update={"min_runtime": "0.2.0"})
    with pytest.raises(VersionExists) as caught:
        world.sign(Package(changed, other.files))
    assert (caught.value.feature, caught.value.version) == ("language_id", "1.0.0")
    signed = team_metadata(world, {changed.path: changed.to_bytes()}, version=3)
    with pytest.raises(VersionExists):
        world.tree.accept_team_metadata(signed, {changed.path: changed.to_bytes()})


def bad_signature(world: TreeWorld, package: Package) -> bytes:
    """Signed, then one byte of the signature flipped."""
    metadata: Metadata[Targets] = Metadata.from_bytes(team_metadata(world, manifest_of(package)))
    (signature,) = metadata.signatures.values()
    signature.signature = f"{int(signature.signature[0], 16) ^ 1:x}{signature.signature[1:]}"
    return metadata.to_bytes()


def with_delegation(world: TreeWorld, package: Package) -> bytes:
    """A team that hands its power on."""
    metadata: Metadata[Targets] = Metadata.from_bytes(team_metadata(world, manifest_of(package)))
    metadata.signed.delegations = world.tree.state().targets.delegations
    metadata.sign(world.keys.teams["text"])
    return metadata.to_bytes()


def with_float(world: TreeWorld, package: Package) -> bytes:
    """Metadata that has no canonical bytes."""
    return team_metadata(world, manifest_of(package)).replace(b'"signed":{', b'"signed":{"x":0.5,')


def signed_by(role: str) -> object:
    """Metadata of team "text" signed with another key."""

    def make(world: TreeWorld, package: Package) -> bytes:
        keys = {
            "speech": world.keys.teams["speech"],
            "root": world.keys.root,
            "targets": world.keys.targets,
            "policy": world.keys.online.policy,
            "halt": world.keys.online.halt,
            "snapshot": world.keys.online.snapshot,
            "timestamp": world.keys.online.timestamp,
        }
        return team_metadata(world, manifest_of(package), signer=keys[role])

    return make


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (bad_signature, SignatureError),
        *[
            (signed_by(role), SignatureError)
            for role in ("speech", "root", "targets", "policy", "halt", "snapshot", "timestamp")
        ],
        (lambda world, package: team_metadata(world, manifest_of(package), version=1), StaleMetadataError),
        (lambda world, package: team_metadata(world, manifest_of(package), version=3), StaleMetadataError),
        (lambda world, package: team_metadata(world, manifest_of(package), expires_in_s=0), ExpiredMetadata),
        (lambda world, package: team_metadata(world, manifest_of(package), hashes=("sha512",)), PublishError),
        (lambda world, package: team_metadata(world, manifest_of(package), hashes=("sha256", "sha512")), PublishError),
        (lambda world, package: team_metadata(world, manifest_of(package) | {"a/1.json": b""}), PublishError),
        (lambda world, package: team_metadata(world, manifest_of(package) | {"policy/m.json": b""}), PublishError),
        (
            lambda world, package: team_metadata(world, manifest_of(package) | {"language_id/x/y.json": b""}),
            PublishError,
        ),
        (
            lambda world, package: team_metadata(world, manifest_of(package) | {"language_id/2.0.0.json": b""}),
            PublishError,
        ),
        (lambda world, package: team_metadata(world, {}), PublishError),
        (lambda world, package: team_metadata(world, {package.manifest.path: b"other"}), IntegrityError),
        (with_delegation, PublishError),
        (with_float, MetadataError),
        (lambda world, package: b"", MetadataError),
        (lambda world, package: b"[" * 100_000, MetadataError),
        (lambda world, package: b"\xff\xfe", MetadataError),
        (lambda world, package: world.tree.state().root_bytes, MetadataError),
        (lambda world, package: b" " * (limits.TARGETS_METADATA_MAX_BYTES + 1), DocumentTooLarge),
    ],
)
def test_refused_team_metadata_changes_nothing(world: TreeWorld, make: object, error: type[RegistryError]) -> None:
    """Each fault has its error, and the tree stays as it was to the byte."""
    package = world.package()
    world.upload(package)
    before = signed_files(world)
    assert callable(make)
    signed = make(world, package)
    with pytest.raises(error):
        world.tree.accept_team_metadata(signed, manifest_of(package), team="text")
    with pytest.raises(RegistryError):
        world.tree.accept_team_metadata(signed, manifest_of(package), team="speech")
    assert signed_files(world) == before
    world.push(package)


def test_published_version_cannot_be_dropped(published: TreeWorld) -> None:
    """Not even by its own team."""
    package = published.package("2.0.0")
    published.upload(package)
    with pytest.raises(PublishError, match="what was published stays"):
        published.tree.accept_team_metadata(
            team_metadata(published, manifest_of(package), version=3), manifest_of(package)
        )


def test_every_flipped_byte_of_a_manifest_is_refused(world: TreeWorld) -> None:
    """Between the team and the tree."""
    package = world.package()
    world.upload(package)
    signed = world.sign(package)
    data = package.manifest.to_bytes()
    before = signed_files(world)
    for position in range(len(data)):
        altered = bytearray(data)
        altered[position] ^= 1
        with pytest.raises(IntegrityError):
            world.tree.accept_team_metadata(signed, {package.manifest.path: bytes(altered)})
    assert signed_files(world) == before


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"feature": "bandwidth"}, WrongSubjectError),
        ({"version": "1.0.1"}, WrongSubjectError),
        ({"team": "speech"}, WrongSubjectError),
    ],
)
def test_manifest_about_something_else_than_its_path_is_refused(
    world: TreeWorld, changes: dict[str, str], error: type[RegistryError]
) -> None:
    """Signed by the right team, but another feature, version or team inside."""
    package = world.package()
    world.upload(package)
    data = package.manifest.model_copy(update=changes).to_bytes()
    path = package.manifest.path
    with pytest.raises(error):
        world.tree.accept_team_metadata(team_metadata(world, {path: data}), {path: data})


def test_signed_manifest_that_is_not_canonical_is_refused(world: TreeWorld) -> None:
    """The team's key does not make a malformed document acceptable."""
    package = world.package()
    world.upload(package)
    path, data = package.manifest.path, package.manifest.to_bytes() + b"\n"
    with pytest.raises(DocumentError):
        world.tree.accept_team_metadata(team_metadata(world, {path: data}), {path: data})


def test_version_without_its_blobs_is_refused(world: TreeWorld) -> None:
    """Program and card must be there first, with their sizes."""
    package = world.package()
    signed = world.sign(package)
    blobs = list(package.blobs().items())
    for sha256, data in blobs:
        with pytest.raises(MissingBlobError):
            world.tree.accept_team_metadata(signed, manifest_of(package))
        world.tree.blobs.put(sha256, data)
    path = world.tree.folder / layout.BLOBS / blobs[0][0]
    path.write_bytes(blobs[0][1] + b"x")
    with pytest.raises(IntegrityError, match="bytes"):
        world.tree.accept_team_metadata(signed, manifest_of(package))
    path.write_bytes(blobs[0][1])
    world.tree.accept_team_metadata(signed, manifest_of(package))


def test_team_does_not_sign_what_a_server_slipped_in(world: TreeWorld) -> None:
    """Current metadata is accepted only with the team's own signature on exactly these bytes."""
    package = world.package()
    signer = world.keys.teams["text"]
    foreign = team_metadata(world, {"language_id/6.6.6.json": b"evil"}, signer=world.keys.online.policy)
    altered: Metadata[Targets] = Metadata.from_bytes(world.tree.team_metadata("text"))
    altered.signed.targets["language_id/6.6.6.json"] = TargetFile.from_data("x", b"evil", ["sha256"])
    for current in (foreign, altered.to_bytes()):
        with pytest.raises(SignatureError):
            sign_version(current, package.manifest, signer, world.clock.now_s() + YEAR_S)
    with pytest.raises(MetadataError):
        sign_version(b"{}", package.manifest, signer, world.clock.now_s() + YEAR_S)


def test_policy_is_published_once_and_its_serial_only_rises(published: TreeWorld) -> None:
    """The same bytes change nothing; an equal or lower serial is refused."""
    tree = published.tree
    before = signed_files(published)
    assert not tree.publish_policy("messenger", published.policy(1).to_bytes())
    assert signed_files(published) == before
    assert tree.publish_policy("messenger", published.policy(5).to_bytes())
    changed = published.policy(5).model_copy(update={"features": {}})
    for document in (changed, published.policy(4)):
        with pytest.raises(StaleMetadataError) as caught:
            tree.publish_policy("messenger", document.to_bytes())
        assert caught.value.expected_version == 6
    assert tree.policy("messenger") == published.policy(5)
    assert tree.policy("keyboard") is None
    assert tree.publish_policy("keyboard", published.policy(1, app="keyboard").to_bytes())
    assert tree.policy("messenger") == published.policy(5)


def test_policy_that_names_an_unsigned_version_is_refused(published: TreeWorld) -> None:
    """Unknown number, other digest, other feature, other app, malformed or oversize."""
    good = published.policy(2)
    digest = good.features["language_id"].default.manifest_sha256

    def naming(feature: str, version: str, manifest_sha256: str) -> bytes:
        default = VersionRef(version=version, manifest_sha256=manifest_sha256)
        rules = FeaturePolicy(min_version="0.0.1", default=default)
        return Policy(app="messenger", serial=2, features={feature: rules}).to_bytes()

    before = signed_files(published)
    for data in (
        naming("language_id", "2.0.0", digest),
        naming("language_id", "1.0.0", "0" * 64),
        naming("bandwidth", "1.0.0", digest),
    ):
        with pytest.raises(PublishError, match="no team has signed"):
            published.tree.publish_policy("messenger", data)
    with pytest.raises(PublishError, match="'messenger', not 'keyboard'"):
        published.tree.publish_policy("keyboard", good.to_bytes())
    with pytest.raises(DocumentError):
        published.tree.publish_policy("messenger", good.to_bytes() + b" ")
    with pytest.raises(DocumentTooLarge):
        published.tree.publish_policy("messenger", b" " * (limits.POLICY_MAX_BYTES + 1))
    assert signed_files(published) == before


def test_halt_cannot_be_lifted_by_its_own_key(published: TreeWorld) -> None:
    """Each halt names all that the one before took away."""
    ref = published.policy(1).features["language_id"].default
    item = HaltedVersion(feature="language_id", version=ref)
    tree = published.tree
    assert tree.halt("messenger") is None
    halt = Halt(app="messenger", serial=1, halted=(item,))
    assert tree.publish_halt("messenger", halt.to_bytes())
    assert not tree.publish_halt("messenger", halt.to_bytes())
    with pytest.raises(PublishError, match="lifts nothing"):
        tree.publish_halt("messenger", Halt(app="messenger", serial=2).to_bytes())
    with pytest.raises(StaleMetadataError):
        tree.publish_halt("messenger", Halt(app="messenger", serial=1, frozen=("language_id",)).to_bytes())
    with pytest.raises(PublishError):
        tree.publish_halt("keyboard", halt.to_bytes())
    wider = Halt(app="messenger", serial=2, halted=(item,), frozen=("language_id",))
    assert tree.publish_halt("messenger", wider.to_bytes())
    assert tree.halt("messenger") == wider


def test_refresh_renews_what_is_half_spent_and_warns_of_the_rest(published: TreeWorld) -> None:
    """Timestamp after half a day, snapshot after 3.5 days, policy and halt after 15; a warning 30 days ahead."""
    tree, clock = published.tree, published.clock
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


def test_tree_without_keys_publishes_nothing(published: TreeWorld) -> None:
    """Reading works; every publication names the missing key."""
    tree = Tree(published.tree.folder, clock=published.clock)
    assert tree.policy("messenger") == published.policy(1)
    for call in (
        tree.refresh,
        lambda: tree.publish_policy("messenger", b""),
        lambda: tree.publish_halt("messenger", b""),
        lambda: tree.accept_team_metadata(b"", {}),
    ):
        with pytest.raises(ReadOnlyTreeError):
            call()


def test_second_ceremony_in_the_same_folder_is_refused(world: TreeWorld) -> None:
    """A tree is never replaced; a team without key is named."""
    with pytest.raises(PublishError, match="already"):
        initialise_tree(world.tree.folder, world.keys, world.TEAMS)
    with pytest.raises(PublishError, match="no key for: vision"):
        initialise_tree(world.folder / "other", world.keys, {"vision": ["segment"]})


def test_unknown_team_and_absent_tree_are_named(world: TreeWorld) -> None:
    """Typed errors with the thing in them."""
    with pytest.raises(MissingTarget, match="team-vision"):
        world.tree.team_metadata("vision")
    with pytest.raises(MissingTarget, match="team-vision"):
        world.tree.accept_team_metadata(world.tree.team_metadata("text"), {}, team="vision")
    absent = Tree(world.folder / "absent", keys=world.keys.online)
    with pytest.raises(StorageError, match=r"1\.root\.json"):
        absent.state()
    with pytest.raises(StorageError, match=r"\.lock"):
        absent.refresh()


def test_publications_at_once_happen_one_after_another(published: TreeWorld) -> None:
    """Eight threads with the same eight policies: each serial is published at most once and the last one stands."""
    errors: list[BaseException] = []

    def publish(serials: range) -> None:
        for serial in serials:
            try:
                Tree(published.tree.folder, keys=published.keys.online, clock=ManualClock()).publish_policy(
                    "messenger", documents[serial]
                )
            except StaleMetadataError:
                pass
            except BaseException as error:  # noqa: BLE001 - shown by the assertion below
                errors.append(error)

    documents = {serial: published.policy(serial).to_bytes() for serial in range(2, 10)}
    threads = [threading.Thread(target=publish, args=(range(2, 10),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    state = published.tree.state()
    assert state.roles["policy"].version == 2 + 8
    assert published.tree.policy("messenger") == published.policy(9)
    assert published.tree.check().is_sound
