"""Keeps what was written in a long form when the session ends under it.

POST of a long form ─▶ session holds, its token fits   ─▶ what the button says
                    ─▶ session holds, token of another ─▶ the form again, with its words; nothing was done
                    ─▶ no session                      ─▶ 401: sign in, with the words hidden in it ─▶ the form again

POST of any form  ─▶ the server is away         ─▶ 503, with the form hidden in it ─▶ the same form, by another click

K1  Over signing in only addresses of `LONG_FORMS` are kept, at most `FORM_BYTES` and `FIELDS` of each form.
K2  What proves who somebody is, or that a form is of a session, is never kept: neither token nor session.
K3  What comes back after signing in does nothing but show the form: it is another person's click that acts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from alcove.platform.console.security import CSRF_FIELD, is_csrf_token

__all__ = [
    "ADDRESS_FIELD",
    "FORM_BYTES",
    "LONG_FORMS",
    "RESUME",
    "STEP_FIELD",
    "KeptForm",
    "LongForm",
    "keep",
    "kept_in",
    "read_long_form",
    "unsent",
]

LONG_FORMS: Final = frozenset({"/rollouts/new", "/experiments/new"})
FORM_BYTES: Final = 256 * 1024  # of a long form: a value of 10 000 characters is 120 kB where each is four bytes
FIELDS: Final = 400  # of a long form; 32 stages of three fields and 16 metrics are a third
STEP_FIELD: Final = "step"
RESUME: Final = "resume"
"""The step that shows a form again with its words, and does nothing."""
ADDRESS_FIELD: Final = "kept_at"
_PREFIX: Final = "kept."
_FIELDS: Final = web.RequestKey("fields of a long form", dict[str, str])
_SECRET: Final = frozenset({CSRF_FIELD, "token", STEP_FIELD})


@dataclass(frozen=True)
class LongForm:
    """A long form as it was sent.

    Attributes:
        fields: what was written; without the token of the session's forms.
        is_of_session: whether that token was this session's.  Where it is not, nothing may be done.
    """

    fields: Mapping[str, str]
    is_of_session: bool

    @property
    def step(self) -> str:
        """What the button does that was pressed."""
        return self.fields.get(STEP_FIELD, "") if self.is_of_session else RESUME


@dataclass(frozen=True)
class KeptForm:
    """A long form that waits for somebody to sign in.

    Attributes:
        address: where it goes.
        fields: what was written.
    """

    address: str
    fields: Mapping[str, str]

    @property
    def hidden(self) -> dict[str, str]:
        """Return the fields by the names that they have in the form that signs in."""
        return {ADDRESS_FIELD: self.address} | {_PREFIX + name: text for name, text in self.fields.items()}


async def read_long_form(request: web.Request, session_token: str) -> LongForm:
    """Return a long form of somebody who is signed in.

    Raises:
        HTTPRequestEntityTooLarge: it is longer than long forms are.
    """
    fields = await _fields_of(request)
    is_of_session = is_csrf_token(session_token, fields.get(CSRF_FIELD, ""))
    kept = {name: text for name, text in fields.items() if name not in (CSRF_FIELD, "token")}
    return LongForm(kept, is_of_session)


async def keep(request: web.Request) -> KeptForm | None:
    """Return the form of a request that nobody is signed in for; None: it is none that is kept (K1).

    Raises:
        HTTPRequestEntityTooLarge: it is longer than long forms are.
    """
    if request.method != "POST" or request.path not in LONG_FORMS:
        return None
    return KeptForm(request.path, _without_secrets(await _fields_of(request)))


async def unsent(request: web.Request) -> KeptForm | None:
    """Return the form of a request that the server could not answer, to be sent again; None: there is none.

    It keeps the token of the session's forms and the id of its request: who sends it again does the same thing once.

    Raises:
        HTTPRequestEntityTooLarge: it is longer than its kind is.
    """
    if request.method != "POST" or "HX-Request" in request.headers:
        return None
    is_long = request.path in LONG_FORMS
    fields = await _fields_of(request) if is_long else dict(await request.post())
    kept = {name: text for name, text in fields.items() if isinstance(text, str) and name != "token"}
    return KeptForm(str(request.rel_url), kept)


async def kept_in(request: web.Request) -> tuple[dict[str, str], KeptForm | None]:
    """Return the fields of a form that signs in, and the long form that it carries; None: it carries none.

    Raises:
        HTTPRequestEntityTooLarge: it is longer than long forms are.
    """
    fields = await _fields_of(request)
    address = fields.get(ADDRESS_FIELD, "")
    long = {name.removeprefix(_PREFIX): text for name, text in fields.items() if name.startswith(_PREFIX)}
    own = {name: text for name, text in fields.items() if not name.startswith(_PREFIX)}
    own.pop(ADDRESS_FIELD, None)
    return own, KeptForm(address, _without_secrets(long)) if address in LONG_FORMS else None


def _without_secrets(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in fields.items() if name not in _SECRET}


async def _fields_of(request: web.Request) -> dict[str, str]:
    known: dict[str, str] | None = request.get(_FIELDS)
    if known is not None:  # the session ended between two calls
        return known
    form = await request.clone(client_max_size=FORM_BYTES).post()
    fields = {name: value for name, value in reversed(list(form.items())) if isinstance(value, str)}
    if len(fields) > FIELDS:
        raise web.HTTPRequestEntityTooLarge(FIELDS, len(fields))
    request[_FIELDS] = fields
    return fields
