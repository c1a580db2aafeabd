"""Is a blob the bytes of its name, whatever happens while it is stored?"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.registry.blobs import ObjectBlobStore, open_blob_store
from alcove.registry.errors import IntegrityError, MissingTarget, StorageError
from obstore.store import MemoryStore

DATA = bytes(range(256)) * 40_000  # 10 MB: more than one part
NAME = hashlib.sha256(DATA).hexdigest()


def pieces(data: bytes) -> Iterator[bytes]:
    """As a stream brings them."""
    for start in range(0, len(data), 65_536):
        yield data[start : start + 65_536]


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectBlobStore:
    """A local store and one of another kind."""
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

    def broken() -> Iterator[bytes]:
        yield DATA[:8_000_000]
        msg = "peer went away"
        raise ConnectionResetError(msg)

    with pytest.raises((StorageError, ConnectionResetError), match="peer went away"):
        store.put(NAME, broken())
    assert not store.has(NAME)
    store.put(NAME, DATA)
    assert store.get(NAME) == DATA


def test_absent_blob_is_named(store: ObjectBlobStore) -> None:
    """The error carries the path."""
    with pytest.raises(MissingTarget) as caught:
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


def test_store_opens_at_a_url_and_refuses_what_it_cannot_make(tmp_path: Path) -> None:
    """A folder, a file URL and memory; a file in the place of the folder is named."""
    open_blob_store(str(tmp_path / "by name")).put(NAME, DATA)
    assert open_blob_store((tmp_path / "by name").as_uri()).get(NAME) == DATA
    assert not open_blob_store("memory:///").has(NAME)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as caught:
        open_blob_store(tmp_path / "file")
    assert caught.value.path == str(tmp_path / "file")
