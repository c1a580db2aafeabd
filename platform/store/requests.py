"""Stores the answers of mutations by request id, so that a repeat gets the answer of the first."""

from alcove.platform.domain.errors import RequestIdReusedError
from alcove.platform.store.tables import RequestRow
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["find_response", "keep_response"]


async def find_response(
    session: AsyncSession, *, principal: str, request_id: str, method: str, content_sha256: str
) -> bytes | None:
    """Return the stored response of this very request, or None when it is new.

    Raises:
        RequestIdReusedError: the same caller used the id for another method or content.
    """
    row = await session.get(RequestRow, (principal, request_id))
    if row is None:
        return None
    if (row.method, row.content_sha256) != (method, content_sha256):
        raise RequestIdReusedError(request_id, method)
    return row.response


async def keep_response(
    session: AsyncSession,
    *,
    principal: str,
    request_id: str,
    method: str,
    content_sha256: str,
    response: bytes,
    now_s: int,
) -> None:
    """Keep the response, in the transaction of the mutation itself."""
    session.add(
        RequestRow(
            principal=principal,
            request_id=request_id,
            method=method,
            content_sha256=content_sha256,
            response=response,
            created_at_s=now_s,
        )
    )
    await session.flush()
