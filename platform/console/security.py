"""Protects every answer and every form.

request ─▶ a name that we have? ─▶ so often? ─▶ the page ─▶ headers
POST    ─▶ from a page of ours? ─▶ its token fits the session? ─▶ the action

S1  No script or style but the files of this package runs: the policy allows no inline one, and no other origin.
S2  A request whose Host is no name of this console is refused, so that no other name can lead here (DNS rebinding).
S3  A form counts only from a page of this console: by what the browser says of its origin, and by a token that only
    pages of the same session hold.
S4  A page is stored nowhere, shown in no frame, and says of itself nothing to other sites.
S5  What is made of a program is shown in a frame of another origin (sandbox), whose policy lets its one script run by
    its digest and reach nothing; it alone may stand in a frame, of this console.
"""

import hashlib
import hmac
import re
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

__all__ = [
    "CSRF_FIELD",
    "CSRF_HEADER",
    "HEADERS",
    "csrf_token",
    "form_of",
    "is_csrf_token",
    "is_local_path",
    "refuse_foreign_forms",
    "refuse_other_names",
    "set_headers",
]

CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "X-CSRF-Token"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SANDBOX: Final = "sandbox allow-scripts"  # at the end of the policy of S5
FRAMED: Final = ("Content-Security-Policy", "X-Frame-Options")  # which an answer of S5 brings itself
HEADERS: Final = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    }
)
_LOCAL_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,1999}")
_PORT: Final = re.compile(r":\d{1,5}$")


def set_headers(response: web.StreamResponse, *, is_secure: bool) -> None:
    """Put the headers of S1 and S4 on an answer."""
    for name, value in HEADERS.items():
        if name not in FRAMED or not response.headers.get(FRAMED[0], "").endswith(SANDBOX):
            response.headers[name] = value
    response.headers.setdefault("Cache-Control", "no-store")
    if is_secure:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    response.headers.pop("Server", None)


def refuse_other_names(request: web.Request, hosts: frozenset[str]) -> None:
    """Let a request pass that names this console (S2).

    Raises:
        HTTPMisdirectedRequest: it names something else.
    """
    if _PORT.sub("", request.headers.get("Host", "").lower()) not in hosts:
        raise web.HTTPMisdirectedRequest(text="this console does not have that name")


def refuse_foreign_forms(request: web.Request) -> None:
    """Let a request pass that changes nothing, or that a page of this console has sent (S3, its first half).

    Raises:
        HTTPForbidden: the browser says that another site's page has sent it, or says nothing.
    """
    if request.method in ("GET", "HEAD"):
        return
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    is_ours = site == "same-origin" if site is not None else origin is not None
    if origin is not None:
        is_ours = is_ours and urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()
    if not is_ours:
        raise web.HTTPForbidden(text="this form was not sent from a page of the console")


def csrf_token(session_token: str) -> str:
    """Return what forms of a session carry: nobody can make it without the session's token, nor that one from it."""
    return hmac.new(session_token.encode(), b"alcove console form", hashlib.sha256).hexdigest()


def is_csrf_token(session_token: str, given: str) -> bool:
    """Return whether a form is of the session; in constant time."""
    return hmac.compare_digest(csrf_token(session_token).encode(), given.encode("utf-8", "replace"))


def is_local_path(text: str) -> bool:
    """Return whether a text is an address on this console, so that nobody is sent elsewhere after signing in."""
    return _LOCAL_PATH.fullmatch(text) is not None


async def form_of(request: web.Request, session_token: str) -> dict[str, str]:
    """Return the fields of a form of the session (S3, its second half); of a field that comes twice the first.

    Raises:
        HTTPForbidden: its token is not the session's.
        HTTPRequestEntityTooLarge: it is longer than forms are.
    """
    form = await request.post()
    fields = {name: value for name, value in reversed(list(form.items())) if isinstance(value, str)}
    given = request.headers.get(CSRF_HEADER) or fields.get(CSRF_FIELD, "")
    if not is_csrf_token(session_token, given):
        raise web.HTTPForbidden(text="this form is of another session: load the page again")
    return fields
