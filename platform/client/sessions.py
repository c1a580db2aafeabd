"""Makes, shows and ends sessions.  Mixed into `PlatformClient`."""

from alcove.api.session.v1 import session_pb2 as pb
from alcove.api.session.v1.session_pb2_grpc import SessionServiceStub
from alcove.platform.client.calls import Caller
from alcove.platform.client.models import Value, value_of

__all__ = ["CallerInfo", "NewSession", "SessionCalls"]


class NewSession(Value):
    """A session that was made; `token` is a secret, `expires_at_s` in seconds since 1970-01-01 UTC."""

    token: str
    expires_at_s: int


class CallerInfo(Value):
    """The caller as the server knows it.

    Attributes:
        role: such as "team:text".
        principal: as the audit log names the caller.
        name: whose the token is or what for; "": nobody said.
        session_id: "": in no session.
        expires_at_s: when token or session ends; 0: a client certificate says.
    """

    role: str
    principal: str
    name: str
    session_id: str
    expires_at_s: int


class SessionCalls:
    """Calls about the caller."""

    _sessions: SessionServiceStub
    _call: Caller

    def create_session(self) -> NewSession:
        """Make a session for the caller, who must not be in one."""
        return value_of(NewSession, self._call(self._sessions.CreateSession, pb.CreateSessionRequest()))

    def caller(self) -> CallerInfo:
        """Return who the caller is."""
        return value_of(CallerInfo, self._call(self._sessions.GetSession, pb.GetSessionRequest()))

    def delete_session(self) -> None:
        """End the session in which the caller is."""
        self._call(self._sessions.DeleteSession, pb.DeleteSessionRequest())
