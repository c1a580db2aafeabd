"""Implements SessionService: sessions for the browsers of people who have an API token, or prove themselves otherwise.

The answer of CreateSession holds a secret, so it is not kept under a request id as those of other mutations are: who
repeats the call gets another session.
"""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from typing import Any

from alcove.api.session.v1 import session_pb2 as pb
from alcove.api.session.v1 import session_pb2_grpc as rpc
from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError, PermissionDeniedError, SessionError
from alcove.platform.domain.principal import CONSOLE, Principal, current_principal
from alcove.platform.server.provider import ProviderAnswer
from alcove.platform.server.sign_ins import SignIns, read_claim_roles
from alcove.platform.services.auth.access import create_person_session
from alcove.platform.services.auth.sessions import (
    create_certificate_session,
    create_session,
    delete_other_sessions,
    delete_session,
    note_session_use,
    own_sessions,
)
from alcove.platform.services.auth.tokens import IssuedToken
from alcove.platform.store import Store
from alcove.runtime.clock import Clock

__all__ = ["SessionService"]

ANSWER_LENGTH = 4096  # characters of each parameter of a provider's answer


class SessionService(rpc.SessionServiceServicer):
    """Sessions of people who use the console.

    Args:
        store: has them.
        clock: dates them.
        sign_ins: ways to sign in without a token.
        idle_s: seconds after which a session ends that nobody uses.
    """

    def __init__(
        self, store: Store, clock: Clock, sign_ins: SignIns | None = None, *, idle_s: int = limits.SESSION_IDLE_S
    ) -> None:
        self._store = store
        self._clock = clock
        self._sign_ins = sign_ins or SignIns()
        self._idle_s = idle_s

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Any) -> pb.CreateSessionResponse:
        """Make a session for the caller, or for whom the console has brought a proof of."""
        principal = current_principal()
        proof = request.WhichOneof("proof")
        if principal.session_id:
            raise PermissionDeniedError(str(principal.role), "make a session from within a session")
        if (proof is None) == (principal.role == CONSOLE):
            what = "make a session without a proof" if proof is None else "bring proofs of others"
            raise PermissionDeniedError(str(principal.role), what)
        if proof is None:
            issued = await create_session(self._store, principal, now_s=self._clock.now_s())
        elif proof == "certificate":
            issued = await self._by_certificate(request.certificate)
        else:
            issued = await self._by_provider(request.provider_answer)
        return pb.CreateSessionResponse(token=issued.text, expires_at_s=issued.record.expires_at_s)

    async def _by_certificate(self, der: bytes) -> IssuedToken:
        if self._sign_ins.certificates is None:
            problem = "sign-in by client certificate is off: alcove serve --console-certificates"
            raise SessionError(problem)
        now_s = self._clock.now_s()
        holder, expires_at_s = self._sign_ins.certificates.principal(der, now_s=now_s)
        return await create_certificate_session(self._store, holder.token_id, holder.role, expires_at_s, now_s=now_s)

    async def _by_provider(self, answer: pb.ProviderAnswer) -> IssuedToken:
        if self._sign_ins.provider is None:
            raise SessionError(_NO_PROVIDER)
        values = {field.name: getattr(answer, field.name) for field in answer.DESCRIPTOR.fields}
        for name, value in values.items():
            if len(value) > ANSWER_LENGTH:
                raise InvalidFieldError(f"provider_answer.{name}", f"at most {ANSWER_LENGTH} characters", len(value))
        person = await self._sign_ins.provider.finish(ProviderAnswer(**values))
        roles = await asyncio.to_thread(read_claim_roles, self._sign_ins.claim_roles)
        issued = await create_person_session(self._store, person, roles, now_s=self._clock.now_s())
        self._sign_ins.provider.note_session(issued.record.token_id, person, issued.record.expires_at_s)
        return issued

    async def BeginSignIn(self, request: pb.BeginSignInRequest, context: Any) -> pb.BeginSignInResponse:
        """Begin to sign somebody in through the provider."""
        if self._sign_ins.provider is None:
            raise SessionError(_NO_PROVIDER)
        begun = await self._sign_ins.provider.begin()
        return pb.BeginSignInResponse(authorization_url=begun.authorization_url, browser_secret=begun.browser_secret)

    async def GetSession(self, request: pb.GetSessionRequest, context: Any) -> pb.GetSessionResponse:
        """Say who the caller is; note that somebody uses the session."""
        principal = current_principal()
        if not request.is_idle:
            await note_session_use(self._store, principal, now_s=self._clock.now_s())
        return pb.GetSessionResponse(
            role=str(principal.role),
            principal=principal.name,
            name=principal.name_of_token,
            session_id=principal.session_id,
            expires_at_s=principal.expires_at_s,
        )

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Any) -> pb.ListSessionsResponse:
        """List the caller's sessions that hold."""
        principal = current_principal()
        now_s = self._clock.now_s()
        found = await own_sessions(self._store, principal, now_s=now_s, idle_s=self._idle_s)
        sessions = [
            pb.SessionInfo(
                session_id=one.token_id,
                created_at_s=one.created_at_s,
                used_at_s=one.active_at_s,
                expires_at_s=one.expires_at_s,
                is_current=one.token_id == principal.session_id,
            )
            for one in found
        ]
        return pb.ListSessionsResponse(sessions=sessions)

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Any) -> pb.DeleteSessionResponse:
        """End a session of the caller's; say where the browser that is in it signs out, too."""
        principal = current_principal()
        subject = await delete_session(self._store, principal, request.session_id, now_s=self._clock.now_s())
        provider = self._sign_ins.provider
        if provider is None:
            return pb.DeleteSessionResponse()
        ended = request.session_id or principal.session_id
        hint = provider.take_hint(ended)
        is_here = ended == principal.session_id and provider.has_proved(subject)
        return pb.DeleteSessionResponse(sign_out_url=await provider.sign_out_url(hint) if is_here else "")

    async def DeleteOtherSessions(
        self, request: pb.DeleteOtherSessionsRequest, context: Any
    ) -> pb.DeleteOtherSessionsResponse:
        """End the caller's sessions but the one in which the caller is."""
        principal: Principal = current_principal()
        count = await delete_other_sessions(self._store, principal, now_s=self._clock.now_s())
        return pb.DeleteOtherSessionsResponse(count=count)


_NO_PROVIDER = "sign-in by OpenID Connect is off: alcove serve --oidc-issuer"
