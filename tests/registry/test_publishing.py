"""What a team publishes is checked against its key and the tree; a refused publication writes nothing."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from alcove.registry import layout, limits
from alcove.registry._tuf import Metadata, Signer, TargetFile, Targets
from alcove.registry.errors import (
    DocumentError,
    DocumentTooLargeError,
    ExpiredMetadataError,
    IntegrityError,
    MetadataError,
    MissingBlobError,
    MissingTargetError,
    PublishError,
    RegistryError,
    SignatureError,
    StaleMetadataError,
    VersionExistsError,
    WrongSubjectError,
)
from alcove.registry.package import Package
from alcove.registry.signed_time import utc
from alcove.registry.team import sign_version
from alcove.registry.testing import RepositoryFixture

YEAR_S = 365 * 86_400


def signed_files(world: RepositoryFixture) -> dict[Path, bytes]:
    """Every file a client may read."""
    folder = world.tree.folder
    return {
        path: path.read_bytes()
        for part in (layout.METADATA, layout.TARGETS)
        for path in (folder / part).rglob("*")
        if path.is_file()
    }


def team_metadata(
    world: RepositoryFixture,
    targets: Mapping[str, bytes],
    *,
    version: int = 2,
    expires_in_s: int = YEAR_S,
    signer: Signer | None = None,
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


def test_pushed_versions_are_readable_and_ordered(world: RepositoryFixture) -> None:
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
    with pytest.raises(MissingTargetError):
        world.tree.manifest("language_id", "9.9.9")


def test_same_push_again_changes_nothing(world: RepositoryFixture) -> None:
    """A push that lost its answer is repeated as it was."""
    package = world.package()
    signed = world.sign(package)
    world.upload(package)
    world.tree.accept_team_metadata(signed, manifest_of(package))
    before = signed_files(world)
    assert world.tree.accept_team_metadata(signed, manifest_of(package)).added == ()
    assert signed_files(world) == before
    assert world.sign(package) == signed


def test_version_that_exists_is_refused_by_team_and_tree(world: RepositoryFixture) -> None:
    """Another manifest under the same number: the team's side refuses to sign, the tree to publish."""
    world.push(world.package())
    other = world.package()
    changed = other.manifest.model_copy(update={"min_runtime": "0.2.0"})
    with pytest.raises(VersionExistsError) as caught:
        world.sign(Package(changed, other.files))
    assert (caught.value.feature, caught.value.version) == ("language_id", "1.0.0")
    signed = team_metadata(world, {changed.path: changed.to_bytes()}, version=3)
    with pytest.raises(VersionExistsError):
        world.tree.accept_team_metadata(signed, {changed.path: changed.to_bytes()})


def bad_signature(world: RepositoryFixture, package: Package) -> bytes:
    """Signed, then one byte of the signature flipped."""
    metadata: Metadata[Targets] = Metadata.from_bytes(team_metadata(world, manifest_of(package)))
    (signature,) = metadata.signatures.values()
    signature.signature = f"{int(signature.signature[0], 16) ^ 1:x}{signature.signature[1:]}"
    return metadata.to_bytes()


def with_delegation(world: RepositoryFixture, package: Package) -> bytes:
    """A team that hands its power on."""
    metadata: Metadata[Targets] = Metadata.from_bytes(team_metadata(world, manifest_of(package)))
    metadata.signed.delegations = world.tree.state().targets.delegations
    metadata.sign(world.keys.teams["text"])
    return metadata.to_bytes()


def with_float(world: RepositoryFixture, package: Package) -> bytes:
    """Metadata that has no canonical bytes."""
    return team_metadata(world, manifest_of(package)).replace(b'"signed":{', b'"signed":{"x":0.5,')


def sign_as(role: str) -> object:
    """Metadata of team "text" signed with another key."""

    def make(world: RepositoryFixture, package: Package) -> bytes:
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
            (sign_as(role), SignatureError)
            for role in ("speech", "root", "targets", "policy", "halt", "snapshot", "timestamp")
        ],
        (lambda world, package: team_metadata(world, manifest_of(package), version=1), StaleMetadataError),
        (lambda world, package: team_metadata(world, manifest_of(package), version=3), StaleMetadataError),
        (lambda world, package: team_metadata(world, manifest_of(package), expires_in_s=0), ExpiredMetadataError),
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
        (lambda world, package: b" " * (limits.TARGETS_METADATA_MAX_BYTES + 1), DocumentTooLargeError),
    ],
)
def test_refused_team_metadata_changes_nothing(
    world: RepositoryFixture, make: object, error: type[RegistryError]
) -> None:
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


def test_published_version_cannot_be_dropped(published_repository: RepositoryFixture) -> None:
    """Not even by its own team."""
    package = published_repository.package("2.0.0")
    published_repository.upload(package)
    with pytest.raises(PublishError, match="what was published stays"):
        published_repository.tree.accept_team_metadata(
            team_metadata(published_repository, manifest_of(package), version=3), manifest_of(package)
        )


def test_every_flipped_byte_of_a_manifest_is_refused(world: RepositoryFixture) -> None:
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
    world: RepositoryFixture, changes: dict[str, str], error: type[RegistryError]
) -> None:
    """Signed by the right team, but another feature, version or team inside."""
    package = world.package()
    world.upload(package)
    data = package.manifest.model_copy(update=changes).to_bytes()
    path = package.manifest.path
    with pytest.raises(error):
        world.tree.accept_team_metadata(team_metadata(world, {path: data}), {path: data})


def test_signed_manifest_that_is_not_canonical_is_refused(world: RepositoryFixture) -> None:
    """The team's key does not make a malformed document acceptable."""
    package = world.package()
    world.upload(package)
    path, data = package.manifest.path, package.manifest.to_bytes() + b"\n"
    with pytest.raises(DocumentError):
        world.tree.accept_team_metadata(team_metadata(world, {path: data}), {path: data})


def test_version_without_its_blobs_is_refused(world: RepositoryFixture) -> None:
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


def test_team_does_not_sign_what_a_server_slipped_in(world: RepositoryFixture) -> None:
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
