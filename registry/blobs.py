"""Stores programs and cards in any object store, each under the SHA-256 of its bytes."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from alcove.registry.errors import IntegrityError, MissingTargetError, StorageError
from alcove.runtime.files import DISK, sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from obstore import ObjectMeta
    from obstore.store import ObjectStore, RetryConfig

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_REMAINS: Final = re.compile(r"[0-9a-f]{64}#[0-9a-f]+")  # a blob in a folder before it has its name
_LOCAL: Final = ("file:", "memory:")
# A caller waits: better an error that says "repeat" than three minutes of silence, which are obstore's own choice.
_RETRY: Final[RetryConfig] = {"max_retries": 3, "retry_timeout": timedelta(seconds=15)}


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """One blob.

    Attributes:
        sha256: its name.
        size_bytes: its length.
        stored_at_s: seconds since 1970 of the last put, by the store's own clock.
    """

    sha256: str
    size_bytes: int
    stored_at_s: int


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

    def find(self, sha256: str) -> StoredBlob | None:
        """Return the blob's size and date, or None if it is absent."""
        ...

    def list_blobs(self) -> Iterator[StoredBlob]:
        """Give every blob, in no order."""
        ...

    def renew(self, sha256: str) -> bool:
        """Date a blob again; return False where it is absent."""
        ...

    def remove(self, sha256: str) -> None:
        """Remove a blob; removing again is harmless."""
        ...

    def remove_remains(self, before_s: int) -> int:
        """Remove what puts that were killed before a time have left; return how many."""
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
            if self._folder is None:
                # The digest is judged after the last piece and before the store finishes the object: an exception
                # from the iterator makes obstore abandon the upload.
                self._store.put(sha256, iter(checked))
            else:
                _put_file(self._folder / sha256, checked)
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", _reason(error)) from error
        return checked.size_bytes

    def get(self, sha256: str) -> bytes:
        """Return the bytes, verified against their digest.

        Raises:
            MissingTargetError: there is no such blob.
            IntegrityError: the stored bytes have another digest.
            StorageError: the store failed.
            ValueError: `sha256` is not 64 hex digits.
        """
        try:
            data = bytes(self._store.get(_digest(sha256)).bytes())
        except FileNotFoundError:
            raise MissingTargetError(f"blobs/{sha256}") from None
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", _reason(error)) from error
        seen = hashlib.sha256(data).hexdigest()
        if seen != sha256:
            raise IntegrityError(f"blob {sha256}", expected=sha256, seen=seen)
        return data

    def read(self, sha256: str, start: int, size_bytes: int) -> bytes:
        """Return `size_bytes` bytes of the blob from `start` on; only the digest of the whole tells whether they hold.

        Raises:
            MissingTargetError: there is no such blob.
            StorageError: the store failed, or has fewer bytes.
            ValueError: `sha256` is not 64 hex digits.
        """
        try:
            data = bytes(self._store.get_range(_digest(sha256), start=start, length=size_bytes))
        except FileNotFoundError:
            raise MissingTargetError(f"blobs/{sha256}") from None
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", _reason(error)) from error
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
        found = self.find(sha256)
        return None if found is None else found.size_bytes

    def find(self, sha256: str) -> StoredBlob | None:
        """Return the blob's size and date, or None if it is absent.

        Raises:
            StorageError: the store failed.
            ValueError: `sha256` is not 64 hex digits.
        """
        try:
            return _to_stored(self._store.head(_digest(sha256)))
        except FileNotFoundError:
            return None
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", _reason(error)) from error

    def list_blobs(self) -> Iterator[StoredBlob]:
        """Give every blob, in no order; objects with other names are none of ours and are passed over.

        Raises:
            StorageError: the store failed.
        """
        try:
            for objects in self._store.list():
                yield from (_to_stored(item) for item in objects if _DIGEST.fullmatch(item["path"]))
        except (OSError, _backend_error()) as error:
            raise StorageError("blobs", _reason(error)) from error

    def renew(self, sha256: str) -> bool:
        """Date a blob again, as a put of the same bytes would; return False where it is absent.

        Raises:
            IntegrityError: the stored bytes have another digest.
            StorageError: the store failed.
            ValueError: `sha256` is not 64 hex digits.
        """
        try:
            if self._folder is not None:
                os.utime(self._folder / _digest(sha256))
            else:
                self.put(sha256, self.get(sha256))
        except (FileNotFoundError, MissingTargetError):
            return False
        except OSError as error:
            raise StorageError(f"blob {sha256}", _reason(error)) from error
        return True

    def remove(self, sha256: str) -> None:
        """Remove a blob; removing again is harmless.

        Raises:
            StorageError: the store failed.
            ValueError: `sha256` is not 64 hex digits.
        """
        try:
            self._store.delete(_digest(sha256))
        except FileNotFoundError:
            return
        except (OSError, _backend_error()) as error:
            raise StorageError(f"blob {sha256}", _reason(error)) from error

    def remove_remains(self, before_s: int) -> int:
        """Remove what puts that were killed before a time have left; return how many.

        In a folder these are files beside the blobs.  Elsewhere they are unfinished uploads, which only the store
        itself can list: a rule of the bucket ends them (docs/deploy/stores.md).

        Raises:
            StorageError: the folder cannot be read or changed.
        """
        removed = 0
        if self._folder is not None:
            try:
                for path in self._folder.iterdir():
                    if _REMAINS.fullmatch(path.name) and path.stat().st_mtime < before_s:
                        path.unlink(missing_ok=True)
                        removed += 1
            except OSError as error:
                raise StorageError(str(self._folder), error.strerror or str(error)) from error
        return removed


def open_blob_store(location: Path | str) -> ObjectBlobStore:
    """Return the store at a local folder (made where absent) or at a URL that obstore knows ("s3://bucket/prefix").

    What else a remote store needs (keys, region, endpoint) is in the environment, under its maker's own names.

    Raises:
        StorageError: the folder cannot be made, or the URL names no store.
    """
    from obstore.store import LocalStore, from_url  # noqa: PLC0415 - only the platform extra installs it

    if isinstance(location, str) and "://" in location:
        try:
            if location.startswith(_LOCAL):
                return ObjectBlobStore(from_url(location))
            return ObjectBlobStore(from_url(location, retry_config=_RETRY))
        except (ValueError, _backend_error()) as error:
            raise StorageError(location, _reason(error)) from error
    folder = Path(location)
    try:
        DISK.make_folder(folder)
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


def _to_stored(item: ObjectMeta) -> StoredBlob:
    return StoredBlob(item["path"], int(item["size"]), int(item["last_modified"].timestamp()))


def _backend_error() -> type[Exception]:
    from obstore.exceptions import BaseError  # noqa: PLC0415

    return BaseError


def _reason(error: Exception) -> str:
    """Return what a store said, without what obstore adds for its own developers."""
    text, _, _ = str(error).partition("Debug source:")
    return " ".join(text.split())


def _put_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that is whole and synced before it has its name.

    obstore names it first: a power cut could leave a blob that is there and is not its bytes, and uploading again would
    find it there.
    """
    temporary = path.with_name(f"{path.name}#{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            sync(file)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    DISK.sync_folder(path.parent)
