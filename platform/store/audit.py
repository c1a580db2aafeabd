"""Stores the audit log: who changed what, when and why.

Entries are only ever added; the database refuses anything else.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from alcove.platform.domain.records import Page
from alcove.platform.store.tables import AuditRow
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["AuditEntry", "list_audit", "write_audit"]


@dataclass(frozen=True)
class AuditEntry:
    """One mutation; `details` are plain JSON values."""

    sequence: int
    at_s: int
    principal: str
    action: str
    subject: str
    details: Mapping[str, object]


async def write_audit(
    session: AsyncSession, *, at_s: int, principal: str, action: str, subject: str, details: Mapping[str, object]
) -> None:
    """Add an entry, in the transaction of the mutation itself."""
    text = json.dumps(details, sort_keys=True, ensure_ascii=False)
    session.add(AuditRow(at_s=at_s, principal=principal, action=action, subject=subject, details=text))
    await session.flush()


async def list_audit(session: AsyncSession, page: Page) -> list[AuditEntry]:
    """Return entries in the order in which they happened."""
    query = select(AuditRow).where(AuditRow.sequence > page.after).order_by(AuditRow.sequence).limit(page.size)
    return [
        AuditEntry(row.sequence, row.at_s, row.principal, row.action, row.subject, json.loads(row.details))
        for row in await session.scalars(query)
    ]
