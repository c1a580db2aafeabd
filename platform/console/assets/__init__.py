"""Gives the files that pages load: each under an address with its digest, which a browser may keep for ever."""

import gzip
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from aiohttp import web

__all__ = ["LAZY", "OURS", "VENDORED", "Assets"]

TYPES: Final = MappingProxyType(
    {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "json": "application/json"}
)
OURS: Final = ("console.css", "console.js", "charts.js", "live.js", "sliders.js", "alcove.svg")
VENDORED: Final = MappingProxyType(
    {
        "htmx.min.js": ("htmx.org", "2.0.11", "dist/htmx.min.js"),
        "uPlot.min.js": ("uplot", "1.6.32", "dist/uPlot.iife.min.js"),
        "uPlot.min.css": ("uplot", "1.6.32", "dist/uPlot.min.css"),
    }
)
"""Files of others by name: package, version and path in it (`tools/console_assets.py` fetches them)."""
LAZY: Final = ("charts.js", "live.js", "uPlot.min.js", "uPlot.min.css")
"""Files that `console.js` loads where a page needs them."""
FOR_EVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class _Asset:
    content: bytes
    packed: bytes
    kind: str


class Assets:
    """The files, read once."""

    def __init__(self) -> None:
        folder = files("alcove.platform.console.assets")
        self._addresses: dict[str, str] = {}
        self._assets: dict[str, _Asset] = {}
        for name in (*OURS, *(f"vendor/{name}" for name in VENDORED)):
            content = folder.joinpath(name).read_bytes()
            plain = name.rpartition("/")[2]
            address = f"/assets/{hashlib.sha256(content).hexdigest()[:16]}/{plain}"
            packed = gzip.compress(content, mtime=0)
            self._addresses[plain] = address
            self._assets[address] = _Asset(content, packed, TYPES[plain.rpartition(".")[2]])

    def address(self, name: str) -> str:
        """Return the address of a file.

        Raises:
            KeyError: there is none of this name.
        """
        return self._addresses[name]

    def routes(self) -> list[web.RouteDef]:
        """Return the one route of all files: whatever is no address of one is not there."""
        return [web.get("/assets/{rest:.*}", self._give)]

    async def _give(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.path)
        if asset is None:
            raise web.HTTPNotFound
        is_packed = "gzip" in request.headers.get("Accept-Encoding", "")
        headers = {"Cache-Control": FOR_EVER, "Vary": "Accept-Encoding"}
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        body = asset.packed if is_packed else asset.content
        return web.Response(body=body, content_type=asset.kind, status=HTTPStatus.OK, headers=headers)
