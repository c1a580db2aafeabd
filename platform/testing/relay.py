"""Relays encapsulated requests to gateways, and notes all that a relay sees: for tests, not for strangers."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web
from alcove.privacy.ohttp import KEYS_TYPE, REQUEST_TYPE

__all__ = ["MAX_RELAYED_BYTES", "Relay", "SeenRequest"]

MAX_RELAYED_BYTES: Final = 4 * 1024 * 1024 + 4096
"""Largest request that is passed on: the leader's largest upload, encapsulated."""


@dataclass(frozen=True)
class SeenRequest:
    """What a relay sees of a request: who sent it, its header fields and its bytes, which it cannot read."""

    address: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Relay:
    """A relay of Oblivious HTTP: bytes go on as they came, with no field but their type.

    Args:
        session: makes the connections to gateways; stays the caller's.
        aggregators: URL of the aggregator behind each of the relay's paths.

    Attributes:
        seen: requests, in order.
    """

    session: aiohttp.ClientSession
    aggregators: Mapping[str, str]
    seen: list[SeenRequest] = field(default_factory=list)
    _keys: dict[str, bytes] = field(default_factory=dict)

    def create_app(self) -> web.Application:
        """Return the relay's application."""
        app = web.Application(client_max_size=MAX_RELAYED_BYTES)
        for path in self.aggregators:
            app.add_routes([web.post(path, self._pass_on), web.get(path, self._give_keys)])
        return app

    def forget_keys(self) -> None:
        """Ask the gateways for their keys again."""
        self._keys.clear()

    async def _pass_on(self, request: web.Request) -> web.Response:
        if request.headers.get("Content-Type") != REQUEST_TYPE:
            raise web.HTTPUnsupportedMediaType
        body = await request.read()  # 413 where it is larger
        self.seen.append(SeenRequest(request.remote or "", request.path, dict(request.headers), body))
        url = f"{self.aggregators[request.path]}/gateway"
        headers = {"Content-Type": REQUEST_TYPE}
        async with self.session.post(url, data=io.BytesIO(body), headers=headers) as answer:
            kept = {"Content-Type": answer.headers.get("Content-Type", "")}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    async def _give_keys(self, request: web.Request) -> web.Response:
        """Give all devices the same keys: what the gateway said to the first that asked."""
        if request.path not in self._keys:
            async with self.session.get(f"{self.aggregators[request.path]}/ohttp_keys") as answer:
                self._keys[request.path] = await answer.read()
        return web.Response(body=self._keys[request.path], headers={"Content-Type": KEYS_TYPE})
