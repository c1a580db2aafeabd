"""Stores the API tokens that were issued, and sessions: digests of their secrets, never the secrets.

A session is a token with a parent.  It never outlives the parent: what ends that one ends its sessions.  An access is a
token with a subject and without a secret: whoever proves to be the subject gets sessions of it, and nothing else.  A
session of a client certificate has the certificate's name for a parent, which is in no row.
"""

from collections.abc import Collection
from dataclasses import dataclass

from alcove.platform.domain.alerts.conditions import WARN_BEFORE_S
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.store.tables import TokenRow
from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "TokenRecord",
    "TokenSummary",
    "add_token",
    "end_other_sessions",
    "find_access",
    "find_token",
    "find_tokens",
    "limit_token",
    "list_sessions",
    "list_tokens",
    "note_use",
    "remove_old_sessions",
    "replace_access",
    "revoke_token",
    "summarize_tokens",
]


@dataclass(frozen=True)
class TokenRecord:
    """An issued token.

    Attributes:
        revoked_at_s: None while it holds.
        name: whose it is or what for; "": nobody said.
        parent_id: the token whose session it is; "": it is no session.
        subject: who signs in for it by a proof, it has then no secret; "": it has one.
        used_at_s: when somebody last used the session, at most some minutes early; 0: never since it was made.
    """

    token_id: str
    secret_sha256: str
    role: str
    created_at_s: int
    expires_at_s: int
    revoked_at_s: int | None
    name: str = ""
    parent_id: str = ""
    subject: str = ""
    used_at_s: int = 0

    @property
    def is_session(self) -> bool:
        """Whether it was made from another token, for a browser."""
        return bool(self.parent_id)

    @property
    def active_at_s(self) -> int:
        """When it was last used, or made."""
        return max(self.created_at_s, self.used_at_s)


@dataclass(frozen=True)
class TokenSummary:
    """The tokens that hold at a time, sessions left out.

    Attributes:
        valid: number of them.
        expiring: number of those in their last 30 days and in the last third of their life, as alerts have it.
        next_expires_at_s: when the first of those ends, seconds since 1970-01-01 UTC; 0: none does soon.
    """

    valid: int
    expiring: int
    next_expires_at_s: int


async def add_token(session: AsyncSession, record: TokenRecord) -> None:
    """Write a new token."""
    session.add(TokenRow(**vars(record)))
    await session.flush()


async def find_token(session: AsyncSession, token_id: str) -> TokenRecord | None:
    """Return the token, or None."""
    row = await session.get(TokenRow, token_id)
    return None if row is None else _record(row)


async def find_tokens(session: AsyncSession, token_ids: Collection[str]) -> dict[str, TokenRecord]:
    """Return those of the tokens that there are, by id."""
    rows = await session.scalars(select(TokenRow).where(TokenRow.token_id.in_(token_ids)))
    return {row.token_id: _record(row) for row in rows}


async def list_tokens(session: AsyncSession) -> list[TokenRecord]:
    """Return all tokens, oldest first."""
    rows = await session.scalars(select(TokenRow).order_by(TokenRow.created_at_s, TokenRow.token_id))
    return [_record(row) for row in rows]


async def find_access(session: AsyncSession, subject: str) -> TokenRecord | None:
    """Return the newest access of a subject that was not revoked, or None."""
    wanted = select(TokenRow).where(TokenRow.subject == subject, TokenRow.revoked_at_s.is_(None))
    newest = wanted.order_by(TokenRow.created_at_s.desc(), TokenRow.token_id).limit(1)
    row = await session.scalar(newest)
    return None if row is None else _record(row)


async def replace_access(session: AsyncSession, token_id: str, *, role: str, name: str, expires_at_s: int) -> None:
    """Give an access another role, name and end; sessions of before stay as they are."""
    changed = update(TokenRow).where(TokenRow.token_id == token_id)
    await session.execute(changed.values(role=role, name=name, expires_at_s=expires_at_s))


async def list_sessions(session: AsyncSession, parent_id: str, *, now_s: int, idle_s: int) -> list[TokenRecord]:
    """Return the sessions of a caller that hold, the one that was used last first."""
    active = func.coalesce(func.nullif(TokenRow.used_at_s, 0), TokenRow.created_at_s)
    holds = (TokenRow.revoked_at_s.is_(None), TokenRow.expires_at_s > now_s, active > now_s - idle_s)
    wanted = select(TokenRow).where(TokenRow.parent_id == parent_id, *holds)
    return [_record(row) for row in await session.scalars(wanted.order_by(active.desc(), TokenRow.token_id))]


async def note_use(session: AsyncSession, token_id: str, now_s: int) -> None:
    """Note that somebody uses a session."""
    await session.execute(update(TokenRow).where(TokenRow.token_id == token_id).values(used_at_s=now_s))


async def end_other_sessions(session: AsyncSession, parent_id: str, kept_id: str, now_s: int) -> int:
    """Revoke the sessions of a caller but one; return how many."""
    others = update(TokenRow).where(
        TokenRow.parent_id == parent_id,
        TokenRow.token_id != kept_id,
        TokenRow.revoked_at_s.is_(None),
        TokenRow.expires_at_s > now_s,
    )
    done = await session.execute(others.values(revoked_at_s=now_s).returning(TokenRow.token_id))
    return len(done.all())


async def summarize_tokens(session: AsyncSession, now_s: int) -> TokenSummary:
    """Return how many tokens hold at a time, and how many of them end soon."""
    holds = [TokenRow.parent_id == "", TokenRow.revoked_at_s.is_(None), TokenRow.expires_at_s > now_s]
    left_s: ColumnElement[int] = TokenRow.expires_at_s - now_s
    is_late = left_s * 3 <= TokenRow.expires_at_s - TokenRow.created_at_s
    soon = (TokenRow.expires_at_s <= now_s + max(WARN_BEFORE_S), is_late)
    valid = await session.scalar(select(func.count()).where(*holds))
    expiring = select(func.count(), func.min(TokenRow.expires_at_s)).where(*holds, *soon)
    count, first = (await session.execute(expiring)).one()
    return TokenSummary(valid or 0, count, first or 0)


async def limit_token(session: AsyncSession, token_id: str, expires_at_s: int) -> None:
    """Let a token and its sessions expire at this time, unless they do so before.

    Raises:
        ResourceNotFoundError: there is none of this id.
    """
    row = await session.get(TokenRow, token_id)
    if row is None:
        raise ResourceNotFoundError("token", token_id)
    later = update(TokenRow).where(TokenRow.parent_id == token_id, TokenRow.expires_at_s > expires_at_s)
    await session.execute(later.values(expires_at_s=expires_at_s))
    row.expires_at_s = min(row.expires_at_s, expires_at_s)
    await session.flush()


async def revoke_token(session: AsyncSession, token_id: str, now_s: int) -> TokenRecord:
    """Revoke a token and its sessions from now on; what was revoked before stays as it was.

    Raises:
        ResourceNotFoundError: there is none of this id.
    """
    row = await session.get(TokenRow, token_id)
    if row is None:
        raise ResourceNotFoundError("token", token_id)
    if row.revoked_at_s is None:
        row.revoked_at_s = now_s
    held = update(TokenRow).where(TokenRow.parent_id == token_id, TokenRow.revoked_at_s.is_(None))
    await session.execute(held.values(revoked_at_s=now_s))
    await session.flush()
    return _record(row)


async def remove_old_sessions(session: AsyncSession, parent_id: str, *, now_s: int, kept: int) -> None:
    """Remove the sessions of a token that are over, and all but the newest `kept` of the others."""
    of_parent = TokenRow.parent_id == parent_id
    is_over = or_(TokenRow.expires_at_s <= now_s, TokenRow.revoked_at_s.is_not(None))
    await session.execute(delete(TokenRow).where(of_parent, is_over))
    newest = select(TokenRow.token_id).where(of_parent).order_by(TokenRow.created_at_s.desc(), TokenRow.token_id)
    surplus = list(await session.scalars(newest.offset(kept)))
    await session.execute(delete(TokenRow).where(TokenRow.token_id.in_(surplus)))


def _record(row: TokenRow) -> TokenRecord:
    return TokenRecord(
        token_id=row.token_id,
        secret_sha256=row.secret_sha256,
        role=row.role,
        created_at_s=row.created_at_s,
        expires_at_s=row.expires_at_s,
        revoked_at_s=row.revoked_at_s,
        name=row.name,
        parent_id=row.parent_id,
        subject=row.subject,
        used_at_s=row.used_at_s,
    )
