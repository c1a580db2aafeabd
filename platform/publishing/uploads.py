"""How do the bytes of an upload become a blob, without being held in memory and without trusting the header?"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

from alcove.platform.core.errors import BlobMismatchError, BlobTooLargeError, InvalidFieldError
from alcove.registry.blobs import BlobStore
from alcove.registry.limits import PROGRAM_MAX_BYTES

__all__ = ["receive_blob"]

_PIECE_BYTES = 1024 * 1024


async def receive_blob(
    blobs: BlobStore, folder: Path, *, sha256: str, size_bytes: int, chunks: AsyncIterator[bytes]
) -> None:
    """Store an upload under its digest.

    The bytes go to a nameless file first, so that what a broken upload leaves vanishes with it.

    Args:
        blobs: where it goes.
        folder: on the same disk as the temporary file; must exist.
        sha256: announced digest, 64 hex digits.
        size_bytes: announced length.
        chunks: the bytes, in order; read to the end or to the first refusal.

    Raises:
        InvalidFieldError: the announced length is not in the limits.
        BlobTooLargeError: more bytes came than announced.
        BlobMismatchError: fewer bytes came, or their digest is another.
        StorageError: the disk failed.
    """
    if not 1 <= size_bytes <= PROGRAM_MAX_BYTES:
        raise InvalidFieldError("header.size_bytes", f"1 to {PROGRAM_MAX_BYTES}", size_bytes)
    digest, received = hashlib.sha256(), 0
    with tempfile.TemporaryFile(dir=folder) as file:
        async for chunk in chunks:
            received += len(chunk)
            if received > size_bytes:
                raise BlobTooLargeError(size_bytes, received)
            await asyncio.to_thread(_append, file, digest, chunk)
        if received != size_bytes:
            raise BlobMismatchError("size_bytes", str(size_bytes), str(received))
        if digest.hexdigest() != sha256:
            raise BlobMismatchError("sha256", sha256, digest.hexdigest())
        await asyncio.to_thread(_store, blobs, sha256, file)


def _append(file: BinaryIO, digest: "hashlib._Hash", chunk: bytes) -> None:
    file.write(chunk)
    digest.update(chunk)


def _store(blobs: BlobStore, sha256: str, file: BinaryIO) -> None:
    if not blobs.has(sha256):
        file.seek(0)
        blobs.put(sha256, _pieces(file))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece
