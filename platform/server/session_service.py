"""Implements SessionService: sessions for the browsers of people who have an API token.

The answer of CreateSession holds a secret, so it is not kept under a request id as those of other mutations are: who
repeats the call gets another session.
"""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

from typing import Any

from alcove.api.session.v1 import session_pb2 as pb
from alcove.api.session.v1 import session_pb2_grpc as rpc
from alcove.platform.domain.errors import PermissionDeniedError, SessionError
from alcove.platform.domain.principal import current_principal
from alcove.platform.services.auth.sessions import create_session, delete_session
from alcove.platform.store import Store
from alcove.runtime.clock import Clock

__all__ = ["SessionService"]


class SessionService(rpc.SessionServiceServicer):
    """Sessions of people who use the console."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Any) -> pb.CreateSessionResponse:
        """Make a session for the caller."""
        principal = current_principal()
        if principal.session_id:
            raise PermissionDeniedError(str(principal.role), "make a session from within a session")
        issued = await create_session(self._store, principal, now_s=self._clock.now_s())
        return pb.CreateSessionResponse(token=issued.text, expires_at_s=issued.record.expires_at_s)

    async def GetSession(self, request: pb.GetSessionRequest, context: Any) -> pb.GetSessionResponse:
        """Say who the caller is."""
        principal = current_principal()
        return pb.GetSessionResponse(
            role=str(principal.role),
            principal=principal.name,
            name=principal.name_of_token,
            session_id=principal.session_id,
            expires_at_s=principal.expires_at_s,
        )

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Any) -> pb.DeleteSessionResponse:
        """End the session in which the caller is."""
        principal = current_principal()
        if not principal.session_id:
            problem = "the caller is in none"
            raise SessionError(problem)
        await delete_session(self._store, principal, now_s=self._clock.now_s())
        return pb.DeleteSessionResponse()
