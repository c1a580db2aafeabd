"""Where do programs and cards lie?  In any object store, each under the SHA-256 of its bytes."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from alcove.registry.errors import IntegrityError, MissingTarget, StorageError
from alcove.registry.files import DISK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from obstore.store import ObjectStore

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class BlobStore(Protocol):
    """Bytes by content; what was put once never changes."""

    def put(self, sha256: str, data: bytes | Iterable[bytes]) -> int:
        """Store bytes, whole or in pieces, under their digest; return their number.  Putting again is harmless."""
        ...

    def get(self, sha256: str) -> bytes:
        """Return the bytes, verified against their digest."""
        ...

    def read(self, sha256: str, start: int, size_bytes: int) -> bytes:
        """Return a part of the bytes, which the caller must verify."""
        ...

    def has(self, sha256: str) -> bool:
        """Tell whether the blob is there."""
        ...

    def size_bytes(self, sha256: str) -> int | None:
        """Return the blob's size, or None if it is absent."""
        ...


class ObjectBlobStore:
    """A blob store on obstore: a local folder, S3 and its kin, or memory."""

    def __init__(self, store: ObjectStore, *, folder: Path | None = None) -> None:
        """Keep blobs in `store`; `folder` is where a local store lies, so that its files can be synced."""
        self._store = store
        self._folder = folder

    def put(self, sha256: str, data: bytes | Iterable[bytes]) -> int:
        """Store bytes under their digest and return their number; a wrong digest stores nothing.

        Raises:
            IntegrityError: the bytes have another digest.
            StorageError: the store failed.
            ValueError: `sha256` is not 64 hex digits.
        """
        checked = _Checked(_digest(sha256), (data,) if isinstance(data, bytes) else data)
        try:
            # The digest is judged after the last piece and before the store finishes the object: an exception from
            # the iterator makes obstore abandon the upload.
            self._store.put(sha256, iter(checked))
            if self._folder is not None:
                _sync_file(self._folder / sha256)
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", str(error)) from error
        return checked.size_bytes

    def get(self, sha256: str) -> bytes:
        """Return the bytes, verified against their digest.

        Raises:
            MissingTarget: there is no such blob.
            IntegrityError: the stored bytes have another digest.
            StorageError: the store failed.
            ValueError: `sha256` is not 64 hex digits.
        """
        try:
            data = bytes(self._store.get(_digest(sha256)).bytes())
        except FileNotFoundError:
            raise MissingTarget(f"blobs/{sha256}") from None
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", str(error)) from error
        seen = hashlib.sha256(data).hexdigest()
        if seen != sha256:
            raise IntegrityError(f"blob {sha256}", expected=sha256, seen=seen)
        return data

    def read(self, sha256: str, start: int, size_bytes: int) -> bytes:
        """Return `size_bytes` bytes of the blob from `start` on; only the digest of the whole tells whether they hold.

        Raises:
            MissingTarget: there is no such blob.
            StorageError: the store failed, or has fewer bytes.
            ValueError: `sha256` is not 64 hex digits.
        """
        try:
            data = bytes(self._store.get_range(_digest(sha256), start=start, length=size_bytes))
        except FileNotFoundError:
            raise MissingTarget(f"blobs/{sha256}") from None
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", str(error)) from error
        if len(data) != size_bytes:
            raise StorageError(f"blob {sha256}", f"{size_bytes} bytes from {start} on were expected, {len(data)} came")
        return data

    def has(self, sha256: str) -> bool:
        """Tell whether the blob is there.

        Raises:
            StorageError: the store failed.
            ValueError: `sha256` is not 64 hex digits.
        """
        return self.size_bytes(sha256) is not None

    def size_bytes(self, sha256: str) -> int | None:
        """Return the blob's size, or None if it is absent.

        Raises:
            StorageError: the store failed.
            ValueError: `sha256` is not 64 hex digits.
        """
        try:
            return int(self._store.head(_digest(sha256))["size"])
        except FileNotFoundError:
            return None
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", str(error)) from error


def open_blob_store(location: Path | str) -> ObjectBlobStore:
    """Return the store at a local folder (made where absent) or at a URL that obstore knows ("s3://bucket/prefix").

    Raises:
        StorageError: the folder cannot be made.
        ValueError: a URL of an unknown kind.
    """
    from obstore.store import LocalStore, from_url  # noqa: PLC0415 - only the platform extra installs it

    if isinstance(location, str) and "://" in location:
        return ObjectBlobStore(from_url(location))
    folder = Path(location)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(str(folder), error.strerror or str(error)) from error
    return ObjectBlobStore(LocalStore(folder), folder=folder)


class _Checked:
    """Passes pieces on and judges their digest at the end."""

    def __init__(self, sha256: str, pieces: Iterable[bytes]) -> None:
        self._sha256 = sha256
        self._pieces = pieces
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for piece in self._pieces:
            digest.update(piece)
            self.size_bytes += len(piece)
            yield piece
        seen = digest.hexdigest()
        if seen != self._sha256:
            raise IntegrityError(f"blob {self._sha256}", expected=self._sha256, seen=seen)


def _digest(sha256: str) -> str:
    # The name becomes a path: nothing but a digest may reach the store.
    if not _DIGEST.fullmatch(sha256):
        msg = f"a blob is named by 64 hex digits, got {sha256!r}"
        raise ValueError(msg)
    return sha256


def _backend_error() -> type[Exception]:
    from obstore.exceptions import BaseError  # noqa: PLC0415

    return BaseError


def _sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    DISK.sync_folder(path.parent)
