"""Makes, shows and ends sessions.  Mixed into `PlatformClient`."""

from alcove.api.session.v1 import session_pb2 as pb
from alcove.api.session.v1.session_pb2_grpc import SessionServiceStub
from alcove.platform.client.calls import Caller
from alcove.platform.client.models import Value, value_of

__all__ = ["BegunSignIn", "CallerInfo", "NewSession", "ProviderAnswer", "SessionCalls", "SessionView"]


class NewSession(Value):
    """A session that was made; `token` is a secret, `expires_at_s` in seconds since 1970-01-01 UTC."""

    token: str
    expires_at_s: int


class SessionView(Value):
    """A session of the caller's that holds; times in seconds since 1970-01-01 UTC.

    Attributes:
        used_at_s: when somebody last used it, at most five minutes early.
        expires_at_s: when it ends whatever happens.
        is_current: whether the caller is in it.
    """

    session_id: str
    created_at_s: int
    used_at_s: int
    expires_at_s: int
    is_current: bool


class BegunSignIn(Value):
    """A sign-in through the provider; `browser_secret` is a secret of the browser that goes to the address."""

    authorization_url: str
    browser_secret: str


class ProviderAnswer(Value):
    """The parameters with which a provider sends a browser back, and what the browser kept meanwhile."""

    state: str
    code: str
    issuer: str
    error: str
    browser_secret: str


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

    def create_certificate_session(self, der: bytes) -> NewSession:
        """Make a session for whose browser has proved this client certificate; for the server's console alone."""
        request = pb.CreateSessionRequest(certificate=der)
        return value_of(NewSession, self._call(self._sessions.CreateSession, request))

    def begin_sign_in(self) -> BegunSignIn:
        """Begin to sign somebody in through the provider; for the server's console alone."""
        return value_of(BegunSignIn, self._call(self._sessions.BeginSignIn, pb.BeginSignInRequest()))

    def create_provider_session(self, answer: ProviderAnswer) -> NewSession:
        """Make a session for whom the provider has proved; for the server's console alone."""
        request = pb.CreateSessionRequest(provider_answer=pb.ProviderAnswer(**answer.model_dump()))
        return value_of(NewSession, self._call(self._sessions.CreateSession, request))

    def caller(self, *, is_idle: bool = False) -> CallerInfo:
        """Return who the caller is.

        Args:
            is_idle: a page asks by itself: the session counts as idle all the same.
        """
        return value_of(CallerInfo, self._call(self._sessions.GetSession, pb.GetSessionRequest(is_idle=is_idle)))

    def sessions(self) -> list[SessionView]:
        """Return the caller's sessions that hold, the one that was used last first."""
        found = self._call(self._sessions.ListSessions, pb.ListSessionsRequest())
        return [value_of(SessionView, one) for one in found.sessions]

    def delete_session(self, session_id: str = "") -> str:
        """End a session of the caller's; "": the one in which the caller is.

        Returns:
            Where the browser goes to be signed out at the provider of OpenID Connect, too; "": nowhere.  It may hold
            the person's identity token.
        """
        answer = self._call(self._sessions.DeleteSession, pb.DeleteSessionRequest(session_id=session_id))
        return str(answer.sign_out_url)

    def delete_other_sessions(self) -> int:
        """End the caller's sessions but the one in which the caller is; return how many."""
        return int(self._call(self._sessions.DeleteOtherSessions, pb.DeleteOtherSessionsRequest()).count)
