"""Serves the tree's files with ETag and Range, and by exact names, so that no path can climb out.

Signed metadata is packed (gzip) for those who accept it: digests in hexadecimal take half, and a first fetch of
10 000 versions a third.  What has its version in its name never changes, so it is packed once.
"""

import asyncio
import contextlib
import functools
import gzip
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from alcove.platform.ingress.blobs import send_blob
from alcove.platform.listening.allowance import allow_download
from alcove.registry.blobs import BlobStore
from alcove.registry.layout import BLOBS, METADATA, TARGETS

__all__ = ["static_routes"]

IMMUTABLE: Final = "public, max-age=31536000, immutable"  # the name holds a version or a digest
FRESH: Final = "no-cache"  # ask each time, with If-None-Match
ABSENT: Final = "public, max-age=60"  # each check-in asks for the next root, which is rarely there
NOT_KEPT: Final = "no-store"  # or anybody could have a cache hold "not there" for what is published next

_PACKED: Final = {
    "Cache-Control": IMMUTABLE,
    "Content-Encoding": "gzip",
    "Content-Type": "application/json",
    "Vary": "Accept-Encoding",
}
_PACKED_FILES: Final = 64  # kept in memory, at most a third of a megabyte each: snapshots, targets, teams in use
_SMALL_BYTES: Final = 512
_LEVEL: Final = 9  # packed once, sent to every device

# Names, not paths: none of these patterns admits a slash, a leading dot or a percent sign.
_METADATA = re.compile(r"(timestamp|[1-9][0-9]{0,9}\.[a-z][a-z0-9_-]{0,63})\.json")
_FOLDER = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TARGET = re.compile(r"[0-9a-f]{64}\.[a-z0-9][A-Za-z0-9._-]{0,127}\.json")
_BLOB = re.compile(r"[0-9a-f]{64}")


def static_routes(folder: Path, blobs: BlobStore | None = None) -> list[web.RouteDef]:
    """Return the routes that serve the tree in `folder`, with blobs of a store of their own; GET answers HEAD too."""

    @functools.lru_cache(maxsize=_PACKED_FILES)
    def packed_once(name: str, _identity: tuple[int, int]) -> bytes:
        return gzip.compress((folder / METADATA / name).read_bytes(), _LEVEL, mtime=0)

    def compress(name: str) -> bytes | None:
        """Return a file compressed, or None where it is not there or so small that packing gains nothing."""
        try:
            status = (folder / METADATA / name).stat()
            return packed_once(name, (status.st_mtime_ns, status.st_size)) if status.st_size > _SMALL_BYTES else None
        except OSError:
            return None

    timestamp = _timestamp(folder / METADATA / "timestamp.json")

    async def metadata(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name == "timestamp.json" and "Range" not in request.headers:
            return timestamp(request)
        if name == "timestamp.json":
            return await _file(folder / METADATA, [(_METADATA, name)], FRESH)
        if _METADATA.fullmatch(name) and "Range" not in request.headers and _accepts_gzip(request):
            body = await asyncio.to_thread(compress, name)
            if body is not None:
                return allow_download(len(body)) or web.Response(body=body, headers=_PACKED)
        absent = ABSENT if name.endswith(".root.json") else NOT_KEPT
        return await _file(folder / METADATA, [(_METADATA, name)], IMMUTABLE, absent)

    async def target(request: web.Request) -> web.StreamResponse:
        names = [(_FOLDER, request.match_info["folder"]), (_TARGET, request.match_info["name"])]
        return await _file(folder / TARGETS, names, IMMUTABLE)

    async def blob(request: web.Request) -> web.StreamResponse:
        sha256 = request.match_info["sha256"]
        if blobs is not None and _BLOB.fullmatch(sha256):
            return await send_blob(request, blobs, sha256, lifetime=IMMUTABLE, absent=_absent)
        return await _file(folder / BLOBS, [(_BLOB, sha256)], IMMUTABLE)

    return [
        web.get(f"/{METADATA}/{{name}}", metadata),
        web.get(f"/{TARGETS}/{{folder}}/{{name}}", target),
        web.get(f"/{BLOBS}/{{sha256}}", blob),
    ]


class _FileResponse(web.FileResponse):
    """A file that may be sent before it is returned, as any other response may."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send it, once."""
        return self._payload_writer if self.prepared else await super().prepare(request)


def _timestamp(path: Path) -> Callable[[web.Request], web.Response]:
    """Return what answers with the one file that every check-in reads, from memory: a file's response takes threads."""

    @functools.lru_cache(maxsize=1)
    def once(_identity: tuple[int, int, int]) -> bytes:
        return path.read_bytes()

    def answer(request: web.Request) -> web.Response:
        try:
            status = path.stat()
            body = once((status.st_ino, status.st_mtime_ns, status.st_size))
        except OSError:
            return _absent()
        tag = f"{status.st_mtime_ns:x}-{len(body):x}"
        headers = {"Cache-Control": FRESH, "ETag": f'"{tag}"', "Content-Type": "application/json"}
        if any(each.value in ("*", tag) for each in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers=headers)

    return answer


def _accepts_gzip(request: web.Request) -> bool:
    offers = [offer.partition(";") for offer in request.headers.get("Accept-Encoding", "").lower().split(",")]
    return any(name.strip() == "gzip" and weight.replace(" ", "") not in ("q=0", "q=0.0") for name, _, weight in offers)


async def _file(
    folder: Path, names: list[tuple[re.Pattern[str], str]], lifetime: str, absent: str = NOT_KEPT
) -> web.StreamResponse:
    if all(pattern.fullmatch(name) for pattern, name in names):
        path = folder.joinpath(*(name for _, name in names))
        # Not in a thread: changing threads takes longer than asking for a file of a folder that is always in use.
        with contextlib.suppress(OSError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                return allow_download(status.st_size) or _FileResponse(path, headers={"Cache-Control": lifetime})
    return _absent(absent)


def _absent(lifetime: str = NOT_KEPT) -> web.Response:
    return web.Response(status=404, text="not found\n", headers={"Cache-Control": lifetime})
