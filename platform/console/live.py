"""Tells open pages that what they show has changed: server-sent events, made of the server's watches.

asked ─▶ a place? ─▶ watch with the viewer's session ─▶ "changed" ─▶ "changed" ─▶ … ─▶ "end" and why
             └─ none: 429      └─ refused: as any page

L1  An event says that something changed, and the etag; what changed the page reads itself, with the viewer's rights.
L2  There are at most MOST streams, and MOST_OF_SESSION of one session: of these the oldest gives way, since browsers
    open six connections to a host, and one that holds them all shows nothing any more.
L3  Events do not queue: what changes while one is sent, or within GAP_S of it, becomes one.
L4  A change is told to the pages by lot, one each PACE_S on average: a hundred viewers load within five seconds.
L5  A stream ends with its page, its session, its subject and the console; its call ends with it.
L6  While the server keeps a stream open, the console believes its session when its page loads again by itself: the
    server ends the stream within seconds of the session, and data are read with a session that it judges then.
"""

import asyncio
import hmac
import json
import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import (
    ClientError,
    DeadlineError,
    NotFoundError,
    TooManyCallsError,
    UnauthenticatedError,
)
from alcove.platform.client.watches import Watches
from alcove.platform.console.calls import Calls
from alcove.platform.console.problems import Problem
from alcove.platform.console.rendering import Renderer
from alcove.platform.console.session import IDLE_HEADER
from alcove.platform.console.viewer import VIEWER, Viewer
from alcove.platform.listening.allowance import streaming

__all__ = ["MOST", "MOST_OF_SESSION", "Live"]

MOST: Final = 112  # of 128 calls that the server takes on one connection; those that end are counted a moment longer
MOST_OF_SESSION: Final = 4  # of the six connections of a browser two are left for pages
GAP_S: Final = 2.0  # seconds between two events of a stream; people read no faster
PACE_S: Final = 0.05  # seconds; a page takes a third of them to make
HEARTBEAT_S: Final = 15.0  # seconds until a comment says that the stream is there; proxies cut after thirty or sixty
TICK_S: Final = 1.0  # seconds between two looks at whether the page is still there
WRITE_S: Final = 20.0  # seconds that a page may take nothing
HEADERS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_FULL: Final = Problem(
    HTTPStatus.TOO_MANY_REQUESTS,
    "Too many live pages",
    f"{MOST} pages are live, as many as this console has places for.",
    "The page shows what is there when it is loaded; it asks again by itself.",
    "TooManyLivePagesError",
    retry_s=60,
)
_ENDS: Final[tuple[tuple[type[ClientError], str], ...]] = (
    (UnauthenticatedError, "signed_out"),
    (NotFoundError, "gone"),
    (DeadlineError, "again"),
    (TooManyCallsError, "full"),
)
Watch = Callable[[Watches, str], AsyncIterator[str]]


@dataclass(eq=False)
class _Place:
    """The place of one stream; `end` gets why it must end."""

    session: str
    path: str
    viewer: Viewer | None = None  # None until the server has let the stream begin
    end: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def give_up(self, why: str) -> None:
        """End the stream."""
        if not self.end.done():
            self.end.set_result(why)


class Live:
    """The streams of this console.

    Args:
        calls: to the server.
        renderer: of refusals.
    """

    def __init__(self, calls: Calls, renderer: Renderer) -> None:
        self._calls = calls
        self._renderer = renderer
        self._places: OrderedDict[_Place, None] = OrderedDict()  # the oldest comes first

    def __len__(self) -> int:
        """Return how many streams there are."""
        return len(self._places)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the streams."""
        return [
            web.get("/rollouts/{id}/live", self._stream(lambda watches, name: watches.rollout(name))),
            web.get("/experiments/{id}/live", self._stream(lambda watches, name: watches.experiment(name))),
        ]

    def viewer_of(self, request: web.Request, token: str) -> Viewer | None:
        """Return who asks for a page again by itself, as its open stream says (L6); None: ask the server."""
        if request.method != "GET" or IDLE_HEADER not in request.headers:
            return None
        found = (place.viewer for place in self._places if place.path == request.path and not place.end.done())
        return next((one for one in found if one is not None and hmac.compare_digest(one.token, token)), None)

    async def stop(self, _app: web.Application) -> None:
        """End all streams."""
        for place in list(self._places):
            place.give_up("stopping")

    def _stream(self, watch: Watch) -> Callable[[web.Request], Any]:
        async def stream(request: web.Request) -> web.StreamResponse:
            viewer = request[VIEWER]
            if len(self._places) >= MOST:
                return self._renderer.problem(request, _FULL)
            path = request.path.removesuffix("/live")
            with self._take(viewer.info.session_id, path) as place, streaming():
                etags = watch(self._calls.watches(viewer.token), request.match_info["id"])
                async with aclosing(etags):  # type: ignore[type-var]  # an async generator behind its protocol
                    first = await anext(etags)  # a refusal is an answer as any other
                    place.viewer = viewer
                    response = web.StreamResponse(headers=HEADERS)
                    await response.prepare(request)
                    try:
                        await _tell(request, response, _Changes(first, etags), place, self._wait_s)
                    except (OSError, TimeoutError):  # the page went, or takes nothing
                        if request.transport is not None:
                            request.transport.abort()
            return response

        return stream

    def _wait_s(self) -> float:
        """Return seconds until a page is told of a change, by lot: the more pages there are, the more on average."""
        return random.random() * PACE_S * len(self._places)  # noqa: S311 - nobody gains by guessing it

    @contextmanager
    def _take(self, session: str, path: str) -> Iterator[_Place]:
        of_session = [place for place in self._places if place.session == session]
        for place in of_session[: max(0, len(of_session) - MOST_OF_SESSION + 1)]:
            place.give_up("gave_way")
        place = _Place(session, path)
        self._places[place] = None
        try:
            yield place
        finally:
            del self._places[place]


class _Changes:
    """The last change that was not told yet, and the wait for the next one."""

    def __init__(self, first: str, etags: AsyncIterator[str]) -> None:
        self.untold: str | None = first
        self._etags = etags
        self.next = asyncio.ensure_future(anext(etags))

    def take(self) -> str:
        """Note the change that came and wait for the next; return "" or why there is none any more."""
        try:
            self.untold = self.next.result()
        except StopAsyncIteration:
            return "ended"
        except ClientError as error:
            return next((why for kind, why in _ENDS if isinstance(error, kind)), "unavailable")
        self.next = asyncio.ensure_future(anext(self._etags))
        return ""

    async def close(self) -> None:
        """Wait for nothing any more."""
        self.next.cancel()
        await asyncio.wait({self.next})


async def _tell(
    request: web.Request,
    response: web.StreamResponse,
    changes: _Changes,
    place: _Place,
    wait_s: Callable[[], float],
) -> None:
    """Send events until the stream ends.

    Args:
        request: of the stream.
        response: that is under way.
        changes: to be told.
        place: says when to end.
        wait_s: gives the seconds until the first change after a told one is told.

    Raises:
        OSError: the page is gone.
        TimeoutError: it takes nothing.
    """
    sent_s = due_s = float("-inf")
    why = ""
    try:
        while not why:
            now_s = time.monotonic()
            if changes.untold is not None and now_s >= due_s:
                await _send(response, "changed", {"etag": changes.untold})
                changes.untold = None
                sent_s = now_s
                due_s = now_s + GAP_S
            elif now_s - sent_s >= HEARTBEAT_S:
                await _write(response, b": live\n\n")
                sent_s = now_s
            left_s = TICK_S if changes.untold is None else max(0.0, due_s - time.monotonic())
            watched = {changes.next, place.end}
            await asyncio.wait(watched, timeout=min(TICK_S, left_s), return_when=asyncio.FIRST_COMPLETED)
            if request.transport is None or request.transport.is_closing():
                return
            if place.end.done():
                why = place.end.result()
            elif changes.next.done():
                if changes.untold is None:
                    due_s = max(due_s, time.monotonic() + wait_s())
                why = changes.take()
        if changes.untold is not None:
            await _send(response, "changed", {"etag": changes.untold})
        await _send(response, "end", {"why": why})
        async with asyncio.timeout(WRITE_S):
            await response.write_eof()
    finally:
        await changes.close()


async def _send(response: web.StreamResponse, event: str, data: dict[str, str]) -> None:
    await _write(response, f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())


async def _write(response: web.StreamResponse, content: bytes) -> None:
    async with asyncio.timeout(WRITE_S):
        await response.write(content)
