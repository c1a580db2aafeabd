"""Describes an authenticated caller: a role, and the id of the token or certificate that proved it."""

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Self

from alcove.platform.domain.errors import InvalidFieldError, UnauthenticatedError

__all__ = ["CONSOLE", "Principal", "Role", "current_principal", "set_principal"]

_ROLE = re.compile(r"reader|operator|(?:operator|team):(?P<team>[a-z][a-z0-9_-]{0,31})")


@dataclass(frozen=True)
class Role:
    """The rights of a token or certificate.

    `reader` reads; `operator` operates everything, `operator:<name>` one team's features; `team:<name>` pushes those.

    Attributes:
        name: "reader", "operator" or "team".
        team: the team whose features it is for; None: all.
    """

    name: str
    team: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the role that `text` names.

        Raises:
            InvalidFieldError: it names none.
        """
        match = _ROLE.fullmatch(text)
        if match is None:
            raise InvalidFieldError("role", "'reader', 'operator', 'operator:<team>' or 'team:<name>'", text)
        return cls(text.partition(":")[0], match["team"])

    def __str__(self) -> str:
        return self.name if self.team is None else f"{self.name}:{self.team}"


@dataclass(frozen=True)
class Principal:
    """An authenticated caller.  `name` ("operator/ab12…") goes into the audit log.

    Attributes:
        token_id: id of the token, or name in the client certificate with its kind ("dns:deploy.acme.example").
        role: what it may do.
        name_of_token: whose the token is or what for; "": nobody said, or a certificate.
        session_id: id of the session in which the caller is; `token_id` is then the parent token's, so that one person
            is one caller, with or without a session.  "": in none.
        expires_at_s: when token or session ends, seconds since 1970-01-01 UTC; 0: a certificate says.
        active_at_s: when the session was last noted to be used; 0: in none.
    """

    token_id: str
    role: Role
    name_of_token: str = ""
    session_id: str = ""
    expires_at_s: int = 0
    active_at_s: int = 0

    @property
    def name(self) -> str:
        """Role and token id, as audited; never the secret."""
        return f"{self.role}/{self.token_id}"


CONSOLE: Final = Role("console")
"""The role of the server's own console while nobody is signed in; no text names it, so no token can have it."""

_CURRENT: ContextVar[Principal | None] = ContextVar("principal", default=None)


def set_principal(principal: Principal) -> None:
    """Note who the caller of the present task is; only the interceptor does."""
    _CURRENT.set(principal)


def current_principal() -> Principal:
    """Return the caller of the present task.

    Raises:
        UnauthenticatedError: nobody was authenticated.
    """
    principal = _CURRENT.get()
    if principal is None:
        reason = "no token"
        raise UnauthenticatedError(reason)
    return principal
