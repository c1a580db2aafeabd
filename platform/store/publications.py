"""Stores the policy and halt documents that were decided, and finds those that the tree is still missing.

A decision is committed first, with its document; publishing it to the tree comes second and may be repeated.  So a
server killed in between publishes at its next start what it had promised.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from alcove.platform.store.tables import PublicationRow
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "Kind",
    "Publication",
    "add_publication",
    "halted_apps",
    "last_publication",
    "list_unpublished",
    "mark_published",
    "policies_newest_first",
]

Kind = Literal["policy", "halt"]


@dataclass(frozen=True)
class Publication:
    """A signed-to-be document of an app; serials only rise per kind and app."""

    kind: Kind
    app: str
    serial: int
    document: bytes
    is_published: bool


async def add_publication(session: AsyncSession, publication: Publication) -> None:
    """Write a decided document."""
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
