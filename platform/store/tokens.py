"""Stores the API tokens that were issued, and sessions: digests of their secrets, never the secrets.

A session is a token with a parent.  It never outlives the parent: what ends that one ends its sessions.
"""

from collections.abc import Collection
from dataclasses import dataclass

from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.store.tables import TokenRow
from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "TokenRecord",
    "add_token",
    "find_token",
    "find_tokens",
    "limit_token",
    "list_tokens",
    "remove_old_sessions",
    "revoke_token",
]


@dataclass(frozen=True)
class TokenRecord:
    """An issued token.

    Attributes:
        revoked_at_s: None while it holds.
        name: whose it is or what for; "": nobody said.
        parent_id: the token whose session it is; "": it is no session.
    """

    token_id: str
    secret_sha256: str
    role: str
    created_at_s: int
    expires_at_s: int
    revoked_at_s: int | None
    name: str = ""
    parent_id: str = ""

    @property
    def is_session(self) -> bool:
        """Whether it was made from another token, for a browser."""
        return bool(self.parent_id)


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
    )
