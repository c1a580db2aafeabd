"""Publishing: what is refused, what is idempotent, and what a kill at any moment leaves."""

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import grpc
import pytest
from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.api.registry.v1.registry_pb2_grpc import RegistryServiceStub
from alcove.platform.client import (
    AlreadyExistsError,
    ClientError,
    ConflictError,
    FailedPreconditionError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    PlatformClient,
    push_package,
)
from alcove.platform.testing import Served, ServerWorld
from alcove.registry import program_verification
from alcove.registry.errors import SignatureError, VersionExistsError
from alcove.registry.layout import team_role
from alcove.registry.limits import PROGRAM_MAX_BYTES
from alcove.registry.manifest import Manifest, manifest_path
from alcove.registry.package import Package
from alcove.registry.rules import succinct_of
from alcove.registry.testing import FakeVerifier


@pytest.fixture(autouse=True)
def pretended_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, too, takes pretended programs for real ones."""
    monkeypatch.setattr(program_verification, "RuntimeVerifier", FakeVerifier)


def upload(team: PlatformClient, package: Package) -> None:
    """Upload all blobs of a package."""
    for data in package.blobs().values():
        team.upload_blob(data)


def test_a_pushed_version_is_listed_and_lies_in_the_tree(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str
) -> None:
    """After the push devices can read it, and anyone with a token finds it."""
    package = world.package(feature)
    steps: list[str] = []
    version = push_package(team, package, world.keys.teams["text"], progress=steps.append)
    assert (version.feature, version.version, version.team) == (feature, "1.0.0", "text")
    assert [variant.name for variant in version.variants] == ["f32"]
    assert steps[0] == "verifying"
    assert steps[-1] == "publishing"
    assert world.tree.manifest(feature, "1.0.0") == package.manifest
    assert operator.versions(feature) == [version]
    found, manifest = operator.version(feature, "1.0.0")
    assert (found, Manifest.from_bytes(manifest)) == (version, package.manifest)


def test_pushing_the_same_package_again_is_harmless(world: ServerWorld, team: PlatformClient, feature: str) -> None:
    """A push that lost its answer is simply repeated."""
    package, signer = world.package(feature), world.keys.teams["text"]
    first = push_package(team, package, signer)
    assert push_package(team, package, signer) == first
    assert team.versions(feature) == [first]


def test_another_package_under_a_published_number_is_refused(
    world: ServerWorld, team: PlatformClient, feature: str
) -> None:
    """The team's own side says so first; the server says so to a team that signs past it."""
    signer = world.keys.teams["text"]
    before = team.team_metadata("text")
    first = push_package(team, world.package(feature), signer)
    other = world.package(feature, program=b"program of another mind")
    with pytest.raises(VersionExistsError, match=feature):
        push_package(team, other, signer)
    forged = world.sign(other, before)  # on top of metadata from before the first push
    with pytest.raises(AlreadyExistsError) as refusal:
        team.publish_version(forged, other.manifest.to_bytes())
    assert refusal.value.kind == "VersionExistsError"
    assert team.versions(feature) == [first]


def test_a_repeated_request_gets_the_stored_answer(world: ServerWorld, team: PlatformClient, feature: str) -> None:
    """Same id, same content: same answer, one row, one entry in the tree; same id, other content: refused."""
    package = world.package(feature)
    upload(team, package)
    signed, request_id = world.sign(package), f"publish-{feature}"
    first = team.publish_version(signed, package.manifest.to_bytes(), request_id=request_id)
    number = world.tree.state().roles["team-text"].version
    for _ in range(3):
        assert team.publish_version(signed, package.manifest.to_bytes(), request_id=request_id) == first
    assert world.tree.state().roles["team-text"].version == number
    other = world.package(feature, "1.0.1")
    with pytest.raises(AlreadyExistsError) as refusal:
        team.publish_version(world.sign(other), other.manifest.to_bytes(), request_id=request_id)
    assert refusal.value.kind == "RequestIdReusedError"


def test_a_missing_blob_is_named(world: ServerWorld, team: PlatformClient, feature: str) -> None:
    """Card or program: the digest that was not uploaded is in the message, and nothing is published."""
    package = world.package(feature)
    blobs = list(package.blobs().values())
    for uploaded in ([], blobs[:1], blobs[1:]):
        for data in uploaded:
            team.upload_blob(data)
        if len(uploaded) == 1 and uploaded == blobs[1:]:
            break  # now both are there
        with pytest.raises(FailedPreconditionError) as refusal:
            team.publish_version(world.sign(package), package.manifest.to_bytes())
        assert refusal.value.kind == "MissingBlobError"
    assert team.versions(feature) == []


def test_a_package_that_does_not_hold_is_refused(world: ServerWorld, team: PlatformClient, feature: str) -> None:
    """The server looks itself: a program that fails its certificate, and a manifest that lies about one."""
    wrong = world.package(feature, program=b"program that computes wrong numbers")
    honest = world.package(feature)
    lying = Package(honest.manifest.model_copy(update={"variants": (
        honest.manifest.variants[0].model_copy(update={"memory_ceiling_bytes": 1}),
    )}), honest.files)  # fmt: skip
    for package in (wrong, lying):
        upload(team, package)
        with pytest.raises(InvalidRequestError) as refusal:
            team.publish_version(world.sign(package), package.manifest.to_bytes())
        assert refusal.value.kind == "ProgramRefusedError"
    assert team.versions(feature) == []


def test_a_team_publishes_for_itself_only(
    world: ServerWorld, team: PlatformClient, feature: str, served: Served
) -> None:
    """Neither another team's token nor another team's key nor another team's feature gets through."""
    package = world.package(feature)
    with world.client(served, "team:speech") as speech:
        upload(speech, package)
        with pytest.raises(PermissionDeniedError) as refusal:
            speech.publish_version(world.sign(package), package.manifest.to_bytes())
        assert refusal.value.kind == "PermissionDeniedError"
    foreign = world.package("speech_39")
    stolen = Package(foreign.manifest.model_copy(update={"team": "text"}), foreign.files)
    upload(team, stolen)
    with pytest.raises(ClientError):
        team.publish_version(world.sign(stolen), stolen.manifest.to_bytes())
    with pytest.raises(SignatureError):
        push_package(team, package, world.keys.teams["speech"])
    assert team.versions(feature) == []


def test_a_broken_signature_is_refused_wherever_it_breaks(
    world: ServerWorld, team: PlatformClient, feature: str
) -> None:
    """No flipped character of the signed metadata is published (some make it malformed, some unsigned)."""
    package = world.package(feature)
    upload(team, package)
    signed = world.sign(package)
    before = world.tree.team_metadata("text")
    for position in range(0, len(signed), max(1, len(signed) // 24)):
        broken = bytearray(signed)
        broken[position] ^= 0x01
        with pytest.raises(ClientError):
            team.publish_version(bytes(broken), package.manifest.to_bytes())
    assert world.tree.team_metadata("text") == before


def test_metadata_on_top_of_old_metadata_is_a_conflict_that_a_push_resolves(
    world: ServerWorld, team: PlatformClient, feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two members of a team push at once: the slower one is asked to read again, and `push_package` does."""
    old = team.team_metadata("text")
    push_package(team, world.package(feature, "1.0.0"), world.keys.teams["text"])
    # A team with many versions has them in bins; two that go into different ones get in nobody's way.
    bins = succinct_of(world.tree.state().roles[team_role("text")].metadata.signed)
    numbers = [f"1.0.{number}" for number in range(10_000)]
    places = [bins.get_role_for_target(manifest_path(feature, each)) if bins else "" for each in numbers]
    version = numbers[places.index(places[0], 1)]
    package = world.package(feature, version)
    upload(team, package)
    with pytest.raises((ConflictError, FailedPreconditionError)):
        team.publish_version(world.sign(package, old), package.manifest.to_bytes())

    answers = [old]
    real = team.team_metadata
    monkeypatch.setattr(team, "team_metadata", lambda name: answers.pop() if answers else real(name))
    assert push_package(team, package, world.keys.teams["text"]).version == version
    assert not answers


def test_malformed_documents_are_refused(world: ServerWorld, team: PlatformClient, feature: str) -> None:
    """Manifests and metadata that are none, or not canonical, name what is wrong."""
    package = world.package(feature)
    upload(team, package)
    manifest, signed = package.manifest.to_bytes(), world.sign(package)
    for bad in (
        b"",
        b"{}",
        b"\xff\xfe",
        manifest + b" ",
        manifest[:-1],
        b"[" * 100_000,
        manifest.replace(b"1.0.0", b"1.0"),
    ):
        with pytest.raises(InvalidRequestError) as refusal:
            team.publish_version(signed, bad)
        assert refusal.value.kind in ("DocumentError", "DocumentTooLargeError")
    for bad in (b"", b"{}", b"\xff\xfe", signed[:-1], b"[" * 100_000):
        with pytest.raises(InvalidRequestError):
            team.publish_version(bad, manifest)
    assert team.versions(feature) == []


def header(sha256: str = "0" * 64, size_bytes: int = 1) -> pb.UploadBlobRequest:
    """The first message of an upload."""
    return pb.UploadBlobRequest(header=pb.BlobHeader(sha256=sha256, size_bytes=size_bytes))


def chunk(data: bytes) -> pb.UploadBlobRequest:
    """A later message of an upload."""
    return pb.UploadBlobRequest(chunk=data)


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ([], "part"),
        ([pb.UploadBlobRequest()], "part"),
        ([chunk(b"x")], "part"),
        ([header("XYZ")], "sha256"),
        ([header("../" * 21 + "a")], "sha256"),
        ([header(size_bytes=0)], "size_bytes"),
        ([header(size_bytes=PROGRAM_MAX_BYTES + 1)], "size_bytes"),
        ([header(size_bytes=2**64 - 1)], "size_bytes"),
        ([header(), pb.UploadBlobRequest()], "part"),
        ([header(), chunk(b"")], "chunk"),
        ([header(), header()], "part"),
        ([header()], "size_bytes"),
        ([header(), chunk(b"x")], "sha256"),
        ([header(), chunk(b"xx")], "at most 1 bytes"),
        ([header(size_bytes=2**21), chunk(bytes(2**20 + 1))], "at most 1048576 bytes"),
    ],
)
def test_a_broken_upload_is_refused_and_leaves_nothing(
    world: ServerWorld, served: Served, parts: list[pb.UploadBlobRequest], field: str
) -> None:
    """Wrong order, wrong sizes, wrong digests: named, and neither blob nor temporary file remains."""
    blobs = world.data_dir / "tree" / "blobs"
    before = set(blobs.glob("*"))
    token = (("authorization", f"Bearer {world.token('team:text')}"),)
    with grpc.insecure_channel(served.grpc_address) as channel, pytest.raises(grpc.RpcError) as failure:
        RegistryServiceStub(channel).UploadBlob(iter(parts), timeout=20, metadata=token)
    assert failure.value.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert field in (failure.value.details() or "")
    assert set(blobs.glob("*")) == before
    # What stays is the note of what the team has uploaded before.
    assert [path for path in (world.data_dir / "uploads").iterdir() if path.suffix != ".noted"] == []


@pytest.mark.parametrize("size_bytes", [1, 2**20 - 1, 2**20, 2**20 + 1, 5 * 2**20 + 3])
def test_an_upload_of_any_size_arrives_whole(world: ServerWorld, team: PlatformClient, size_bytes: int) -> None:
    """Chunks are put together in order; the same bytes may come again."""
    data = hashlib.shake_256(str(size_bytes).encode()).digest(size_bytes)
    for _ in range(2):
        sha256 = team.upload_blob(data)
        assert (world.data_dir / "tree" / "blobs" / sha256).read_bytes() == data


def test_reading_what_is_not_there_names_it(team: PlatformClient, feature: str) -> None:
    """Unknown versions and teams are NOT_FOUND."""
    with pytest.raises(NotFoundError, match=feature):
        team.version(feature, "1.0.0")
    with pytest.raises(NotFoundError):
        team.team_metadata("nobody")


def test_lists_come_in_pages(world: ServerWorld, team: PlatformClient, feature: str, served: Served) -> None:
    """Every version appears once, in order of publication, whatever the size of the page; bad pages are refused."""
    for patch in range(5):
        world.publish(team, feature, f"1.0.{patch}")
    token_header = (("authorization", f"Bearer {world.token('reader')}"),)
    with grpc.insecure_channel(served.grpc_address) as channel:
        stub = RegistryServiceStub(channel)
        for size in (1, 2, 5, 0, 1000):
            seen: list[str] = []
            token = ""
            while True:
                request = pb.ListVersionsRequest(feature=feature, page_size=size, page_token=token)
                page = stub.ListVersions(request, timeout=20, metadata=token_header)
                seen += [version.version for version in page.versions]
                token = page.next_page_token
                if not token:
                    break
            assert seen == [f"1.0.{patch}" for patch in range(5)]
        for request in (
            pb.ListVersionsRequest(page_size=1001),
            pb.ListVersionsRequest(page_token="-1"),
            pb.ListVersionsRequest(page_token="x"),
            pb.ListVersionsRequest(page_token="9" * 30),
        ):
            with pytest.raises(grpc.RpcError, match="page_"):
                stub.ListVersions(request, timeout=20, metadata=token_header)


@pytest.mark.thorough
def test_a_kill_at_any_moment_of_a_publication_is_repaired_by_repeating(tmp_path: Path) -> None:
    """Kill -9 after more and more of the work: after the restart the same request succeeds and is listed once."""
    world = ServerWorld(tmp_path / "killed", teams={"text": tuple(f"text_{n:02d}" for n in range(8))})
    served = world.start("--only", "grpc")
    for number, delay_s in enumerate((0.0, 0.01, 0.03)):
        package = world.package(f"text_{number:02d}")
        with world.client(served, "team:text") as team:
            upload(team, package)
            signed = team.team_metadata("text")
            signed = world.sign(package, signed)
            request_id = f"publish-{number:06d}"
            token = (("authorization", f"Bearer {world.token('team:text')}"),)
            request = pb.PublishVersionRequest(
                request_id=request_id, team_metadata=signed, manifest=package.manifest.to_bytes()
            )
            with grpc.insecure_channel(served.grpc_address) as channel:
                grpc.channel_ready_future(channel).result(timeout=60)
                pending: Any = RegistryServiceStub(channel).PublishVersion.future(request, timeout=20, metadata=token)
                with contextlib.suppress(grpc.FutureTimeoutError):
                    pending.exception(timeout=delay_s)
                served.kill()
        served = world.start("--only", "grpc")
        with world.client(served, "team:text") as team:
            version = team.publish_version(signed, package.manifest.to_bytes(), request_id=request_id)
            assert version.manifest_sha256 == package.manifest.sha256
            assert [found.version for found in team.versions(package.manifest.feature)] == ["1.0.0"]
    assert served.stop() == 0
