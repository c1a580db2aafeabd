"""Signs people in and out, and says who asks for a page.

An API token is exchanged for a session, a short-lived token of the same caller, which the browser keeps in a cookie
that no script reads and no other site sends.  The server ends it at its expiry, at sign-out, or with its parent; this
process remembers none.
"""

import ipaddress
import time
from collections import OrderedDict
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from aiohttp import web
from alcove.platform.client import ClientError, UnauthenticatedError, UnavailableError
from alcove.platform.console.calls import Calls
from alcove.platform.console.kept_forms import KeptForm, kept_in
from alcove.platform.console.problems import Problem, problem_of
from alcove.platform.console.rendering import Renderer
from alcove.platform.console.security import csrf_token, form_of, is_local_path
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.console.viewer import VIEWER, Viewer
from alcove.platform.listening.rate import RateLimit

__all__ = ["SIGN_IN", "Sessions"]

SIGN_IN: Final = "/sign-in"
MAX_TOKEN_LENGTH: Final = 200  # characters; ours have 85
ADDRESSES_KEPT: Final = 4096  # whose sign-ins are counted; the oldest is forgotten first
MINUTE_S: Final = 60.0


class SignInLimits:
    """Bounds how often anybody may try to sign in: of one address, and of all."""

    def __init__(self, per_minute: int, per_minute_in_all: int) -> None:
        self._per_minute = per_minute
        self._all = RateLimit(per_minute_in_all, _minutes)
        self._of: OrderedDict[str, RateLimit] = OrderedDict()

    def take(self, address: str | None) -> bool:
        """Count an attempt; False if it is one too many.  None stands for a proxy of our own: many callers."""
        if address is None:
            return self._all.take(1)
        limit = self._of.setdefault(address, RateLimit(self._per_minute, _minutes))
        self._of.move_to_end(address)
        while len(self._of) > ADDRESSES_KEPT:
            self._of.popitem(last=False)
        return limit.take(1) and self._all.take(1)


def _minutes() -> float:
    return time.monotonic() / MINUTE_S  # the bucket's unit: it refills by the minute


class Sessions:
    """Sessions of this console.

    Args:
        settings: say which cookies are for TLS alone.
        calls: to the server.
        renderer: of pages.
    """

    def __init__(self, settings: ConsoleSettings, calls: Calls, renderer: Renderer) -> None:
        self._settings = settings
        self._calls = calls
        self._renderer = renderer
        self._limits = SignInLimits(settings.sign_ins_per_minute, settings.sign_ins_per_minute_in_all)
        self.cookie = "__Host-alcove-session" if settings.is_secure else "alcove-session"

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of signing in and out."""
        return [
            web.get(SIGN_IN, self._show),
            web.post(SIGN_IN, self._sign_in),
            web.post("/sign-out", self._sign_out),
        ]

    async def viewer_of(self, request: web.Request) -> Viewer | None:
        """Return who asks; None: nobody whose session holds.

        Raises:
            ClientError: the server does not say.
        """
        token = request.cookies.get(self.cookie, "")
        if not 1 <= len(token) <= MAX_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
            return None
        try:
            info = await self._calls.run(token, lambda client: client.caller())
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

    async def _show(self, request: web.Request) -> web.Response:
        return self._page(request, request.query.get("next", "/"))

    def ask_again(self, request: web.Request, kept: KeptForm) -> web.Response:
        """Ask a person to sign in whose session has ended under a long form, and keep what was written."""
        return self._page(request, "/", _ENDED, kept)

    def _page(
        self, request: web.Request, back: str, problem: Problem | None = None, kept: KeptForm | None = None
    ) -> web.Response:
        context = {"next": back if is_local_path(back) else "/", "problem": problem, "kept": kept}
        return self._renderer.page(
            request, "session/sign_in.html", context, status=problem.status if problem else HTTPStatus.OK
        )

    async def _sign_in(self, request: web.Request) -> web.Response:
        form, kept = await kept_in(request)
        token, back = form.get("token", "").strip(), form.get("next", "/")
        if not self._limits.take(self._address_of(request)):
            return self._page(request, back, _TOO_OFTEN, kept)
        if not token.isascii() or not token.isprintable() or len(token) > MAX_TOKEN_LENGTH:
            token = ""
        try:
            made = await self._calls.run(token, lambda client: client.create_session())
        except UnauthenticatedError as error:
            return self._page(request, back, _unknown(error), kept)
        except ClientError as error:
            return self._page(request, back, problem_of(error), kept)
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": back if is_local_path(back) else "/"})
        if kept is not None:
            answer = self._renderer.page(request, "session/go_on.html", {"kept": kept, "csrf": csrf_token(made.token)})
        answer.set_cookie(
            self.cookie,
            made.token,
            max_age=max(1, made.expires_at_s - int(time.time())),
            path="/",
            secure=self._settings.is_secure,
            httponly=True,
            samesite="Strict",
        )
        return answer

    def _address_of(self, request: web.Request) -> str | None:
        remote = request.remote or ""
        with suppress(ValueError):
            if any(ipaddress.ip_address(remote) in network for network in self._settings.limits.proxies):
                return None
        return remote

    async def _sign_out(self, request: web.Request) -> web.Response:
        viewer = request[VIEWER]
        await form_of(request, viewer.token)
        try:
            await self._calls.run(viewer.token, lambda client: client.delete_session())
        except UnavailableError as error:
            return self._page(request, "/", problem_of(error))
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": SIGN_IN})
        self.forget(answer)
        return answer

    def forget(self, answer: web.Response) -> None:
        """Take the session's cookie from the browser."""
        answer.del_cookie(self.cookie, path="/", secure=self._settings.is_secure, httponly=True, samesite="Strict")


def _unknown(error: ClientError) -> Problem:
    return Problem(
        HTTPStatus.UNAUTHORIZED,
        "This token does not hold",
        error.message,
        "Use a token that `alcove token create` has made, and that is neither expired nor revoked.",
        error.kind,
    )


_ENDED: Final = Problem(
    HTTPStatus.UNAUTHORIZED,
    "Your session has ended",
    "Nothing was sent, and what you wrote is kept on this page",
    "Sign in again, and go on where you were.",
    "UnauthenticatedError",
)
_TOO_OFTEN: Final = Problem(
    HTTPStatus.TOO_MANY_REQUESTS,
    "Too many attempts",
    "There were more attempts to sign in during a minute than this console answers.",
    "Wait a minute and try again.",
)
