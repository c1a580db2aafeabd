"""Gives each answer its time: a little for a small one, by its size for a large one; too many of those get none."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from alcove.platform.listening.connections import Connection, Connections

__all__ = ["allow_download", "limit_connections", "streaming", "waiting_for_body"]

ANSWER_S: Final = 20.0  # seconds from the head of a request to the last byte of a small answer
SLOWEST_BYTES_PER_S: Final = 8 * 1024  # that a device must read of a large one; GPRS is as fast
LARGE_BYTES: Final = 64 * 1024


class _Allowance:
    """The time of one answer."""

    def __init__(self, connections: Connections, place: Connection, limit: asyncio.Timeout) -> None:
        self._connections = connections
        self._place = place
        self._limit = limit

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the connection give way to others while the block waits for its body."""
        self._connections.await_body(self._place)
        try:
            yield
        finally:
            self._connections.take_body(self._place)

    @contextlib.contextmanager
    def streaming(self) -> Iterator[None]:
        """Take the time limit away while the block runs, which limits its writes itself."""
        self._limit.reschedule(None)
        try:
            yield
        finally:
            if not self._limit.expired():
                self._limit.reschedule(asyncio.get_running_loop().time() + ANSWER_S)

    def extend(self, size_bytes: int) -> bool:
        """Return the time that this number of bytes may take; False: too many others are sent as much."""
        if size_bytes <= LARGE_BYTES:
            return True
        if not self._connections.download(self._place):
            return False
        now_s = asyncio.get_running_loop().time()
        self._place.cut = lambda: self._limit.reschedule(asyncio.get_running_loop().time())
        self._limit.reschedule(now_s + ANSWER_S + size_bytes / SLOWEST_BYTES_PER_S)
        return True


_allowance: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


def allow_download(size_bytes: int) -> web.Response | None:
    """Return None where an answer of this size may be sent now, or the answer that says "later"."""
    allowance = _allowance.get()
    if allowance is None or allowance.extend(size_bytes):
        return None
    return refuse_for_now("too_many_downloads: try again")


def streaming() -> AbstractContextManager[None]:
    """Let this request's answer last as long as the block, which bounds how many there are and each of its writes."""
    allowance = _allowance.get()
    return contextlib.nullcontext() if allowance is None else allowance.streaming()


def waiting_for_body() -> AbstractContextManager[None]:
    """Let this request's connection give way to others while the block reads its body."""
    allowance = _allowance.get()
    return contextlib.nullcontext() if allowance is None else allowance.waiting()


def refuse_for_now(why: str, status: int = 503) -> web.Response:
    """Return an answer that says "later", after which the connection closes."""
    headers = {"Cache-Control": "no-store", "Retry-After": "1", "Connection": "close"}
    return web.Response(status=status, text=f"{why}\n", headers=headers)


def limit_connections(connections: Connections) -> Middleware:
    """Return the outermost middleware: it counts requests, and sends each answer within its time."""

    @web.middleware
    async def limit(request: web.Request, handler: Handler) -> web.StreamResponse:
        place = connections.places.get(request.transport)
        if place is None:  # a test's own server, or a connection that is gone
            return await handler(request)
        try:
            if not connections.begin(place):
                return refuse_for_now("too_often: fewer requests a second", 429)
            return await _answer(request, handler, connections, place)
        finally:
            connections.end(place)

    return limit


async def _answer(
    request: web.Request, handler: Handler, connections: Connections, place: Connection
) -> web.StreamResponse:
    transport = request.transport
    cut = place.cut
    try:
        async with asyncio.timeout(ANSWER_S) as limit:
            token = _allowance.set(_Allowance(connections, place, limit))
            try:
                response = await handler(request)
                await response.prepare(request)
                await response.write_eof()
            finally:
                _allowance.reset(token)
                place.cut = cut
    except TimeoutError:
        connections.refused["read_too_slowly"] += 1
        if transport is not None:
            transport.abort()
        return web.Response(status=408)
    return response
