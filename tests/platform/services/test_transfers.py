"""Uploads and downloads go on where they were cut, at every place, and nothing is taken that is not its digest."""

import contextlib
import fcntl
import hashlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.api.registry.v1.registry_pb2_grpc import RegistryServiceStub
from alcove.platform.client import (
    NotFoundError,
    PlatformClient,
    RemoteInternalError,
    UnauthenticatedError,
    UnavailableError,
)
from alcove.platform.domain.errors import BlobMismatchError, OffsetError, UploadBusyError
from alcove.platform.services.publishing.uploads import KEPT_S, receive_blob, received_bytes
from alcove.platform.testing import Served, ServerWorld
from alcove.registry.blobs import ObjectBlobStore, open_blob_store

DATA = hashlib.shake_256(b"transfer").digest(3 * 2**20 + 17)
SHA256 = hashlib.sha256(DATA).hexdigest()
SHORT = b"0123456789"


class CutError(BaseException):
    """The sender is gone, as a cancelled call is: no `Exception`."""


async def send(*chunks: bytes, cut: bool = False) -> AsyncIterator[bytes]:
    """What arrives, and whether the connection ends in between."""
    for chunk in chunks:
        yield chunk
    if cut:
        raise CutError


@pytest.fixture
def blobs(tmp_path: Path) -> ObjectBlobStore:
    """An empty blob store."""
    return open_blob_store(tmp_path / "blobs")


@pytest.fixture
def receive(blobs: ObjectBlobStore, tmp_path: Path) -> Callable[..., Any]:
    """Receives an upload of SHORT into `tmp_path`."""

    async def call(*chunks: bytes, offset: int = 0, cut: bool = False, sender: str = "team:text") -> None:
        await receive_blob(
            blobs,
            tmp_path,
            sender=sender,
            sha256=hashlib.sha256(SHORT).hexdigest(),
            size_bytes=len(SHORT),
            chunks=send(*chunks, cut=cut),
            offset_bytes=offset,
        )

    return call


def there(folder: Path, sender: str = "team:text") -> int:
    """How much of SHORT is there."""
    return received_bytes(folder, sender=sender, sha256=hashlib.sha256(SHORT).hexdigest())


async def test_an_upload_continues_wherever_it_was_cut(
    receive: Callable[..., Any], blobs: ObjectBlobStore, tmp_path: Path
) -> None:
    """Cut at every byte, and at every byte again, it arrives whole; no part is left."""
    for first, second in itertools.product(range(len(SHORT) + 1), repeat=2):
        if first > second:
            continue
        (tmp_path / "blobs" / hashlib.sha256(SHORT).hexdigest()).unlink(missing_ok=True)
        with pytest.raises(CutError):
            await receive(SHORT[:first], cut=True)
        assert there(tmp_path) == first
        with pytest.raises(CutError):
            await receive(SHORT[first:second], offset=first, cut=True)
        assert there(tmp_path) == second
        await receive(SHORT[second:], offset=second)
        assert blobs.get(hashlib.sha256(SHORT).hexdigest()) == SHORT
        assert there(tmp_path) == 0


async def test_an_upload_may_go_back_but_not_leave_a_gap(receive: Callable[..., Any], tmp_path: Path) -> None:
    """An offset below what is there cuts that; one above is refused with the number, and the part stays."""
    with pytest.raises(CutError):
        await receive(SHORT[:6], cut=True)
    with pytest.raises(OffsetError, match="6 bytes are there, expected 0 to 6, got 7"):
        await receive(SHORT[7:], offset=7)
    assert there(tmp_path) == 6
    with pytest.raises(CutError):
        await receive(b"", offset=2, cut=True)
    assert there(tmp_path) == 2
    await receive(SHORT[2:], offset=2)


async def test_a_part_with_other_bytes_is_refused_at_the_end_and_forgotten(
    receive: Callable[..., Any], blobs: ObjectBlobStore, tmp_path: Path
) -> None:
    """Each byte of the part flipped in turn: the digest tells, nothing is stored, and the next upload begins again."""
    for place in range(5):
        wrong = bytearray(SHORT[:5])
        wrong[place] ^= 1
        with pytest.raises(CutError):
            await receive(bytes(wrong), cut=True)
        with pytest.raises(BlobMismatchError, match="sha256"):
            await receive(SHORT[5:], offset=5)
        assert there(tmp_path) == 0
        assert not blobs.has(hashlib.sha256(SHORT).hexdigest())
    await receive(SHORT)
    assert blobs.get(hashlib.sha256(SHORT).hexdigest()) == SHORT


async def test_nobody_continues_anothers_part(receive: Callable[..., Any], tmp_path: Path) -> None:
    """A part is its sender's: another team sees none of it and cannot spoil it."""
    with pytest.raises(CutError):
        await receive(SHORT[:5], cut=True)
    assert there(tmp_path, "team:speech") == 0
    with pytest.raises(OffsetError):
        await receive(SHORT[5:], offset=5, sender="team:speech")
    assert there(tmp_path) == 5


async def test_two_uploads_of_the_same_bytes_do_not_meet(
    receive: Callable[..., Any], blobs: ObjectBlobStore, tmp_path: Path
) -> None:
    """While one writes, another one of the same sender is asked to wait; one that begins again succeeds."""
    sender = hashlib.sha256(b"team:text").hexdigest()[:16]
    with (tmp_path / f"{sender}-{hashlib.sha256(SHORT).hexdigest()}.part").open("wb") as holder:
        holder.write(SHORT[:5])
        holder.flush()
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(UploadBusyError, match="try again"):
            await receive(SHORT[5:], offset=5)
        await receive(SHORT)
        assert blobs.get(hashlib.sha256(SHORT).hexdigest()) == SHORT
        assert there(tmp_path) == 5


async def test_parts_that_nobody_came_back_for_are_removed(receive: Callable[..., Any], tmp_path: Path) -> None:
    """The next upload of anybody removes what is older than a day, and nothing younger."""
    old, young = tmp_path / "a-b.part", tmp_path / "c-d.part"
    for path, age_s in ((old, KEPT_S + 60), (young, KEPT_S - 60)):
        path.write_bytes(b"x")
        os.utime(path, (time.time() - age_s,) * 2)
    await receive(SHORT)
    assert (old.exists(), young.exists()) == (False, True)


@pytest.fixture
def stub(served: Served, world: ServerWorld) -> Iterator[tuple[Any, Any]]:
    """A bare stub and the metadata of a team's call."""
    with grpc.insecure_channel(served.grpc_address) as channel:
        yield RegistryServiceStub(channel), (("authorization", f"Bearer {world.token('team:text')}"),)


def cut_upload(stub: Any, metadata: Any, data: bytes, received: int, part: Path) -> None:
    """Send `received` bytes of an upload, then vanish; return when the server has kept them."""
    sha256 = hashlib.sha256(data).hexdigest()

    def parts() -> Iterator[pb.UploadBlobRequest]:
        yield pb.UploadBlobRequest(header=pb.BlobHeader(sha256=sha256, size_bytes=len(data)))
        for place in range(0, received, 2**20):
            yield pb.UploadBlobRequest(chunk=data[place : min(place + 2**20, received)])
        deadline_s = time.monotonic() + 20
        while not (part.exists() and part.stat().st_size == received):
            assert time.monotonic() < deadline_s
        call.cancel()

    call = stub.UploadBlob.future(parts(), timeout=30, metadata=metadata)
    with contextlib.suppress(grpc.FutureCancelledError, grpc.RpcError):
        call.result()


def test_a_cut_upload_continues_over_the_wire(
    world: ServerWorld, team: PlatformClient, stub: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client asks how much is there and sends the rest only."""
    data = DATA + b"upload"
    sha256 = hashlib.sha256(data).hexdigest()
    sender = hashlib.sha256(b"team:text").hexdigest()[:16]
    received = 2 * 2**20
    cut_upload(*stub, data, received, world.data_dir / "uploads" / f"{sender}-{sha256}.part")
    there = team._call(team._registry.GetUpload, pb.GetUploadRequest(sha256=sha256))
    assert (there.received_bytes, there.is_stored) == (received, False)
    sizes: list[int] = []
    real = team._registry.UploadBlob

    def counting(parts: Iterator[pb.UploadBlobRequest], **options: Any) -> Any:
        def count_pieces() -> Iterator[pb.UploadBlobRequest]:
            for part in parts:
                sizes.append(len(part.chunk))
                yield part

        return real(count_pieces(), **options)

    monkeypatch.setattr(team._registry, "UploadBlob", counting)
    deadline_s = time.monotonic() + 20
    while not (world.data_dir / "tree" / "blobs" / sha256).exists():
        with contextlib.suppress(UnavailableError):  # the server may still be ending the call that was cut
            sizes.clear()
            assert team.upload_blob(data) == sha256
        assert time.monotonic() < deadline_s
    assert sum(sizes) == len(data) - received
    assert (world.data_dir / "tree" / "blobs" / sha256).read_bytes() == data
    sizes.clear()
    assert team.upload_blob(data) == sha256  # stored: nothing is sent at all
    assert sizes == []
    there = team._call(team._registry.GetUpload, pb.GetUploadRequest(sha256=sha256))
    assert (there.received_bytes, there.is_stored) == (0, True)


@pytest.mark.thorough
def test_an_upload_outlives_a_killed_server(tmp_path: Path) -> None:
    """What a server had received when it was killed is there for the next one."""
    world = ServerWorld(tmp_path / "killed", teams={"text": ("text_00",)})
    served = world.start("--only", "grpc")
    sender = hashlib.sha256(b"team:text").hexdigest()[:16]
    with grpc.insecure_channel(served.grpc_address) as channel:
        metadata = (("authorization", f"Bearer {world.token('team:text')}"),)
        part = world.data_dir / "uploads" / f"{sender}-{SHA256}.part"

        def parts() -> Iterator[pb.UploadBlobRequest]:
            yield pb.UploadBlobRequest(header=pb.BlobHeader(sha256=SHA256, size_bytes=len(DATA)))
            yield pb.UploadBlobRequest(chunk=DATA[: 2**20])
            deadline_s = time.monotonic() + 20
            while not (part.exists() and part.stat().st_size == 2**20):
                assert time.monotonic() < deadline_s
            served.kill()

        with pytest.raises(grpc.RpcError):
            RegistryServiceStub(channel).UploadBlob(parts(), timeout=30, metadata=metadata)
    served = world.start("--only", "grpc")
    try:
        with world.client(served, "team:text") as team:
            there = team._call(team._registry.GetUpload, pb.GetUploadRequest(sha256=SHA256))
            assert there.received_bytes == 2**20
            assert team.upload_blob(DATA) == SHA256
        assert (world.data_dir / "tree" / "blobs" / SHA256).read_bytes() == DATA
    finally:
        assert served.stop() == 0


def test_a_download_continues_wherever_it_was_cut(
    team: PlatformClient, operator: PlatformClient, tmp_path: Path
) -> None:
    """With nothing, a byte, a chunk and a bit, all but a byte and all of it there: the rest is fetched, and no more."""
    team.upload_blob(DATA)
    path = tmp_path / "model.alc"
    part = tmp_path / f"model.alc.{SHA256[:16]}.part"
    for there in (0, 1, 2**20 - 1, 2**20, 2**20 + 1, len(DATA) - 1, len(DATA)):
        part.write_bytes(DATA[:there])
        steps: list[tuple[int, int]] = []
        note = steps.append
        assert operator.download_blob(SHA256, path, progress=lambda *step, note=note: note(step)) == len(DATA)
        assert path.read_bytes() == DATA
        assert not part.exists()
        assert steps[0] == (there, len(DATA))
        assert steps[-1] == (len(DATA), len(DATA))
        path.unlink()


def test_a_download_that_proves_wrong_leaves_nothing(
    team: PlatformClient, operator: PlatformClient, tmp_path: Path
) -> None:
    """A part with a flipped byte is found by the digest, removed, and the next download is whole."""
    team.upload_blob(DATA)
    path = tmp_path / "model.alc"
    part = tmp_path / f"model.alc.{SHA256[:16]}.part"
    path.write_bytes(b"the one before")
    part.write_bytes(b"?" + DATA[1 : 2**20])
    with pytest.raises(RemoteInternalError, match="with the digest"):
        operator.download_blob(SHA256, path)
    assert not part.exists()
    assert path.read_bytes() == b"the one before"
    operator.download_blob(SHA256, path)
    assert path.read_bytes() == DATA


def test_unknown_transfers_are_named(
    team: PlatformClient, served: Served, tmp_path: Path, stub: tuple[Any, Any]
) -> None:
    """Blobs that there are not, offsets beyond the end, no token: typed, and no file is left."""
    team.upload_blob(DATA)
    with pytest.raises(NotFoundError, match="no blob named '0000"):
        team.download_blob("0" * 64, tmp_path / "x")
    bare, metadata = stub
    for offset, status in ((len(DATA), None), (len(DATA) + 1, "OUT_OF_RANGE"), (2**64 - 1, "OUT_OF_RANGE")):
        request = pb.GetBlobRequest(sha256=SHA256, offset_bytes=offset)
        if status is None:
            answers = list(bare.GetBlob(request, timeout=20, metadata=metadata))
            assert [answer.WhichOneof("part") for answer in answers] == ["header"]
            continue
        with pytest.raises(grpc.RpcError) as failure:
            list(bare.GetBlob(request, timeout=20, metadata=metadata))
        assert failure.value.code().name == status
        assert f"expected 0 to {len(DATA)}, got {offset}" in (failure.value.details() or "")
    header = pb.BlobHeader(sha256="0" * 64, size_bytes=10, offset_bytes=5)
    with pytest.raises(grpc.RpcError) as failure:
        bare.UploadBlob(iter([pb.UploadBlobRequest(header=header)]), timeout=20, metadata=metadata)
    assert failure.value.code().name == "OUT_OF_RANGE"
    nobody = PlatformClient(served.grpc_address, f"alc_{'0' * 16}_{'0' * 64}")
    with nobody, pytest.raises(UnauthenticatedError):
        nobody.download_blob(SHA256, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
