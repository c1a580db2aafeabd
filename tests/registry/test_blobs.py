"""Blob stores return exactly the bytes that a digest names, or a typed error, whatever interrupts or damages them."""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.platform.testing.s3 import S3Server
from alcove.registry.blobs import ObjectBlobStore, open_blob_store
from alcove.registry.errors import IntegrityError, MissingTargetError, StorageError
from obstore.store import MemoryStore

DATA = bytes(range(256)) * 40_000  # 10 MB: more than one part
NAME = hashlib.sha256(DATA).hexdigest()


def pieces(data: bytes) -> Iterator[bytes]:
    """As a stream brings them."""
    for start in range(0, len(data), 65_536):
        yield data[start : start + 65_536]


@pytest.fixture(params=["folder", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectBlobStore:
    """A local store and those of other kinds."""
    if request.param == "s3":
        s3: S3Server = request.getfixturevalue("s3")
        return open_blob_store(s3.bucket() + "/some/prefix")
    return open_blob_store(tmp_path / "blobs") if request.param == "folder" else ObjectBlobStore(MemoryStore())


def test_blob_comes_back_whole_or_in_pieces(store: ObjectBlobStore) -> None:
    """Stored twice, it is there once."""
    assert not store.has(NAME)
    assert store.size_bytes(NAME) is None
    assert store.put(NAME, pieces(DATA)) == len(DATA)
    assert store.put(NAME, DATA) == len(DATA)
    assert store.get(NAME) == DATA
    assert store.size_bytes(NAME) == len(DATA)
    empty = hashlib.sha256(b"").hexdigest()
    assert store.put(empty, b"") == 0
    assert store.get(empty) == b""


def test_bytes_with_another_digest_store_nothing(store: ObjectBlobStore) -> None:
    """Neither name exists afterwards."""
    for data in (DATA + b"x", DATA[:-1], b""):
        with pytest.raises(IntegrityError) as caught:
            store.put(NAME, pieces(data))
        assert (caught.value.expected, caught.value.seen) == (NAME, hashlib.sha256(data).hexdigest())
        assert not store.has(NAME)


def test_stream_that_breaks_off_stores_nothing(store: ObjectBlobStore) -> None:
    """The source's own error comes through, and the upload can be repeated."""

    def raise_error() -> Iterator[bytes]:
        yield DATA[:8_000_000]
        msg = "peer went away"
        raise ConnectionResetError(msg)

    with pytest.raises((StorageError, ConnectionResetError), match="peer went away"):
        store.put(NAME, raise_error())
    assert not store.has(NAME)
    store.put(NAME, DATA)
    assert store.get(NAME) == DATA


def test_absent_blob_is_named(store: ObjectBlobStore) -> None:
    """The error carries the path."""
    with pytest.raises(MissingTargetError) as caught:
        store.get(NAME)
    assert caught.value.path == f"blobs/{NAME}"


@pytest.mark.parametrize("name", ["", "../../etc/passwd", NAME.upper(), NAME[:-1], NAME + "/x", f"{NAME}\n"])
def test_name_that_is_no_digest_never_reaches_the_store(store: ObjectBlobStore, name: str) -> None:
    """For every method."""
    for call in (store.get, store.has, store.size_bytes, lambda text: store.put(text, b"")):
        with pytest.raises(ValueError, match="64 hex digits"):
            call(name)


def test_rotten_blob_is_refused(tmp_path: Path) -> None:
    """A flipped byte on the disk is found when the blob is read."""
    store = open_blob_store(tmp_path)
    store.put(NAME, DATA)
    (tmp_path / NAME).write_bytes(b"\0" + DATA[1:-1] + b"\0")
    with pytest.raises(IntegrityError, match=NAME):
        store.get(NAME)


def test_stored_blobs_are_listed_and_removed(store: ObjectBlobStore) -> None:
    """Each with its size and date; what is put again is young again; removing twice is harmless."""
    small = hashlib.sha256(b"small").hexdigest()
    assert list(store.list_blobs()) == []
    store.put(NAME, DATA)
    store.put(small, b"small")
    assert {(blob.sha256, blob.size_bytes) for blob in store.list_blobs()} == {(NAME, len(DATA)), (small, 5)}
    found = store.find(small)
    assert found is not None
    assert found in list(store.list_blobs())
    assert abs(found.stored_at_s - time.time()) < 3600
    for _ in range(2):
        store.remove(small)
        assert store.find(small) is None
    assert [blob.sha256 for blob in store.list_blobs()] == [NAME]
    assert store.get(NAME) == DATA


def test_part_of_a_blob_is_read(store: ObjectBlobStore) -> None:
    """From any offset on; beyond the end is an error."""
    store.put(NAME, DATA)
    assert store.read(NAME, 0, 10) == DATA[:10]
    assert store.read(NAME, 9_999_999, 5) == DATA[9_999_999:10_000_004]
    with pytest.raises(StorageError):
        store.read(NAME, len(DATA) - 1, 2)
    with pytest.raises(MissingTargetError):
        store.read("0" * 64, 0, 1)


def test_what_a_killed_put_left_is_no_blob_and_is_removed(tmp_path: Path) -> None:
    """Only what is old enough, and nothing else that lies there."""
    store = open_blob_store(tmp_path)
    store.put(NAME, DATA)
    for name in (f"{NAME}#1", f"{'0' * 64}#23", "README"):
        (tmp_path / name).write_bytes(b"half")
    assert [blob.sha256 for blob in store.list_blobs()] == [NAME]
    assert store.remove_remains(int(time.time()) - 3600) == 0
    assert store.remove_remains(int(time.time()) + 3600) == 2
    assert {path.name for path in tmp_path.iterdir()} == {NAME, "README"}


def test_remote_store_that_refuses_or_is_gone_is_named(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such bucket, nobody at the address: an error of ours for every method, without the keys."""
    stores = [open_blob_store("s3://no-such-bucket/x")]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    stores.append(open_blob_store("s3://bucket"))
    for store in stores:
        for call in (
            lambda store: store.put(NAME, DATA[:10]),
            lambda store: store.put(NAME, DATA),
            lambda store: store.get(NAME),
            lambda store: list(store.list_blobs()),
        ):
            with pytest.raises((StorageError, MissingTargetError, IntegrityError)) as caught:
                call(store)
            assert "testing-secret" not in str(caught.value)
    with pytest.raises(StorageError):
        open_blob_store("ftp://bucket")


def test_store_opens_at_a_url_and_refuses_what_it_cannot_make(tmp_path: Path) -> None:
    """A folder, a file URL and memory; a file in the place of the folder is named."""
    open_blob_store(str(tmp_path / "by name")).put(NAME, DATA)
    assert open_blob_store((tmp_path / "by name").as_uri()).get(NAME) == DATA
    assert not open_blob_store("memory:///").has(NAME)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as caught:
        open_blob_store(tmp_path / "file")
    assert caught.value.path == str(tmp_path / "file")
