"""A server whose blobs are in an S3-compatible store: published there, read by devices through the server."""

import asyncio
import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.platform.client import PlatformClient, UnavailableError, push_package
from alcove.platform.ingress.serve import run_ingress
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.listening.http import listen_http
from alcove.platform.store import Store
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.s3 import S3Server
from alcove.registry import program_verification
from alcove.registry.blobs import ObjectBlobStore, open_blob_store
from alcove.registry.errors import StorageError
from alcove.registry.package import Package
from alcove.registry.repository import Repository
from alcove.registry.testing import FakeVerifier

TEAMS = {"text": ("text_00", "text_01")}
LARGE = b"program " + hashlib.shake_256(b"large").digest(3 * 2**20 + 17)


@pytest.fixture(autouse=True)
def pretended_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process, too, takes pretended programs for real ones."""
    monkeypatch.setattr(program_verification, "RuntimeVerifier", FakeVerifier)


@pytest.fixture
def url(s3: S3Server) -> str:
    """A prefix in a bucket."""
    return s3.bucket() + "/models"


@pytest.fixture
def remote(tmp_path: Path) -> ServerWorld:
    """A world of its own."""
    return ServerWorld(tmp_path / "remote", teams=TEAMS)


@pytest.fixture
def server(remote: ServerWorld, url: str) -> Iterator[Served]:
    """Its server, with blobs in the bucket."""
    started = remote.start("--blobs", url)
    yield started
    assert started.stop() == 0


def get(address: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Ask as a device; return status, body and headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(address, method=method, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read(), dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def publish(remote: ServerWorld, server: Served, package: Package) -> None:
    """Push a package."""
    with remote.client(server, "team:text") as team:
        push_package(team, package, remote.keys.teams["text"])


def test_a_version_is_published_into_the_bucket_and_read_through_the_server(
    remote: ServerWorld, server: Served, url: str
) -> None:
    """Whole, in parts, unchanged, absent; nothing of it lies in the data folder, and the tree is proved with it."""
    package = remote.package("text_00", program=LARGE)
    publish(remote, server, package)
    assert not list((remote.data_dir / "tree").glob("blobs/*"))
    sha256 = hashlib.sha256(LARGE).hexdigest()
    address = f"{server.http_url}/blobs/{sha256}"
    status, body, headers = get(address)
    assert (status, body) == (200, LARGE)
    assert headers["ETag"] == f'"{sha256}"'
    assert "immutable" in headers["Cache-Control"]
    status, body, headers = get(address, "HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(LARGE)))
    for wanted, start, stop in (
        ("bytes=0-0", 0, 1),
        ("bytes=5-", 5, len(LARGE)),
        ("bytes=-7", len(LARGE) - 7, len(LARGE)),
        ("bytes=1048570-1048590", 1048570, 1048591),
        ("bytes=100-999999999", 100, len(LARGE)),
    ):
        status, body, headers = get(address, Range=wanted)
        assert (status, body) == (206, LARGE[start:stop]), wanted
        assert headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(LARGE)}"
        assert get(address, Range=wanted, If_Range=f'"{sha256}"')[0] == 206
        assert get(address, Range=wanted, If_Range='"another"')[:2] == (200, LARGE)
    assert get(address, Range=f"bytes={len(LARGE)}-")[0] == 416
    assert get(address, Range="bytes=0-1,5-6")[:2] == (200, LARGE)
    assert get(address, If_None_Match=f'"{sha256}"')[:2] == (304, b"")
    assert get(address, If_None_Match='"another"')[0] == 200
    for name in ("0" * 64, "0" * 63, sha256.upper(), f"{sha256}%2f"):
        assert get(f"{server.http_url}/blobs/{name}")[0] == 404
    assert Repository(remote.data_dir / "tree", blobs=open_blob_store(url)).check().is_sound


@pytest.mark.thorough
def test_pushing_and_reading_fail_clearly_while_the_bucket_is_gone(
    remote: ServerWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNAVAILABLE to the team, 503 to devices; metadata is served all the same, and nothing half is published."""
    own = S3Server.start()
    for name, value in own.environment().items():
        monkeypatch.setenv(name, value)
    first, second = remote.package("text_00"), remote.package("text_01")
    try:
        own_url = own.bucket()
        server = remote.start("--blobs", own_url)
        publish(remote, server, first)
    finally:
        own.stop()
    before = (remote.data_dir / "tree" / "metadata" / "timestamp.json").read_bytes()
    with pytest.raises(UnavailableError):
        publish(remote, server, second)
    (sha256, *_) = first.blobs()
    assert get(f"{server.http_url}/blobs/{sha256}")[0] == 503
    assert get(f"{server.http_url}/metadata/timestamp.json")[:2] == (200, before)
    assert "testing-secret" not in server.log.read_text()
    assert server.stop() == 0
    with pytest.raises(RuntimeError, match="belongs to this folder, and s3://gone was given"):
        remote.start("--blobs", "s3://gone")
    with pytest.raises(RuntimeError, match=f"--blobs {own_url}: "):
        remote.start("--blobs", own_url)


def test_a_store_that_fails_in_the_middle_cuts_the_download(
    remote: ServerWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A device never takes a part for the whole: the connection ends before its length is there."""
    blobs = open_blob_store(tmp_path / "elsewhere")
    sha256 = hashlib.sha256(LARGE).hexdigest()
    blobs.put(sha256, LARGE)
    whole = ObjectBlobStore.read

    def failing(self: ObjectBlobStore, name: str, start: int, size_bytes: int) -> bytes:
        if start > 2**20:
            raise StorageError(name, "gone")
        return whole(self, name, start, size_bytes)

    monkeypatch.setattr(ObjectBlobStore, "read", failing)
    settings = IngressSettings(data_dir=remote.data_dir, blobs=(tmp_path / "elsewhere").as_uri())

    async def download() -> None:
        await (await Store.open(settings.database)).close()
        with listen_http("127.0.0.1", 0) as listener:
            async with run_ingress(settings, listener) as running:
                with pytest.raises((http.client.HTTPException, OSError)):
                    await asyncio.to_thread(get, f"{running.http_url}/blobs/{sha256}")

    asyncio.run(download())


@pytest.mark.thorough
def test_uploads_to_the_bucket_are_repeated_in_vain_and_harmless(remote: ServerWorld, server: Served, url: str) -> None:
    """The same blob from several calls is one object."""
    with remote.client(server, "team:text") as team:
        assert isinstance(team, PlatformClient)
        assert len({team.upload_blob(LARGE) for _ in range(2)}) == 1
    assert [blob.size_bytes for blob in open_blob_store(url).list_blobs()] == [len(LARGE)]
