"""Describes the person who asks for a page."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web
from alcove.platform.client import CallerInfo
from alcove.platform.console.security import csrf_token
from alcove.platform.domain.principal import Role

__all__ = ["VIEWER", "Viewer", "somebody"]


@dataclass(frozen=True)
class Viewer:
    """The person who asks for a page.

    Attributes:
        token: of the session; a secret.
        info: as the server knows the caller.
    """

    token: str
    info: CallerInfo

    @property
    def role(self) -> Role:
        """What the person may do."""
        return Role.parse(self.info.role)

    @property
    def csrf(self) -> str:
        """What the person's forms carry."""
        return csrf_token(self.token)


def somebody(role: str) -> Viewer:
    """Return a viewer of a role who is nobody: for what is made once for all of it.  Its forms are no one's."""
    return Viewer("", CallerInfo(role=role, principal="", name="", session_id="", expires_at_s=0))


VIEWER: Final = web.RequestKey("viewer", Viewer)
"""Where a request has who asks; absent before anybody has signed in."""
