"""Issues, lists and revokes tokens and reads the audit log in the server's database, even while the server runs."""

import asyncio
from pathlib import Path

from alcove.platform.domain.errors import InvalidFieldError, ResourceNotFoundError
from alcove.platform.domain.limits import PAGE_SIZE
from alcove.platform.domain.principal import Role
from alcove.platform.domain.records import Page
from alcove.platform.services.auth.tokens import issue_token
from alcove.platform.services.local_store import LOCAL_PRINCIPAL, with_store
from alcove.platform.store import Store
from alcove.platform.store.audit import AuditEntry, AuditFilter, list_audit, search_audit
from alcove.platform.store.tokens import (
    TokenRecord,
    add_token,
    find_token,
    limit_token,
    list_tokens,
    revoke_token,
)
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = [
    "create_local_token",
    "list_local_audit",
    "list_local_tokens",
    "newest_local_audit",
    "renew_local_token",
    "revoke_local_token",
]


def create_local_token(
    data_dir: Path,
    role: str,
    *,
    name: str = "",
    lifetime_s: int = 90 * 86_400,
    clock: Clock = SYSTEM_CLOCK,
    database: str | None = None,
) -> tuple[str, TokenRecord]:
    """Issue a token; return its text, which nobody can read again, and what is kept of it.

    Args:
        data_dir: of the server; must exist.
        role: "reader", "operator" or "team:<name>".
        name: whose it is or what for, shown in lists; "": nobody said.
        lifetime_s: seconds until it expires.
        clock: dates it.
        database: URL of the server's database where it is no file in the folder.

    Raises:
        InvalidFieldError: the folder, role, name or lifetime is not acceptable.
    """

    async def work(store: Store) -> tuple[str, TokenRecord]:
        issued = issue_token(Role.parse(role), now_s=clock.now_s(), lifetime_s=lifetime_s, name=name)
        async with store.write() as session:
            await add_token(session, issued.record)
            uow = UnitOfWork(session, LOCAL_PRINCIPAL, clock.now_s())
            details: dict[str, object] = {"name": name} if name else {}
            details |= {"role": role, "expires_at_s": issued.record.expires_at_s}
            await uow.audit("create token", issued.record.token_id, **details)
        return issued.text, issued.record

    return asyncio.run(with_store(data_dir, database, work))


def renew_local_token(
    data_dir: Path,
    token_id: str,
    *,
    lifetime_s: int = 90 * 86_400,
    overlap_s: int = 86_400,
    clock: Clock = SYSTEM_CLOCK,
    database: str | None = None,
) -> tuple[str, TokenRecord, TokenRecord]:
    """Issue a token in the place of another, of the same role and name; the old one holds for `overlap_s` more.

    Returns:
        The new token's text, which nobody can read again, what is kept of it, and what is kept of the old one.

    Raises:
        InvalidFieldError: the folder or lifetime is not acceptable, or the old token was revoked.
        ResourceNotFoundError: there is no such token.
    """

    async def work(store: Store) -> tuple[str, TokenRecord, TokenRecord]:
        now_s = clock.now_s()
        async with store.write() as session:
            old = await find_token(session, token_id)
            if old is None:
                raise ResourceNotFoundError("token", token_id)
            if old.is_session:
                raise InvalidFieldError("token", "a token: a session is made by signing in", token_id)
            if old.subject:
                raise InvalidFieldError("token", "a token: an access is granted again", token_id)
            if old.revoked_at_s is not None:
                raise InvalidFieldError("token", "one that was not revoked: create another", token_id)
            issued = issue_token(Role.parse(old.role), now_s=now_s, lifetime_s=lifetime_s, name=old.name)
            await add_token(session, issued.record)
            await limit_token(session, token_id, now_s + overlap_s)
            details: dict[str, object] = {"role": old.role, "expires_at_s": issued.record.expires_at_s}
            await UnitOfWork(session, LOCAL_PRINCIPAL, now_s).audit(
                "renew token", issued.record.token_id, in_place_of=token_id, **details
            )
            kept = await find_token(session, token_id)
        return issued.text, issued.record, old if kept is None else kept

    return asyncio.run(with_store(data_dir, database, work))


def list_local_tokens(data_dir: Path, *, database: str | None = None) -> list[TokenRecord]:
    """Return all tokens, oldest first.

    Raises:
        InvalidFieldError: the folder does not exist.
    """

    async def work(store: Store) -> list[TokenRecord]:
        async with store.read() as session:
            return await list_tokens(session)

    return asyncio.run(with_store(data_dir, database, work))


def list_local_audit(data_dir: Path, *, database: str | None = None) -> list[AuditEntry]:
    """Return the whole audit log, oldest entry first.

    Raises:
        InvalidFieldError: the folder does not exist.
    """

    async def work(store: Store) -> list[AuditEntry]:
        entries: list[AuditEntry] = []
        async with store.read() as session:
            while page := await list_audit(session, Page(entries[-1].sequence if entries else 0, PAGE_SIZE[1])):
                entries += page
        return entries

    return asyncio.run(with_store(data_dir, database, work))


def newest_local_audit(
    data_dir: Path, wanted: AuditFilter, *, limit: int | None = None, database: str | None = None
) -> list[AuditEntry]:
    """Return entries of the audit log, the newest first, at most `limit` of them (None: all).

    Raises:
        InvalidFieldError: the folder does not exist.
    """

    async def work(store: Store) -> list[AuditEntry]:
        entries: list[AuditEntry] = []
        before = 0
        async with store.read() as session:
            while limit is None or len(entries) < limit:
                size = PAGE_SIZE[1] if limit is None else min(PAGE_SIZE[1], limit - len(entries))
                page = await search_audit(session, wanted, before=before, size=size)
                entries += page.entries
                before = page.before
                if not before:
                    break
        return entries

    return asyncio.run(with_store(data_dir, database, work))


def revoke_local_token(
    data_dir: Path, token_id: str, *, clock: Clock = SYSTEM_CLOCK, database: str | None = None
) -> TokenRecord:
    """Revoke a token from now on.

    Raises:
        InvalidFieldError: the folder does not exist.
        ResourceNotFoundError: there is no such token.
    """

    async def work(store: Store) -> TokenRecord:
        async with store.write() as session:
            record = await revoke_token(session, token_id, clock.now_s())
            await UnitOfWork(session, LOCAL_PRINCIPAL, clock.now_s()).audit("revoke token", token_id)
        return record

    return asyncio.run(with_store(data_dir, database, work))
