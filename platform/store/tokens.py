"""Stores the API tokens that were issued: digests of their secrets, never the secrets."""

from collections.abc import Collection
from dataclasses import dataclass

from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.store.tables import TokenRow
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["TokenRecord", "add_token", "find_token", "find_tokens", "limit_token", "list_tokens", "revoke_token"]


@dataclass(frozen=True)
class TokenRecord:
    """An issued token; `revoked_at_s` is None while it holds, `name` says whose it is or what for ("": nobody said)."""

    token_id: str
    secret_sha256: str
    role: str
    created_at_s: int
    expires_at_s: int
    revoked_at_s: int | None
    name: str = ""


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
    """Let a token expire at this time, unless it does so before.

    Raises:
        ResourceNotFoundError: there is none of this id.
    """
    row = await session.get(TokenRow, token_id)
    if row is None:
        raise ResourceNotFoundError("token", token_id)
    row.expires_at_s = min(row.expires_at_s, expires_at_s)
    await session.flush()


async def revoke_token(session: AsyncSession, token_id: str, now_s: int) -> TokenRecord:
    """Revoke a token from now on; one that was revoked before stays as it was.

    Raises:
        ResourceNotFoundError: there is none of this id.
    """
    row = await session.get(TokenRow, token_id)
    if row is None:
        raise ResourceNotFoundError("token", token_id)
    if row.revoked_at_s is None:
        row.revoked_at_s = now_s
    await session.flush()
    return _record(row)


def _record(row: TokenRow) -> TokenRecord:
    return TokenRecord(
        token_id=row.token_id,
        secret_sha256=row.secret_sha256,
        role=row.role,
        created_at_s=row.created_at_s,
        expires_at_s=row.expires_at_s,
        revoked_at_s=row.revoked_at_s,
        name=row.name,
    )
