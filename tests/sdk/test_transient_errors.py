"""A device keeps its old version when the server, network or an attacker serves it wrong data, and then recovers."""

import shutil
from collections.abc import Callable

import pytest
from alcove.registry.errors import ExpiredMetadataError, MetadataError, RollbackError
from alcove.sdk import IntegrityError, StatusError, TransportError
from alcove.sdk.limits import CHUNK_BYTES
from alcove.sdk.testing import fake_program

from tests.sdk.conftest import FEATURE, Device, TreeServer

MakeDevice = Callable[..., Device]
DAY = 86_400
BIG = 5 * CHUNK_BYTES + 77


@pytest.fixture
def updating_device(device: Device) -> Device:
    """A device on 1.0.0 whose policy now says 3.0.0, a version of several chunks."""
    device.client().sync()
    device.world.push("3.0.0", fake_program("three", size_bytes=BIG))
    device.world.set_policy("3.0.0")
    return device


def test_blob_tampered_at_every_chunk_boundary_is_refused(updating_device: Device) -> None:
    """One flipped bit anywhere: a named error with expected and seen, the old version continues, then it heals."""
    blob = updating_device.world.blob("3.0.0")
    data = blob.read_bytes()
    client = updating_device.client()
    boundaries = [edge + side for edge in range(0, len(data), CHUNK_BYTES) for side in (-1, 0)]
    for position in [*(p for p in boundaries if 0 <= p < len(data)), len(data) - 1]:
        blob.chmod(0o600)
        blob.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        result = client.sync()
        assert isinstance(result.error, IntegrityError), position
        assert result.error.thing == f"blob {blob.name}"
        assert result.error.expected == blob.name
        assert len(result.error.seen) == 64
        assert (result.refused[0].feature, result.refused[0].version) == (FEATURE, "3.0.0")
        assert updating_device.answer(client) == "one 1.0.0 default"
    blob.write_bytes(data)
    assert client.sync().error is None
    assert updating_device.answer(client) == "three 3.0.0 default"


def test_longer_blob_is_refused_and_not_read_to_its_end(updating_device: Device) -> None:
    """A server that sends more than was signed is cut off."""
    blob = updating_device.world.blob("3.0.0")
    data = blob.read_bytes()
    blob.write_bytes(data + b"x" * 10 * CHUNK_BYTES)
    client = updating_device.client()
    result = client.sync()
    assert isinstance(result.error, IntegrityError)
    assert str(len(data)) in result.error.expected
    assert result.bytes_received < len(data) + 3 * CHUNK_BYTES
    blob.write_bytes(data)
    assert client.sync().error is None


def test_truncated_blob_is_an_error_until_it_is_whole(updating_device: Device) -> None:
    """A file that ends early is transient failures; what came is kept and hashed again."""
    blob = updating_device.world.blob("3.0.0")
    data = blob.read_bytes()
    blob.write_bytes(data[: 2 * CHUNK_BYTES])
    client = updating_device.client()
    assert isinstance(client.sync().error, TransportError)
    assert updating_device.answer(client) == "one 1.0.0 default"
    blob.write_bytes(data)
    assert client.sync().error is None


@pytest.mark.parametrize("size", [1, CHUNK_BYTES, BIG, BIG + 1000])
def test_started_download_of_wrong_bytes_heals(updating_device: Device, size: int) -> None:
    """What lies in downloads/ is trusted for nothing (slots.py, I5): at worst one sync is lost."""
    part = updating_device.folder / "downloads" / f"{updating_device.world.blob('3.0.0').name}.part"
    part.write_bytes(b"x" * size)
    client = updating_device.client()
    error = client.sync().error
    if CHUNK_BYTES <= size <= BIG:  # less than a chunk is not gone on from
        assert isinstance(error, IntegrityError)
        assert updating_device.answer(client) == "one 1.0.0 default"
        error = client.sync().error
    assert error is None
    assert updating_device.answer(client) == "three 3.0.0 default"


def test_missing_blob_leaves_the_old_version(updating_device: Device) -> None:
    """A blob that is not there is named; nothing else changes."""
    updating_device.world.blob("3.0.0").unlink()
    client = updating_device.client()
    result = client.sync()
    assert isinstance(result.error, StatusError)
    assert (result.error.status, result.error.path) == (404, f"/blobs/{updating_device.world.blob('3.0.0').name}")
    assert updating_device.answer(client) == "one 1.0.0 default"


@pytest.mark.parametrize("folder", ["metadata", "targets"])
def test_every_tampered_file_of_the_tree_is_refused(updating_device: Device, folder: str) -> None:
    """Flip a byte in the middle of each signed file in turn: the old version continues, and healing works."""
    client = updating_device.client()
    pristine = updating_device.folder.with_name("pristine")
    shutil.copytree(updating_device.folder, pristine)
    for path in sorted((updating_device.world.folder / folder).rglob("*.json")):
        shutil.rmtree(updating_device.folder)
        shutil.copytree(pristine, updating_device.folder)
        client = updating_device.client()
        data = path.read_bytes()
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        result = client.sync()
        if result.error is None:
            assert result.changed[0].after == "3.0.0", path  # a file that this sync did not need
        else:
            assert updating_device.answer(client) == "one 1.0.0 default"
        path.write_bytes(data)
        assert client.sync().error is None, path
        assert updating_device.answer(client) == "three 3.0.0 default"


@pytest.mark.parametrize("block", [4096, pytest.param(1024, marks=pytest.mark.thorough)])
def test_server_that_dies_at_every_block_of_a_sync_loses_nothing(
    updating_device: Device, server: TreeServer, block: int
) -> None:
    """The connection is closed after each k-th block of the whole sync: old version, then the rest, then new."""
    pristine = updating_device.folder.with_name("pristine")
    shutil.copytree(updating_device.folder, pristine)
    outcomes = set()
    budget = 0
    while "whole" not in outcomes:
        shutil.rmtree(updating_device.folder)
        shutil.copytree(pristine, updating_device.folder)
        client = updating_device.client(server.url, transport=None)
        server.budget = budget
        result = client.sync()
        if result.error is None:
            outcomes.add("whole")
        else:
            outcomes.add(type(result.error).__name__)
            assert updating_device.answer(client) == "one 1.0.0 default", budget
            server.budget = None
            assert client.sync().error is None, budget
        assert updating_device.answer(client) == "three 3.0.0 default", budget
        client.close()
        budget += block if budget < 20_000 else 16 * block
    assert outcomes == {"whole", "FetchError", "TransportError"}


def test_broken_download_continues_where_it_ended(updating_device: Device, server: TreeServer) -> None:
    """The second request asks for the rest by a range, from a multiple of 64 KiB on, and only that is sent."""
    client = updating_device.client(server.url, transport=None)
    blob = updating_device.world.blob("3.0.0")
    server.budget = 100_000
    assert isinstance(client.sync().error, TransportError)
    part = updating_device.folder / "downloads" / f"{blob.name}.part"
    have = part.stat().st_size
    assert 0 < have < BIG
    server.budget = None
    result = client.sync()
    assert result.error is None
    start = have - have % CHUNK_BYTES
    assert result.bytes_received < BIG - start + 20_000
    ranges = [headers.get("Range") for _, path, headers in server.seen if path.endswith(blob.name)]
    assert ranges == [None, f"bytes={start}-"]


def test_server_that_ignores_ranges_sends_the_whole_again(updating_device: Device, server: TreeServer) -> None:
    """A plain server works too: the download begins again."""
    client = updating_device.client(server.url, transport=None)
    server.ignores_range = True
    server.budget = 100_000
    client.sync()
    server.budget = None
    assert client.sync().error is None
    assert updating_device.answer(client) == "three 3.0.0 default"


def test_no_server_at_all_is_a_typed_result(updating_device: Device, server: TreeServer) -> None:
    """Nobody listens: an error, no exception, and the old version."""
    client = updating_device.client(server.url, transport=None)
    server.close()
    result = client.sync()
    assert result.error is not None
    assert "refused" in str(result.error)
    assert updating_device.answer(client) == "one 1.0.0 default"


def test_expired_tree_is_refused_and_the_old_version_continues(updating_device: Device) -> None:
    """Metadata two days old: typed, with the role; fresh metadata heals."""
    client = updating_device.client()
    updating_device.clock.time_s += 2 * DAY
    result = client.sync()
    assert isinstance(result.error, ExpiredMetadataError)
    assert result.error.role == "timestamp"
    assert updating_device.answer(client) == "one 1.0.0 default"
    updating_device.world.clock.time_s += 2 * DAY
    updating_device.world.tree.refresh()
    assert client.sync().error is None
    assert updating_device.answer(client) == "three 3.0.0 default"


@pytest.mark.parametrize("years", [10, -10])
def test_clock_ten_years_off_bricks_nothing(updating_device: Device, years: int) -> None:
    """The old version answers meanwhile; when clock and metadata are right again, syncs work."""
    client = updating_device.client()
    updating_device.clock.time_s += years * 365 * DAY
    result = client.sync()
    assert (result.error is None) == (years < 0)
    assert updating_device.answer(client) == ("three 3.0.0 default" if years < 0 else "one 1.0.0 default")
    updating_device.clock.time_s -= years * 365 * DAY
    for clock in (updating_device.clock, updating_device.world.clock):
        clock.time_s += 13 * 3600
    updating_device.world.tree.refresh()
    assert client.sync().error is None
    assert updating_device.answer(client) == "three 3.0.0 default"


def test_rolled_back_tree_is_refused(updating_device: Device) -> None:
    """A server that shows yesterday's signed tree again is caught."""
    yesterday = updating_device.world.folder.with_name("yesterday")
    shutil.copytree(updating_device.world.folder, yesterday)
    updating_device.world.set_policy("2.0.0")
    client = updating_device.client()
    assert client.sync().error is None
    updating_device.transport.folder = yesterday
    result = client.sync()
    assert isinstance(result.error, RollbackError)
    assert updating_device.answer(client) == "two 2.0.0 default"


def test_tree_of_somebody_else_is_refused(updating_device: Device, make_device: MakeDevice) -> None:
    """Another root's tree, whole and valid in itself, is not this app's; the error asks for the right root."""
    from tests.sdk.conftest import make_world

    stranger = make_world(updating_device.folder.with_name("stranger"))
    stranger.push("9.0.0", fake_program("evil"))
    stranger.set_policy("9.0.0")
    updating_device.transport.folder = stranger.folder
    for device in (updating_device, make_device(updating_device.world, "fresh")):
        device.transport.folder = stranger.folder
        client = device.client()
        error = client.sync().error
        assert isinstance(error, MetadataError)
        assert "is trusted_root the root.json of this server's tree?" in str(error)
        assert device.answer(client) != "evil 9.0.0 default"
