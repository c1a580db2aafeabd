"""Stores the policy and halt documents that were decided, and finds those that the tree is still missing.

A decision is committed first, with its document; publishing it to the tree comes second and may be repeated.  So a
server killed in between publishes at its next start what it had promised.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from alcove.platform.store.audit import AuditEntry, read_audit
from alcove.platform.store.tables import PublicationRow
from sqlalchemy import Row, Select, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "DecidedPolicy",
    "Kind",
    "Publication",
    "add_publication",
    "count_waiting",
    "find_publication",
    "halted_apps",
    "last_publication",
    "list_policies",
    "list_unpublished",
    "mark_decided",
    "mark_published",
    "newest_policies",
    "policies_newest_first",
]

Kind = Literal["policy", "halt"]
CAUSES_MOST: Final = 8  # entries of the audit log that are read of one change


@dataclass(frozen=True)
class Publication:
    """A signed-to-be document of an app; serials only rise per kind and app."""

    kind: Kind
    app: str
    serial: int
    document: bytes
    is_published: bool


@dataclass(frozen=True)
class DecidedPolicy:
    """A policy without its document, and what the audit log says of the change that decided it.

    `decided_at_s` 0, `decided_by` "" and no causes: it was decided before these were kept.
    """

    app: str
    serial: int
    size_bytes: int
    is_published: bool
    decided_at_s: int
    decided_by: str
    causes: tuple[AuditEntry, ...]


async def add_publication(session: AsyncSession, publication: Publication) -> None:
    """Write a decided document; `mark_decided` says who decided it, when the change is whole."""
    session.add(PublicationRow(**vars(publication)))
    await session.flush()


async def last_publication(session: AsyncSession, kind: Kind, app: str) -> Publication | None:
    """Return the document with the highest serial, published or not."""
    query = (
        select(PublicationRow)
        .where(PublicationRow.kind == kind, PublicationRow.app == app)
        .order_by(PublicationRow.serial.desc())
        .limit(1)
    )
    row = await session.scalar(query)
    return None if row is None else _record(row)


async def find_publication(session: AsyncSession, kind: Kind, app: str, serial: int) -> Publication | None:
    """Return the document of a serial number, published or not."""
    row = await session.get(PublicationRow, (kind, app, serial))
    return None if row is None else _record(row)


async def mark_decided(session: AsyncSession, kind: Kind, app: str, *, at_s: int, by: str, audited: range) -> None:
    """Note who decided the newest document of an app, and where the audit log says why.

    Args:
        session: the transaction of the change.
        kind: of the documents.
        app: whose.
        at_s: when, seconds since 1970-01-01 UTC.
        by: who asked, as audited.
        audited: sequence numbers of the change's entries; empty: none.
    """
    newest = select(func.max(PublicationRow.serial)).where(PublicationRow.kind == kind, PublicationRow.app == app)
    await session.execute(
        update(PublicationRow)
        .where(PublicationRow.kind == kind, PublicationRow.app == app)
        .where(PublicationRow.serial == newest.scalar_subquery())
        .values(
            decided_at_s=at_s,
            decided_by=by,
            first_audit=audited[0] if audited else 0,
            last_audit=audited[-1] if audited else 0,
        )
    )


_SUMMARY = (
    PublicationRow.app,
    PublicationRow.serial,
    func.length(PublicationRow.document).label("size_bytes"),
    PublicationRow.is_published,
    PublicationRow.decided_at_s,
    PublicationRow.decided_by,
    PublicationRow.first_audit,
    PublicationRow.last_audit,
)


async def list_policies(session: AsyncSession, app: str, *, before: int, size: int) -> list[DecidedPolicy]:
    """Return an app's policies, the newest first; those below serial `before` where it is not 0."""
    query = select(*_SUMMARY).where(PublicationRow.kind == "policy", PublicationRow.app == app)
    if before:
        query = query.where(PublicationRow.serial < before)
    return await _summaries(session, query.order_by(PublicationRow.serial.desc()).limit(size))


async def newest_policies(session: AsyncSession, *, after: str, size: int) -> list[DecidedPolicy]:
    """Return the newest policy of each app by the app's name; of apps behind `after`."""
    newest = (
        select(PublicationRow.app, func.max(PublicationRow.serial).label("serial"))
        .where(PublicationRow.kind == "policy", PublicationRow.app > after)
        .group_by(PublicationRow.app)
        .order_by(PublicationRow.app)
        .limit(size)
        .subquery()
    )
    query = select(*_SUMMARY).where(PublicationRow.kind == "policy")
    query = query.join(newest, (PublicationRow.app == newest.c.app) & (PublicationRow.serial == newest.c.serial))
    return await _summaries(session, query.order_by(PublicationRow.app))


async def _summaries(session: AsyncSession, query: Select[*tuple[Any, ...]]) -> list[DecidedPolicy]:
    rows = (await session.execute(query)).all()
    causes = await read_audit(session, [number for row in rows for number in _audit_range(row)])
    return [
        DecidedPolicy(
            row.app,
            row.serial,
            row.size_bytes,
            row.is_published,
            row.decided_at_s,
            row.decided_by,
            tuple(causes[number] for number in _audit_range(row) if number in causes),
        )
        for row in rows
    ]


def _audit_range(row: Row[Any]) -> range:
    return (
        range(row.first_audit, min(row.last_audit, row.first_audit + CAUSES_MOST - 1) + 1)
        if row.first_audit
        else range(0)
    )


async def halted_apps(session: AsyncSession) -> list[str]:
    """Return every app for which a halt was ever decided."""
    query = select(PublicationRow.app).where(PublicationRow.kind == "halt").distinct().order_by(PublicationRow.app)
    return list(await session.scalars(query))


async def policies_newest_first(session: AsyncSession, app: str) -> AsyncIterator[bytes]:
    """Give the app's policy documents, from the newest back; each is read when it is asked for."""
    query = select(PublicationRow.serial).where(PublicationRow.kind == "policy", PublicationRow.app == app)
    serials = (await session.scalars(query.order_by(PublicationRow.serial.desc()))).all()
    for serial in serials:
        yield (await session.get_one(PublicationRow, ("policy", app, serial))).document


async def list_unpublished(session: AsyncSession) -> list[Publication]:
    """Return what the tree still misses: halts first, then by app and serial."""
    query = select(PublicationRow).where(PublicationRow.is_published.is_(False))
    query = query.order_by(PublicationRow.kind, PublicationRow.app, PublicationRow.serial)
    return [_record(row) for row in await session.scalars(query)]


async def count_waiting(session: AsyncSession) -> tuple[int, int, int]:
    """Return how many documents the tree still misses, how many of them are halts, and when the oldest was decided.

    The time is in seconds since 1970-01-01 UTC; 0: none waits, or it was decided before these times were kept.
    """
    of_kind = select(PublicationRow.kind, func.count(), func.min(func.nullif(PublicationRow.decided_at_s, 0)))
    query = of_kind.where(PublicationRow.is_published.is_(False)).group_by(PublicationRow.kind)
    rows = {kind: (count, oldest or 0) for kind, count, oldest in await session.execute(query)}
    halts = rows.get("halt", (0, 0))[0]
    return (
        sum(count for count, _ in rows.values()),
        halts,
        min((oldest for _, oldest in rows.values() if oldest), default=0),
    )


async def mark_published(session: AsyncSession, publication: Publication) -> None:
    """Note that the tree holds this document, or a newer one that replaced it."""
    await session.execute(
        update(PublicationRow)
        .where(
            PublicationRow.kind == publication.kind,
            PublicationRow.app == publication.app,
            PublicationRow.serial <= publication.serial,
        )
        .values(is_published=True)
    )


def _record(row: PublicationRow) -> Publication:
    kind: Kind = "halt" if row.kind == "halt" else "policy"
    return Publication(kind, row.app, row.serial, row.document, row.is_published)
