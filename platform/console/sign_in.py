"""Signs people in: by an API token, by the browser's client certificate, or through a provider of OpenID Connect.

token        ─▶ the server makes a session of it
certificate  ─▶ TLS has proved it; the server judges it ─▶ a session
provider     ─▶ the server begins ─▶ the browser goes there, and keeps a secret in a cookie ─▶ it comes back
                ─▶ the server asks the provider and judges ─▶ a session, on a page of ours that leads on

This process judges nobody.  It carries what browsers bring to the server, and the server's session to the browser: a
new one at each sign-in, whatever cookie the browser had before (session fixation).  Headers prove nobody.
"""

import base64
import ipaddress
import ssl
import time
from collections import OrderedDict
from contextlib import suppress
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from alcove.platform.client import (
    ClientError,
    NewSession,
    PermissionDeniedError,
    ProviderAnswer,
    UnauthenticatedError,
)
from alcove.platform.console.calls import Calls
from alcove.platform.console.kept_forms import KeptForm, kept_in
from alcove.platform.console.problems import Problem, problem_of
from alcove.platform.console.rendering import Renderer
from alcove.platform.console.security import csrf_token, is_local_path
from alcove.platform.console.session import MAX_TOKEN_LENGTH, SIGN_IN, Sessions
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.listening.rate import RateLimit

__all__ = ["OPEN_PATHS", "SignIn", "SignInLimits"]

BY_CERTIFICATE: Final = f"{SIGN_IN}/certificate"
BY_PROVIDER: Final = f"{SIGN_IN}/oidc"
CALLBACK: Final = f"{SIGN_IN}/oidc/callback"  # as it is written down with the provider
OPEN_PATHS: Final = frozenset({SIGN_IN, BY_CERTIFICATE, BY_PROVIDER, CALLBACK})
"""Addresses for those who are not signed in."""
WAITING_S: Final = 600  # seconds that the browser keeps a sign-in's secret; the server forgets it then too
MAX_PARAMETER_LENGTH: Final = 4096  # characters of what a provider sends back
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


class SignIn:
    """The ways to sign in.

    Args:
        settings: say which ways there are.
        calls: to the server.
        renderer: of pages.
        sessions: keep what is made.
    """

    def __init__(self, settings: ConsoleSettings, calls: Calls, renderer: Renderer, sessions: Sessions) -> None:
        self._settings = settings
        self._calls = calls
        self._renderer = renderer
        self._sessions = sessions
        self._limits = SignInLimits(settings.sign_ins_per_minute, settings.sign_ins_per_minute_in_all)
        self.cookie = "__Host-alcove-sign-in" if settings.is_secure else "alcove-sign-in"

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the ways that there are."""
        routes = [web.get(SIGN_IN, self._show), web.post(SIGN_IN, self._by_token)]
        if self._settings.client_ca is not None:
            routes += [web.post(BY_CERTIFICATE, self._by_certificate), web.get(BY_CERTIFICATE, _to_sign_in)]
        if self._settings.provider:
            routes += [
                web.post(BY_PROVIDER, self._to_provider),
                web.get(BY_PROVIDER, _to_sign_in),
                web.get(CALLBACK, self._from_provider, allow_head=False),
            ]
        return routes

    async def _show(self, request: web.Request) -> web.Response:
        return self._page(request, request.query.get("next", "/"))

    def ask_again(self, request: web.Request, kept: KeptForm) -> web.Response:
        """Ask a person to sign in whose session has ended under a long form, and keep what was written."""
        return self._page(request, "/", _ENDED, kept)

    def _page(
        self, request: web.Request, back: str, problem: Problem | None = None, kept: KeptForm | None = None
    ) -> web.Response:
        context = {
            "next": back if is_local_path(back) else "/",
            "problem": problem,
            "kept": kept,
            "by_certificate": self._settings.client_ca is not None,
            "provider": urlsplit(self._settings.provider).netloc,
        }
        return self._renderer.page(
            request, "session/sign_in.html", context, status=problem.status if problem else HTTPStatus.OK
        )

    async def _by_token(self, request: web.Request) -> web.Response:
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
        return self._lead(request, back, made, kept)

    async def _by_certificate(self, request: web.Request) -> web.Response:
        form, kept = await kept_in(request)
        back = form.get("next", "/")
        if not self._limits.take(self._address_of(request)):
            return self._page(request, back, _TOO_OFTEN, kept)
        certificate = self._certificate_of(request)
        if certificate is None:
            return self._page(request, back, _NO_CERTIFICATE, kept)
        try:
            made = await self._calls.run(
                self._settings.key, lambda client: client.create_certificate_session(certificate)
            )
        except ClientError as error:
            return self._page(request, back, _problem_of(error), kept)
        return self._lead(request, back, made, kept)

    async def _to_provider(self, request: web.Request) -> web.Response:
        form = await request.post()
        back = str(form.get("next", "/"))
        if not self._limits.take(self._address_of(request)):
            return self._page(request, back, _TOO_OFTEN)
        try:
            begun = await self._calls.run(self._settings.key, lambda client: client.begin_sign_in())
        except ClientError as error:
            return self._page(request, back, _problem_of(error))
        # A page and no redirect: the policy of our pages lets a form lead to nobody else's.
        provider = urlsplit(self._settings.provider).netloc
        context = {"address": begun.authorization_url, "provider": provider, "is_end": False}
        answer = self._renderer.page(request, "session/leaving.html", context)
        kept = base64.urlsafe_b64encode((back if is_local_path(back) else "/").encode()).decode().rstrip("=")
        answer.set_cookie(
            self.cookie,
            f"{begun.browser_secret}.{kept}",
            max_age=WAITING_S,
            path="/",
            secure=self._settings.is_secure,
            httponly=True,
            samesite="Lax",  # which the provider's redirect brings; it proves nobody by itself
        )
        return answer

    async def _from_provider(self, request: web.Request) -> web.Response:
        secret, _, kept = request.cookies.get(self.cookie, "").partition(".")
        back = _unpack(kept)
        if not self._limits.take(self._address_of(request)):
            return self._page(request, back, _TOO_OFTEN)
        given = {name: request.query.getall(name, [""]) for name in ("state", "code", "iss", "error")}
        if not secret or any(len(all_) > 1 or len(all_[0]) > MAX_PARAMETER_LENGTH for all_ in given.values()):
            return self._page(request, back, _NOT_BEGUN)
        answer = ProviderAnswer(
            state=given["state"][0],
            code=given["code"][0],
            issuer=given["iss"][0],
            error=given["error"][0],
            browser_secret=secret,
        )
        try:
            made = await self._calls.run(self._settings.key, lambda client: client.create_provider_session(answer))
        except ClientError as error:
            page = self._page(request, back, _problem_of(error))
        else:
            # The browser comes from elsewhere: it sends the session's cookie only from a page of ours.
            page = self._renderer.page(request, "again.html", {"again": back})
            self._sessions.keep(page, made)
        page.del_cookie(self.cookie, path="/", secure=self._settings.is_secure, httponly=True, samesite="Lax")
        return page

    def _lead(self, request: web.Request, back: str, made: NewSession, kept: KeptForm | None) -> web.Response:
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": back if is_local_path(back) else "/"})
        if kept is not None:
            answer = self._renderer.page(request, "session/go_on.html", {"kept": kept, "csrf": csrf_token(made.token)})
        self._sessions.keep(answer, made)
        return answer

    def _certificate_of(self, request: web.Request) -> bytes | None:
        """Return the certificate that the browser has proved on this connection; None: none, or a proxy's."""
        connection = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        if not isinstance(connection, ssl.SSLObject) or self._address_of(request) is None:
            return None
        return connection.getpeercert(binary_form=True)

    def _address_of(self, request: web.Request) -> str | None:
        remote = request.remote or ""
        with suppress(ValueError):
            if any(ipaddress.ip_address(remote) in network for network in self._settings.limits.proxies):
                return None
        return remote


async def _to_sign_in(_request: web.Request) -> web.Response:
    """Send a person who loads the address of a form to the page that it is on."""
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": SIGN_IN})


def _unpack(kept: str) -> str:
    """Return the page that a person wanted, from the cookie; the start page where it says none."""
    try:
        back = base64.urlsafe_b64decode(kept + "=" * (-len(kept) % 4)).decode()
    except ValueError:
        return "/"
    return back if is_local_path(back) else "/"


def _unknown(error: ClientError) -> Problem:
    return Problem(
        HTTPStatus.UNAUTHORIZED,
        "This token does not hold",
        error.message,
        "Use a token that `alcove token create` has made, and that is neither expired nor revoked.",
        error.kind,
    )


def _problem_of(error: ClientError) -> Problem:
    if not isinstance(error, PermissionDeniedError):
        return problem_of(error)
    remedy = "Try once more from this page; if it stays, ask who gives access to this server."
    return Problem(HTTPStatus.FORBIDDEN, "Not signed in", error.message, remedy, error.kind)


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
_NO_CERTIFICATE: Final = Problem(
    HTTPStatus.FORBIDDEN,
    "No certificate",
    "The browser has shown none on this connection",
    "Install the certificate in the browser, close all its windows, open this page again and choose the certificate.",
)
_NOT_BEGUN: Final = Problem(
    HTTPStatus.FORBIDDEN,
    "Not signed in",
    "This browser has begun no sign-in in the last ten minutes, or it was answered before",
    "Try once more from this page.",
)
