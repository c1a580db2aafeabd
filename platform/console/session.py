"""Says who asks for a page, by the session that the browser keeps in a cookie, and signs people out.

The cookie is one that no script reads and no other site sends.  The server ends the session at its expiry, after an
idle time, at sign-out, or with its parent; this process remembers none.
"""

import time
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from alcove.platform.client import NewSession, UnauthenticatedError, UnavailableError
from alcove.platform.console.calls import Calls
from alcove.platform.console.problems import problem_of
from alcove.platform.console.rendering import Renderer
from alcove.platform.console.security import form_of, is_local_path
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.console.viewer import VIEWER, Viewer

__all__ = ["IDLE_HEADER", "MAX_TOKEN_LENGTH", "SIGN_IN", "Sessions"]

SIGN_IN: Final = "/sign-in"
MAX_TOKEN_LENGTH: Final = 200  # characters; ours have 85
IDLE_HEADER: Final = "X-Alcove-Idle"
"""Of requests that a page makes by itself: they do not keep the session from ending as an idle one."""


class Sessions:
    """Sessions of this console.

    Args:
        settings: say which cookies are for TLS alone.
        calls: to the server.
        renderer: of pages.
    """

    def __init__(self, settings: ConsoleSettings, calls: Calls, renderer: Renderer) -> None:
        self._is_secure = settings.is_secure
        self._calls = calls
        self._renderer = renderer
        self.cookie = "__Host-alcove-session" if settings.is_secure else "alcove-session"

    def routes(self) -> list[web.RouteDef]:
        """Return the route of signing out."""
        return [web.post("/sign-out", self._sign_out)]

    def token_of(self, request: web.Request) -> str:
        """Return what may be the token of a session, from the cookie; "": nothing may."""
        token = request.cookies.get(self.cookie, "")
        is_one = len(token) <= MAX_TOKEN_LENGTH and token.isascii() and token.isprintable()
        return token if is_one else ""

    async def viewer_of(self, request: web.Request) -> Viewer | None:
        """Return who asks; None: nobody whose session holds.

        Raises:
            ClientError: the server does not say.
        """
        token = self.token_of(request)
        if not token:
            return None
        is_idle = IDLE_HEADER in request.headers or request.path.endswith("/live")
        try:
            info = await self._calls.run(token, lambda client: client.caller(is_idle=is_idle))
        except UnauthenticatedError:
            return None
        # An API token in the cookie is not how one signs in: it would outlive the session.
        return Viewer(token, info) if info.session_id else None

    def to_sign_in(self, request: web.Request) -> web.Response:
        """Send a person to sign in, and back to the page afterwards."""
        wanted = request.rel_url
        back = str(wanted) if request.method == "GET" and is_local_path(str(wanted)) else "/"
        place = request.rel_url.with_path(SIGN_IN).with_query({} if back == "/" else {"next": back})
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": str(place)})

    def keep(self, answer: web.Response, made: NewSession) -> None:
        """Give a new session to the browser, in the place of what it had."""
        answer.set_cookie(
            self.cookie,
            made.token,
            max_age=max(1, made.expires_at_s - int(time.time())),
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="Strict",
        )

    def forget(self, answer: web.Response) -> None:
        """Take the session's cookie from the browser."""
        answer.del_cookie(self.cookie, path="/", secure=self._is_secure, httponly=True, samesite="Strict")

    async def _sign_out(self, request: web.Request) -> web.Response:
        viewer = request[VIEWER]
        await form_of(request, viewer.token)
        try:
            place = await self._calls.run(viewer.token, lambda client: client.delete_session())
        except UnavailableError as error:
            return self._renderer.problem(request, problem_of(error))
        if place:  # by a page: the policy of our pages lets a form lead to nobody else's
            context = {"address": place, "provider": urlsplit(place).netloc, "is_end": True, "viewer": None}
            answer = self._renderer.page(request, "session/leaving.html", context)
        else:
            answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": SIGN_IN})
        self.forget(answer)
        return answer
