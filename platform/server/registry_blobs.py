"""Implements the uploads and downloads of RegistryService: in pieces, from any offset on; the digest is the name."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.platform.domain import limits
from alcove.platform.domain.errors import BlobTooLargeError, InvalidFieldError, OffsetError, ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_digest
from alcove.platform.domain.principal import current_principal
from alcove.platform.services.publishing.quotas import UploadQuotas
from alcove.platform.services.publishing.uploads import is_stored, receive_blob, received_bytes, validate_size
from alcove.registry.repository import Repository

__all__ = ["BlobCalls"]


class BlobCalls:
    """Uploads and downloads."""

    _tree: Repository
    _uploads: Path
    _quotas: UploadQuotas

    async def UploadBlob(
        self, request_iterator: AsyncIterator[pb.UploadBlobRequest], context: Any
    ) -> pb.UploadBlobResponse:
        """Store one content-addressed blob."""
        parts = aiter(request_iterator)
        first = await anext(parts, None)
        if first is None or first.WhichOneof("part") != "header":
            raise InvalidFieldError("part", "a header in the first message", None)
        sha256 = validate_digest("header.sha256", first.header.sha256)
        size_bytes = first.header.size_bytes
        sender = str(current_principal().role)
        validate_size(size_bytes)
        async with self._quotas.room_for(sender, sha256, size_bytes):
            await receive_blob(
                self._tree.blobs,
                self._uploads,
                sender=sender,
                sha256=sha256,
                size_bytes=size_bytes,
                chunks=_chunks(parts),
                offset_bytes=first.header.offset_bytes,
            )
        return pb.UploadBlobResponse(sha256=sha256, size_bytes=size_bytes)

    async def GetUpload(self, request: pb.GetUploadRequest, context: Any) -> pb.GetUploadResponse:
        """Tell how much of a blob is there."""
        sha256 = validate_digest("sha256", request.sha256)
        stored = await asyncio.to_thread(is_stored, self._tree.blobs, sha256)
        sender = str(current_principal().role)
        received = await asyncio.to_thread(received_bytes, self._uploads, sender=sender, sha256=sha256)
        return pb.GetUploadResponse(received_bytes=received, is_stored=stored)

    async def GetBlob(self, request: pb.GetBlobRequest, context: Any) -> AsyncIterator[pb.GetBlobResponse]:
        """Stream a blob from an offset on."""
        sha256 = validate_digest("sha256", request.sha256)
        blobs = self._tree.blobs
        size_bytes = await asyncio.to_thread(blobs.size_bytes, sha256)
        if size_bytes is None:
            raise ResourceNotFoundError("blob", sha256)
        start = request.offset_bytes
        if start > size_bytes:
            raise OffsetError("offset_bytes", size_bytes, start)
        yield pb.GetBlobResponse(header=pb.BlobHeader(sha256=sha256, size_bytes=size_bytes, offset_bytes=start))
        while start < size_bytes:
            chunk = await asyncio.to_thread(blobs.read, sha256, start, min(limits.CHUNK_BYTES, size_bytes - start))
            yield pb.GetBlobResponse(chunk=chunk)
            start += len(chunk)


async def _chunks(parts: AsyncIterator[pb.UploadBlobRequest]) -> AsyncIterator[bytes]:
    async for part in parts:
        if part.WhichOneof("part") != "chunk":
            raise InvalidFieldError("part", "a chunk after the header", part.WhichOneof("part"))
        if not part.chunk:
            raise InvalidFieldError("chunk", "at least 1 byte", 0)
        if len(part.chunk) > limits.CHUNK_BYTES:
            raise BlobTooLargeError(limits.CHUNK_BYTES, len(part.chunk))
        yield part.chunk
