"""A team's token and noise without end: the team's room is used up, and nobody else's."""

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.client.errors import TooLargeError
from alcove.platform.domain import limits
from alcove.platform.domain.errors import QuotaError
from alcove.platform.services.publishing.quotas import UploadQuotas
from alcove.platform.testing import ServerWorld
from alcove.registry import garbage_collection
from alcove.registry.blobs import BlobStore, open_blob_store

RunServer = Callable[..., AbstractAsyncContextManager[Any]]
PIECE = 1000


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    """A store of blobs."""
    return open_blob_store(tmp_path / "blobs")


def quotas(folder: Path, blobs: BlobStore, named: set[str], *, most: int = 5) -> UploadQuotas:
    """Room for a few pieces."""
    folder.mkdir(exist_ok=True)
    return UploadQuotas(folder, blobs, lambda: named, most_bytes=most * PIECE, most_parts=3)


async def put(room: UploadQuotas, blobs: BlobStore, number: int, sender: str = "team:text") -> str:
    """Upload a piece of noise."""
    data = number.to_bytes(4, "big") * (PIECE // 4)
    sha256 = hashlib.sha256(data).hexdigest()
    async with room.room_for(sender, sha256, PIECE):
        blobs.put(sha256, data)
    return sha256


async def test_a_team_has_so_much_room_and_no_more(tmp_path: Path, blobs: BlobStore) -> None:
    """Pieces until it is full; the same pieces again and other teams have room; a failed upload takes none."""
    room = quotas(tmp_path / "uploads", blobs, set())
    for number in range(5):
        await put(room, blobs, number)
        await put(room, blobs, 0)
    with pytest.raises(QuotaError, match="at most 5000, this would be 6000") as refusal:
        await put(room, blobs, 5)
    assert (refusal.value.most, refusal.value.wanted) == (5000, 6000)
    for number in range(10, 15):
        await put(room, blobs, number, "team:speech")
    with pytest.raises(QuotaError):
        await put(room, blobs, 15, "team:speech")


async def test_blobs_of_a_byte_take_no_more_room_than_they_count_as(tmp_path: Path, blobs: BlobStore) -> None:
    """A file takes a block and a name: millions of tiny ones would fill the disk within a quota of bytes."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    room = UploadQuotas(folder, blobs, set, most_bytes=5 * PIECE, most_parts=3, least_bytes=PIECE)

    async def put_byte(number: int) -> None:
        sha256 = hashlib.sha256(bytes([number])).hexdigest()
        async with room.room_for("team:text", sha256, 1):
            blobs.put(sha256, bytes([number]))

    for number in range(5):
        await put_byte(number)
    with pytest.raises(QuotaError):
        await put_byte(5)


async def test_a_team_whose_room_is_counted_holds_up_no_other(tmp_path: Path, blobs: BlobStore) -> None:
    """At a team's bound the whole tree is read: meanwhile another team uploads."""
    folder = tmp_path / "uploads"
    folder.mkdir()
    loop, is_counted, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def read_tree() -> set[str]:
        loop.call_soon_threadsafe(is_counted.set)
        may_end.wait()
        return set()

    room = UploadQuotas(folder, blobs, read_tree, most_bytes=PIECE, most_parts=3)
    await put(room, blobs, 0)
    full = asyncio.create_task(put(room, blobs, 1))
    try:
        await is_counted.wait()
        async with asyncio.timeout(60):
            await put(room, blobs, 2, "team:speech")
    finally:
        may_end.set()
    with pytest.raises(QuotaError):
        await full


async def test_the_same_blob_again_and_again_is_noted_once(tmp_path: Path, blobs: BlobStore) -> None:
    """Or the note would grow by a line each time, and every upload reads all of it."""
    folder = tmp_path / "uploads"
    room = quotas(folder, blobs, set())
    for _ in range(20):
        await put(room, blobs, 0)
    (note,) = folder.glob("*.noted")
    assert len(note.read_text(encoding="ascii").splitlines()) == 1


async def test_uploads_under_way_count(tmp_path: Path, blobs: BlobStore) -> None:
    """What they announced, not what came: many at once are no way around."""
    room = quotas(tmp_path / "uploads", blobs, set())
    held: list[AbstractAsyncContextManager[None]] = []
    for number in range(5):
        held.append(room.room_for("team:text", f"{number:064x}", PIECE))
        await held[-1].__aenter__()
    with pytest.raises(QuotaError):
        await put(room, blobs, 7)
    error = RuntimeError("cut off")
    for one in held:
        assert not await one.__aexit__(RuntimeError, error, None)
    await put(room, blobs, 7)


async def test_unfinished_uploads_count(tmp_path: Path, blobs: BlobStore) -> None:
    """Their bytes and their number."""
    folder = tmp_path / "uploads"
    room = quotas(folder, blobs, set())
    key = hashlib.sha256(b"team:text").hexdigest()[:16]
    for number in range(2):
        (folder / f"{key}-{number:064x}.part").write_bytes(bytes(2 * PIECE))
    await put(room, blobs, 0)
    with pytest.raises(QuotaError, match="bytes"):
        await put(room, blobs, 1)
    for number in range(3):
        (folder / f"{key}-{number:064x}.part").write_bytes(b"x")
    with pytest.raises(QuotaError, match="unfinished uploads"):
        await put(room, blobs, 1)


async def test_what_is_published_takes_no_room_of_the_team(tmp_path: Path, blobs: BlobStore) -> None:
    """Nor what was collected."""
    named: set[str] = set()
    room = quotas(tmp_path / "uploads", blobs, named)
    stored = [await put(room, blobs, number) for number in range(5)]
    named.update(stored[:2])
    blobs.remove(stored[2])
    for number in range(5, 8):
        await put(room, blobs, number)
    with pytest.raises(QuotaError):
        await put(room, blobs, 8)


async def test_a_restart_forgets_nothing(tmp_path: Path, blobs: BlobStore) -> None:
    """Not even one that cut a line short."""
    folder = tmp_path / "uploads"
    for number in range(5):
        await put(quotas(folder, blobs, set()), blobs, number)
    (note,) = folder.glob("*.noted")
    with note.open("a") as file:
        file.write('["0000')
    with pytest.raises(QuotaError):
        await put(quotas(folder, blobs, set()), blobs, 5)


async def test_a_server_tells_a_team_its_bound(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RESOURCE_EXHAUSTED with the figure and the bound, before the bytes are sent; a published version frees it."""
    monkeypatch.setattr(limits, "UPLOADED_BYTES", 5 * PIECE)
    monkeypatch.setattr(limits, "UPLOAD_LEAST_BYTES", PIECE)
    async with run_server(own_world) as running:

        def attack() -> None:
            with PlatformClient(running.grpc_address, own_world.token("team:text")) as team:
                for _ in range(5):
                    team.upload_blob(os.urandom(PIECE // 2))
                with pytest.raises(TooLargeError, match="at most 5000, this would be 6000") as refusal:
                    team.upload_blob(os.urandom(PIECE // 2))
                assert refusal.value.kind == "QuotaError"

        await asyncio.to_thread(attack)


async def test_blobs_that_nothing_names_go_by_themselves(
    own_world: ServerWorld, run_server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day after they came, with the server's own loop."""
    blobs = own_world.tree.blobs
    sha256 = hashlib.sha256(b"noise").hexdigest()
    await asyncio.to_thread(blobs.put, sha256, b"noise")
    path = own_world.data_dir / "tree" / "blobs" / sha256
    old_s = time.time() - garbage_collection.GRACE_S - 10
    await asyncio.to_thread(os.utime, path, (old_s, old_s))
    monkeypatch.setattr(limits, "COLLECT_S", 0.05)
    async with run_server(own_world):
        async with asyncio.timeout(60):
            while await asyncio.to_thread(blobs.has, sha256):  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.05)
