"""Receives uploads as blobs, without holding them in memory and without trusting their headers.

    bytes ─▶ a part, named by who sends it and by its digest ─▶ whole: digest compared ─▶ blob, part removed
                │ fewer bytes came: a cut, or the server was killed     │ it differs
                ▼                                                       ▼
             kept for a day; continues where it ended                refused, part removed

Nothing that came before a cut is trusted more than what comes after it: the digest is computed over all of it at the
end.  What is refused for anything but its length so far leaves nothing.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from alcove.platform.domain.errors import (
    BlobMismatchError,
    BlobTooLargeError,
    InvalidFieldError,
    OffsetError,
    UploadBusyError,
)
from alcove.registry.blobs import BlobStore
from alcove.registry.errors import StorageError
from alcove.registry.garbage_collection import RENEW_S
from alcove.registry.limits import PROGRAM_MAX_BYTES

__all__ = ["KEPT_S", "UPLOAD", "is_stored", "receive_blob", "received_bytes", "validate_size"]

KEPT_S: Final = 86_400.0  # seconds that an unfinished upload is kept; a later upload begins again
UPLOAD: Final = re.compile(r"[0-9a-f]{16}-[0-9a-f]{64}\.part|tmp\w+")  # names of the files that this module makes
_PIECE_BYTES: Final = 1024 * 1024


async def receive_blob(
    blobs: BlobStore,
    folder: Path,
    *,
    sender: str,
    sha256: str,
    size_bytes: int,
    chunks: AsyncIterator[bytes],
    offset_bytes: int = 0,
) -> None:
    """Store an upload under its digest.

    Args:
        blobs: where it goes.
        folder: where parts lie, on the same disk as temporary files; must exist.
        sender: whose part it is; nobody else's bytes are mixed with it.
        sha256: announced digest of the whole, 64 hex digits.
        size_bytes: announced length of the whole.
        chunks: the bytes from `offset_bytes` on, in order; read to the end or to the first refusal.
        offset_bytes: where they begin; at most what is there (`received_bytes`).

    Raises:
        InvalidFieldError: the announced length is not in the limits.
        OffsetError: there is a gap between what is there and the offset.
        UploadBusyError: another upload of the same bytes by the same sender is under way.
        BlobTooLargeError: more bytes came than announced.
        BlobMismatchError: fewer bytes came (they are kept), or their digest is another.
        StorageError: the disk failed.
    """
    validate_size(size_bytes)
    await asyncio.to_thread(_forget_old, folder)
    path = _part(folder, sender, sha256)
    file = await asyncio.to_thread(_open, path, sha256, offset_bytes)
    try:
        digest = await asyncio.to_thread(_go_on, file, offset_bytes, size_bytes)
        await _receive(file, digest, chunks, sha256=sha256, start_bytes=offset_bytes, size_bytes=size_bytes)
        await asyncio.to_thread(_store, blobs, sha256, file)
    except Exception as error:
        # What was cut off continues later (a cancelled call is no Exception); what was refused is forgotten.
        if not _may_go_on(error, file):
            _forget(path, file)
        if isinstance(error, OSError):
            raise StorageError(str(path), error.strerror or str(error)) from error
        raise
    else:
        _forget(path, file)
    finally:
        file.close()


def validate_size(size_bytes: int) -> None:
    """Check the announced length of an upload.

    Raises:
        InvalidFieldError: it is not in the limits.
    """
    if not 1 <= size_bytes <= PROGRAM_MAX_BYTES:
        raise InvalidFieldError("header.size_bytes", f"1 to {PROGRAM_MAX_BYTES}", size_bytes)


async def _receive(
    file: BinaryIO,
    digest: "hashlib._Hash",
    chunks: AsyncIterator[bytes],
    *,
    sha256: str,
    start_bytes: int,
    size_bytes: int,
) -> None:
    received = start_bytes
    async for chunk in chunks:
        received += len(chunk)
        if received > size_bytes:
            raise BlobTooLargeError(size_bytes, received)
        await asyncio.to_thread(_append, file, digest, chunk)
    if received != size_bytes:
        raise BlobMismatchError("size_bytes", str(size_bytes), str(received))
    if digest.hexdigest() != sha256:
        raise BlobMismatchError("sha256", sha256, digest.hexdigest())


def received_bytes(folder: Path, *, sender: str, sha256: str) -> int:
    """Return how many bytes of an unfinished upload are there; 0: none."""
    try:
        return _part(folder, sender, sha256).stat().st_size
    except FileNotFoundError:
        return 0


def _may_go_on(error: Exception, file: BinaryIO) -> bool:
    """Tell whether the bytes that are there may still become the blob; gRPC ends a cut stream like one that is over."""
    is_short = isinstance(error, BlobMismatchError) and error.field == "size_bytes"
    return (is_short or isinstance(error, OffsetError)) and os.fstat(file.fileno()).st_size > 0


def _part(folder: Path, sender: str, sha256: str) -> Path:
    return folder / f"{hashlib.sha256(sender.encode()).hexdigest()[:16]}-{sha256}.part"


def _open(path: Path, sha256: str, offset_bytes: int) -> BinaryIO:
    """Return the part, held by this upload alone; where another one holds it, a new upload gets a nameless file."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        if offset_bytes:
            raise UploadBusyError(sha256) from None
        return tempfile.TemporaryFile(dir=path.parent)
    return file


def _go_on(file: BinaryIO, offset_bytes: int, size_bytes: int) -> "hashlib._Hash":
    """Cut the part at the offset; return the digest of the bytes before it."""
    there = os.fstat(file.fileno()).st_size
    if offset_bytes > min(there, size_bytes):
        raise OffsetError("header.offset_bytes", min(there, size_bytes), offset_bytes)
    file.truncate(offset_bytes)
    file.seek(0)
    digest = hashlib.sha256()
    for piece in _pieces(file):
        digest.update(piece)
    return digest


def _append(file: BinaryIO, digest: "hashlib._Hash", chunk: bytes) -> None:
    file.write(chunk)
    file.flush()  # so that it is there when this process is not
    digest.update(chunk)


def _store(blobs: BlobStore, sha256: str, file: BinaryIO) -> None:
    if not is_stored(blobs, sha256):
        file.seek(0)
        blobs.put(sha256, _pieces(file))


def is_stored(blobs: BlobStore, sha256: str) -> bool:
    """Tell whether a blob is there, and will be when the version that needs it is published.

    One that lies there for long may be named by nothing, and collected before: it gets a new date.

    Raises:
        RegistryError: the store failed.
    """
    found = blobs.find(sha256)
    return found is not None and (found.stored_at_s > time.time() - RENEW_S or blobs.renew(sha256))


def _forget(path: Path, file: BinaryIO) -> None:
    """Remove the part, if it is this upload's own and not that of another one that holds the name."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(path.stat(), os.fstat(file.fileno())):
            path.unlink()


def _forget_old(folder: Path) -> None:
    """Remove parts of abandoned uploads, except those that are being written."""
    for path in folder.glob("*.part"):
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            if time.time() - path.stat().st_mtime > KEPT_S:
                with path.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece
