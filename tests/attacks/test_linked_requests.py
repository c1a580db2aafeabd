"""Somebody reads the logs of the server, or of the network, and ties requests of one device together."""

import pytest
from alcove.sdk.limits import CHUNK_BYTES
from alcove.sdk.testing import fake_program

from tests.sdk.conftest import Device, TreeServer

SIZE = 5 * CHUNK_BYTES + 77


@pytest.mark.parametrize(
    "cut", [1, 77, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 12_345, SIZE - 1]
)
def test_download_goes_on_at_a_multiple_of_64_kib_wherever_it_broke(
    device: Device, server: TreeServer, cut: int
) -> None:
    """The number in `Range` is one of a few that all devices use; so is what a device asks for in all other headers."""
    client = device.client(server.url, transport=None)
    assert client.sync().error is None
    device.world.push("3.0.0", fake_program("three", size_bytes=SIZE))
    device.world.set_policy("3.0.0")
    blob = device.world.blob("3.0.0")
    whole = blob.read_bytes()
    blob.chmod(0o600)
    blob.write_bytes(whole[:cut])
    assert client.sync().error is not None
    blob.write_bytes(whole)
    server.seen.clear()
    assert client.sync().error is None
    (headers,) = [headers for _, path, headers in server.seen if path == f"/blobs/{blob.name}"]
    start = cut - cut % CHUNK_BYTES
    expected = {"Host", "User-Agent", "Accept", "Accept-Encoding"} | ({"Range"} if start else set())
    assert set(headers) == expected
    assert headers.get("Range", "bytes=0-") == f"bytes={start}-"
    assert device.answer(client) == "three 3.0.0 default"
