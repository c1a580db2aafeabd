"""How are the tree's files served?  With ETag and Range, and by exact names, so that no path can climb out."""

import asyncio
import re
from pathlib import Path
from typing import Final

from aiohttp import web
from alcove.platform.ingress.blobs import send_blob
from alcove.registry.blobs import BlobStore
from alcove.registry.layout import BLOBS, METADATA, TARGETS

__all__ = ["static_routes"]

IMMUTABLE: Final = "public, max-age=31536000, immutable"  # the name holds a version or a digest
FRESH: Final = "no-cache"  # ask each time, with If-None-Match
ABSENT: Final = "public, max-age=60"  # each check-in asks for the next root, which is rarely there

# Names, not paths: none of these patterns admits a slash, a leading dot or a percent sign.
_METADATA = re.compile(r"(timestamp|[1-9][0-9]{0,9}\.[a-z][a-z0-9_-]{0,63})\.json")
_FOLDER = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TARGET = re.compile(r"[0-9a-f]{64}\.[a-z0-9][A-Za-z0-9._-]{0,127}\.json")
_BLOB = re.compile(r"[0-9a-f]{64}")


def static_routes(folder: Path, blobs: BlobStore | None = None) -> list[web.RouteDef]:
    """Return the routes that serve the tree in `folder`, with blobs of a store of their own; GET answers HEAD too."""

    async def metadata(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        lifetime = FRESH if name == "timestamp.json" else IMMUTABLE
        return await _file(folder / METADATA, [(_METADATA, name)], lifetime)

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


async def _file(folder: Path, names: list[tuple[re.Pattern[str], str]], lifetime: str) -> web.StreamResponse:
    if all(pattern.fullmatch(name) for pattern, name in names):
        path = folder.joinpath(*(name for _, name in names))
        if await asyncio.to_thread(path.is_file):
            return web.FileResponse(path, headers={"Cache-Control": lifetime})
    return _absent()


def _absent() -> web.Response:
    return web.Response(status=404, text="not found\n", headers={"Cache-Control": ABSENT})
