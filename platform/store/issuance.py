"""Stores what the issuer of tokens knows: enrolled installations, its keys, and who has its token of a window (S6)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from alcove.platform.store.dialects import insert
from alcove.platform.store.tables import EnrollmentRow, IssuedTokenRow, IssuerKeyRow, IssuerSecretRow
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "StoredKey",
    "add_enrollments",
    "add_issuer_key",
    "claim_tokens",
    "find_installations",
    "find_issuer_key",
    "keep_secret",
    "retire_issuer_keys",
]


@dataclass(frozen=True)
class StoredKey:
    """A key of tokens; `private_key` is empty once no more tokens are made with it."""

    public_key: bytes
    private_key: bytes


async def keep_secret(session: AsyncSession, name: str, secret: bytes) -> bytes:
    """Store a secret unless there is one of this name, and return the one that is stored."""
    await session.execute(insert(session, IssuerSecretRow).values(name=name, secret=secret).on_conflict_do_nothing())
    return (await session.get_one(IssuerSecretRow, name)).secret


async def add_enrollments(session: AsyncSession, keys: Mapping[bytes, bytes], now_s: int) -> set[bytes]:
    """Enroll installations, each with the key by which it asks for tokens from now on.

    Args:
        session: of a transaction.
        keys: public key by installation.
        now_s: seconds since 1970.

    Returns:
        The installations whose key is another installation's; they are not enrolled.
    """
    owners = await find_installations(session, list(keys.values()))
    others = {installation for installation, key in keys.items() if owners.get(key, installation) != installation}
    rows = [
        {"installation": installation, "public_key": key, "enrolled_at_s": now_s}
        for installation, key in keys.items()
        if installation not in others
    ]
    if rows:
        statement = insert(session, EnrollmentRow)
        changed = {"public_key": statement.excluded.public_key, "enrolled_at_s": statement.excluded.enrolled_at_s}
        await session.execute(statement.on_conflict_do_update(index_elements=["installation"], set_=changed), rows)
    return others


async def find_installations(session: AsyncSession, public_keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the installation of each public key that is enrolled."""
    query = select(EnrollmentRow.public_key, EnrollmentRow.installation)
    found = await session.execute(query.where(EnrollmentRow.public_key.in_(public_keys)))
    return {key: installation for key, installation in found}  # noqa: C416 - rows are no pairs to the type checker


async def find_issuer_key(session: AsyncSession, task_id: bytes, time: int) -> StoredKey | None:
    """Return the key of a task and time."""
    row = await session.get(IssuerKeyRow, (task_id, time))
    return None if row is None else StoredKey(row.public_key, row.private_key)


async def add_issuer_key(session: AsyncSession, task_id: bytes, time: int, key: StoredKey) -> StoredKey:
    """Store a key unless there is one of this task and time, and return the one that is stored."""
    row = {"task_id": task_id, "time": time, "public_key": key.public_key, "private_key": key.private_key}
    await session.execute(insert(session, IssuerKeyRow).values(row).on_conflict_do_nothing())
    stored = await session.get_one(IssuerKeyRow, (task_id, time))
    return StoredKey(stored.public_key, stored.private_key)


async def retire_issuer_keys(session: AsyncSession, task_id: bytes, before: int, running: Collection[bytes]) -> None:
    """Empty private keys of which no more tokens are made, and forget who has these.

    Args:
        session: of a transaction.
        task_id: of a task, in DAP.
        before: the first time of that task whose tokens are still made.
        running: all tasks of which tokens are made.
    """
    keys, tokens = (
        ((table.task_id == task_id) & (table.time < before)) | table.task_id.not_in(running)
        for table in (IssuerKeyRow, IssuedTokenRow)
    )
    await session.execute(update(IssuerKeyRow).where(keys).values(private_key=b""))
    await session.execute(delete(IssuedTokenRow).where(tokens))


async def claim_tokens(session: AsyncSession, task_id: bytes, time: int, requests: Mapping[bytes, bytes]) -> set[bytes]:
    """Note that installations have their token, and return those whose one request this is.

    Args:
        session: of a transaction.
        task_id: of the task, in DAP.
        time: of the window, in DAP.
        requests: SHA-256 of the request by installation.
    """
    rows = [
        {"task_id": task_id, "time": time, "installation": installation, "request_sha256": digest}
        for installation, digest in requests.items()
    ]
    if not rows:
        return set()
    await session.execute(insert(session, IssuedTokenRow).on_conflict_do_nothing(), rows)
    query = select(IssuedTokenRow.installation, IssuedTokenRow.request_sha256).where(
        IssuedTokenRow.task_id == task_id,
        IssuedTokenRow.time == time,
        IssuedTokenRow.installation.in_(list(requests)),
    )
    return {installation for installation, digest in await session.execute(query) if requests[installation] == digest}
