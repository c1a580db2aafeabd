"""Stores the audit log: who changed what, when and why.

Entries are only ever added; the database refuses anything else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alcove.platform.domain.records import Page
from alcove.platform.store.tables import AuditRow, ExperimentRow, RolloutRow
from sqlalchemy import Select, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "AuditEntry",
    "AuditFilter",
    "find_last_entry",
    "list_audit",
    "newest_audit",
    "read_audit",
    "select_newest",
    "write_audit",
]


@dataclass(frozen=True)
class AuditEntry:
    """One mutation; `details` are plain JSON values."""

    sequence: int
    at_s: int
    principal: str
    action: str
    subject: str
    details: Mapping[str, object]


@dataclass(frozen=True)
class AuditFilter:
    """Which entries are wanted; every part that is given must fit.

    Attributes:
        subject: what was changed; "": anything.
        app: in which app, its rollouts, experiments and layers included; "": in any.
        since_s: at this time or later, seconds since 1970-01-01 UTC.
    """

    subject: str = ""
    app: str = ""
    since_s: int = 0


async def write_audit(
    session: AsyncSession, *, at_s: int, principal: str, action: str, subject: str, details: Mapping[str, object]
) -> int:
    """Add an entry, in the transaction of the mutation itself; return its number."""
    text = json.dumps(details, sort_keys=True, ensure_ascii=False)
    row = AuditRow(at_s=at_s, principal=principal, action=action, subject=subject, details=text)
    session.add(row)
    await session.flush()
    return row.sequence


async def read_audit(session: AsyncSession, sequences: Sequence[int]) -> dict[int, AuditEntry]:
    """Return entries by their numbers; those that are not there are left out."""
    rows = await session.scalars(select(AuditRow).where(AuditRow.sequence.in_(sequences)))
    return {row.sequence: _entry(row) for row in rows}


async def list_audit(session: AsyncSession, page: Page) -> list[AuditEntry]:
    """Return entries in the order in which they happened."""
    query = select(AuditRow).where(AuditRow.sequence > page.after).order_by(AuditRow.sequence).limit(page.size)
    return [_entry(row) for row in await session.scalars(query)]


def select_newest(wanted: AuditFilter, *, before: int, size: int) -> Select[AuditRow]:
    """Return the query of `newest_audit`; by a subject it reads the entries of that subject alone, by their index."""
    query = select(AuditRow).order_by(AuditRow.sequence.desc()).limit(size)
    if before:
        query = query.where(AuditRow.sequence < before)
    if wanted.since_s:
        query = query.where(AuditRow.at_s >= wanted.since_s)
    if wanted.subject:
        query = query.where(AuditRow.subject == wanted.subject)
    if wanted.app:
        in_details = json.dumps({"app": wanted.app}, ensure_ascii=False)[1:-1]  # as `write_audit` writes it
        query = query.where(
            or_(
                AuditRow.subject == wanted.app,
                AuditRow.subject.startswith(f"{wanted.app}/", autoescape=True),
                AuditRow.subject.in_(select(RolloutRow.rollout_id).where(RolloutRow.app == wanted.app)),
                AuditRow.subject.in_(select(ExperimentRow.experiment_id).where(ExperimentRow.app == wanted.app)),
                AuditRow.details.contains(in_details, autoescape=True),
            )
        )
    return query


async def newest_audit(session: AsyncSession, wanted: AuditFilter, *, before: int, size: int) -> list[AuditEntry]:
    """Return at most `size` entries, the newest first; those before sequence number `before` where it is not 0."""
    return [_entry(row) for row in await session.scalars(select_newest(wanted, before=before, size=size))]


async def find_last_entry(session: AsyncSession, subject: str, action: str) -> AuditEntry | None:
    """Return the newest entry of an action on a subject; None: there is none."""
    query = select(AuditRow).where(AuditRow.subject == subject, AuditRow.action == action)
    row = await session.scalar(query.order_by(AuditRow.sequence.desc()).limit(1))
    return None if row is None else _entry(row)


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(row.sequence, row.at_s, row.principal, row.action, row.subject, json.loads(row.details))
