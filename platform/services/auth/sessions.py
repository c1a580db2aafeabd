"""Makes, lists and ends sessions: tokens for a browser, each of an API token, an access or a client certificate."""

from contextlib import suppress

from alcove.platform.domain import limits
from alcove.platform.domain.errors import (
    ResourceNotFoundError,
    SessionError,
    StoreBusyError,
    StoreFullError,
    StoreUnavailableError,
)
from alcove.platform.domain.principal import Principal, Role
from alcove.platform.services.auth.tokens import IssuedToken, issue_session
from alcove.platform.store import Store
from alcove.platform.store.tokens import (
    TokenRecord,
    add_token,
    end_other_sessions,
    find_token,
    list_sessions,
    note_use,
    remove_old_sessions,
    revoke_token,
)
from alcove.platform.store.unit_of_work import UnitOfWork
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "add_session",
    "create_certificate_session",
    "create_session",
    "delete_other_sessions",
    "delete_session",
    "note_session_use",
    "own_sessions",
]


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
        return await add_session(session, parent, now_s=now_s, by="token")


async def create_certificate_session(
    store: Store, name: str, role: Role, expires_at_s: int, *, now_s: int
) -> IssuedToken:
    """Return a new session of the holder of a client certificate, which ends with the certificate at the latest.

    Args:
        store: gets it.
        name: of the certificate with its kind ("email:anna@acme.example"), as calls with it are audited.
        role: that the server's list gives the name.
        expires_at_s: of the certificate, later than `now_s`.
        now_s: seconds since 1970-01-01 UTC.
    """
    parent = TokenRecord(name, "", str(role), now_s, expires_at_s, None)
    async with store.write() as session:
        return await add_session(session, parent, now_s=now_s, by="client certificate")


async def add_session(session: AsyncSession, parent: TokenRecord, *, now_s: int, by: str) -> IssuedToken:
    """Write a new session of a parent, and who has signed in and how; the oldest give way where there are too many."""
    issued = issue_session(parent, now_s=now_s, lifetime_s=limits.SESSION_S)
    await remove_old_sessions(session, parent.token_id, now_s=now_s, kept=limits.SESSIONS_OF_TOKEN - 1)
    await add_token(session, issued.record)
    uow = UnitOfWork(session, f"{parent.role}/{parent.token_id}", now_s)
    await uow.audit("create session", issued.record.token_id, expires_at_s=issued.record.expires_at_s, by=by)
    return issued


async def delete_session(store: Store, principal: Principal, session_id: str = "", *, now_s: int) -> str:
    """End a session of the caller's from now on; "": the one in which the caller is.

    Returns:
        The subject of the access that it was of (`subject_of`); "": it was of a token or a client certificate.

    Raises:
        SessionError: it names none and the caller is in none.
        ResourceNotFoundError: the caller has no such session.
    """
    wanted = session_id or principal.session_id
    if not wanted:
        problem = "the caller is in none"
        raise SessionError(problem)
    async with store.write() as session:
        found = await find_token(session, wanted)
        if found is None or not found.is_session or found.parent_id != principal.token_id:
            raise ResourceNotFoundError("session", wanted)
        await revoke_token(session, wanted, now_s)
        await UnitOfWork(session, principal.name, now_s).audit("end session", wanted)
        parent = await find_token(session, found.parent_id)
    return "" if parent is None else parent.subject


async def delete_other_sessions(store: Store, principal: Principal, *, now_s: int) -> int:
    """End the caller's sessions but the one in which the caller is; return how many."""
    async with store.write() as session:
        count = await end_other_sessions(session, principal.token_id, principal.session_id, now_s)
        if count:
            uow = UnitOfWork(session, principal.name, now_s)
            await uow.audit("end other sessions", principal.session_id or principal.token_id, count=count)
    return count


async def own_sessions(store: Store, principal: Principal, *, now_s: int, idle_s: int) -> list[TokenRecord]:
    """Return the caller's sessions that hold, the one that was used last first."""
    async with store.read() as session:
        return await list_sessions(session, principal.token_id, now_s=now_s, idle_s=idle_s)


async def note_session_use(store: Store, principal: Principal, *, now_s: int) -> None:
    """Note that the caller uses the session, where the last note is some minutes old.

    A database that cannot be written keeps nobody from reading a page: the next page tries again.
    """
    if not principal.session_id or now_s < principal.active_at_s + limits.SESSION_NOTED_S:
        return
    with suppress(StoreBusyError, StoreFullError, StoreUnavailableError):
        async with store.write() as session:
            await note_use(session, principal.session_id, now_s)
