"""Makes and ends sessions: tokens for a browser, each in exchange for an API token."""

from alcove.platform.domain import limits
from alcove.platform.domain.errors import SessionError
from alcove.platform.domain.principal import Principal
from alcove.platform.services.auth.tokens import IssuedToken, issue_session
from alcove.platform.store import Store
from alcove.platform.store.tokens import add_token, find_token, remove_old_sessions, revoke_token
from alcove.platform.store.unit_of_work import UnitOfWork

__all__ = ["create_session", "delete_session"]


async def create_session(store: Store, principal: Principal, *, now_s: int) -> IssuedToken:
    """Return a new session of the caller's token; the oldest give way where there are too many.

    Raises:
        SessionError: the caller has no token, but a client certificate.
    """
    async with store.write() as session:
        parent = await find_token(session, principal.token_id)
        if parent is None or parent.is_session or parent.revoked_at_s is not None or parent.expires_at_s <= now_s:
            problem = "made in exchange for an API token, which this caller does not have"
            raise SessionError(problem)
        issued = issue_session(parent, now_s=now_s, lifetime_s=limits.SESSION_S)
        await remove_old_sessions(session, parent.token_id, now_s=now_s, kept=limits.SESSIONS_OF_TOKEN - 1)
        await add_token(session, issued.record)
        uow = UnitOfWork(session, principal.name, now_s)
        await uow.audit("create session", issued.record.token_id, expires_at_s=issued.record.expires_at_s)
    return issued


async def delete_session(store: Store, principal: Principal, *, now_s: int) -> None:
    """End the session in which the caller is, from now on."""
    async with store.write() as session:
        await revoke_token(session, principal.session_id, now_s)
        await UnitOfWork(session, principal.name, now_s).audit("end session", principal.session_id)
