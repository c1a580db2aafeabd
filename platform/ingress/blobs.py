"""Sends blobs of another store to devices, piece by piece, with ETag and Range.

So devices need to know of one address only, whatever store is behind it.  Where many devices ask, a CDN or nginx in
front takes `/blobs/` from the bucket itself (docs/deploy/stores.md): a blob's name is its digest, the client verifies
each byte against it, and nothing that the bucket answers can do more than fail.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from aiohttp import web
from alcove.platform.listening.allowance import allow_download
from alcove.registry.blobs import BlobStore
from alcove.registry.errors import RegistryError

__all__ = ["send_blob"]

PIECE_BYTES: Final = 256 * 1024  # of each call of the store; what one download holds in memory
_log = structlog.get_logger()


async def send_blob(
    request: web.Request, blobs: BlobStore, sha256: str, *, lifetime: str, absent: Callable[[], web.Response]
) -> web.StreamResponse:
    """Answer GET or HEAD for a blob: 200, 206 a part, 304 unchanged, 404, 416 no such part, 503 the store fails.

    Args:
        request: may ask for one range, and carry If-None-Match.
        blobs: the store.
        sha256: name of the blob, 64 hex digits.
        lifetime: the Cache-Control of its bytes.
        absent: makes the answer for a blob that is not there.
    """
    try:
        size_bytes = await asyncio.to_thread(blobs.size_bytes, sha256)
    except RegistryError as error:
        _log.error("a blob cannot be read", error=str(error))
        return _unavailable()
    if size_bytes is None:
        return absent()
    headers = {"Cache-Control": lifetime, "ETag": f'"{sha256}"', "Accept-Ranges": "bytes"}
    if any(tag.value in (sha256, "*") for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    try:
        wanted = request.http_range
    except ValueError:
        wanted = slice(None)  # more than one range, or none that is known: all of it, as RFC 9110 has it
    start, stop, _ = wanted.indices(size_bytes)
    is_part = wanted != slice(None, None, 1) and wanted != slice(None)
    if is_part and request.headers.get("If-Range", f'"{sha256}"') != f'"{sha256}"':
        start, stop, is_part = 0, size_bytes, False
    if is_part and start >= stop:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{size_bytes}"})
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size_bytes}"
    response = web.StreamResponse(status=206 if is_part else 200, headers=headers)
    response.content_type = "application/octet-stream"
    response.content_length = stop - start
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    return allow_download(stop - start) or await _send(request, response, blobs, sha256, range(start, stop))


async def _send(
    request: web.Request, response: web.StreamResponse, blobs: BlobStore, sha256: str, part: range
) -> web.StreamResponse:
    """Send the bytes of `part`; a store that fails in the middle cuts the connection."""
    start, stop = part.start, part.stop
    while start < stop or not response.prepared:
        try:
            piece = b""
            if start < stop:
                piece = await asyncio.to_thread(blobs.read, sha256, start, min(PIECE_BYTES, stop - start))
        except RegistryError as error:
            _log.error("a blob cannot be read", error=str(error))
            if not response.prepared:
                return _unavailable()
            if request.transport is not None:
                request.transport.abort()  # too few bytes must not look like all of them
            return response
        if not response.prepared:
            await response.prepare(request)
        await response.write(piece)
        start += len(piece)
    await response.write_eof()
    return response


def _unavailable() -> web.Response:
    headers = {"Cache-Control": "no-store", "Retry-After": "1"}
    return web.Response(status=503, text="the store of blobs does not answer; try again\n", headers=headers)
