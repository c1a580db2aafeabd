"""Stores the audit log: who changed what, when and why.

Entries are only ever added; the database refuses anything else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from alcove.platform.domain.records import Page
from alcove.platform.store.tables import AuditRow, ExperimentRow, RolloutRow
from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "SCAN_ENTRIES",
    "SCAN_WINDOW",
    "AuditEntry",
    "AuditFilter",
    "AuditPage",
    "find_last_entry",
    "list_audit",
    "read_audit",
    "search_audit",
    "select_newest",
    "write_audit",
]

SCAN_ENTRIES: Final = 100_000  # of the log that one search looks through: some tenths of a second
SCAN_WINDOW: Final = 10_000  # of one query, between which others have their turn
_CLOCK_WRONG_S: Final = 86_400


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
        until_s: before this time; 0: at any time.
        words: each of which occurs in the subject or the details, in lower case; (): any.
        principal: occurs in whoever did it; "": anybody.
        action: occurs in what was done; "": anything.
    """

    subject: str = ""
    app: str = ""
    since_s: int = 0
    until_s: int = 0
    words: tuple[str, ...] = ()
    principal: str = ""
    action: str = ""

    @property
    def looks_through_all(self) -> bool:
        """Whether no index leads to the entries, so that the log is gone through."""
        return not self.subject and self != AuditFilter()


@dataclass(frozen=True)
class AuditPage:
    """A page of the log.

    Attributes:
        entries: the newest first.
        before: where the next page goes on: before this sequence number; 0: there is no more.
        searched_back_to_s: time of the oldest entry that was looked through; 0: all were.
    """

    entries: tuple[AuditEntry, ...]
    before: int = 0
    searched_back_to_s: int = 0


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


def select_newest(wanted: AuditFilter, *, before: int, size: int, since: int = 0) -> Select[AuditRow]:
    """Return the query of entries with sequence numbers from `since` to before `before` (0: to the newest)."""
    query = select(AuditRow).order_by(AuditRow.sequence.desc()).limit(size)
    if before:
        query = query.where(AuditRow.sequence < before)
    if since:
        query = query.where(AuditRow.sequence >= since)
    return query.where(*_filters(wanted))


async def search_audit(session: AsyncSession, wanted: AuditFilter, *, before: int, size: int) -> AuditPage:
    """Return at most `size` entries, the newest first; those before sequence number `before` where it is not 0.

    Entries of a subject are read by their index.  Every other search goes through windows of the log from `before`
    back, and looks at `SCAN_ENTRIES` entries at most: the page then has fewer than `size`, and says where to go on.
    It ends at a window whose entries are all a day older than `since_s`: a server's clock may have been that wrong.
    """
    if not wanted.looks_through_all:
        entries = [_entry(row) for row in await session.scalars(select_newest(wanted, before=before, size=size))]
        return AuditPage(tuple(entries), entries[-1].sequence if len(entries) == size else 0)
    end = before or (await session.scalar(select(func.max(AuditRow.sequence))) or 0) + 1
    last = max(1, end - SCAN_ENTRIES)
    found: list[AuditEntry] = []
    while end > last:
        begin = max(last, end - SCAN_WINDOW)
        query = select_newest(wanted, before=end, size=size - len(found), since=begin)
        found += [_entry(row) for row in await session.scalars(query)]
        if len(found) == size:
            return AuditPage(tuple(found), found[-1].sequence, found[-1].at_s)
        end = begin
        if wanted.since_s and await _is_older(session, begin, wanted.since_s - _CLOCK_WRONG_S):
            return AuditPage(tuple(found))
    if end <= 1:
        return AuditPage(tuple(found))
    oldest = select(AuditRow.at_s).where(AuditRow.sequence >= end).order_by(AuditRow.sequence).limit(1)
    return AuditPage(tuple(found), end, await session.scalar(oldest) or 0)


async def _is_older(session: AsyncSession, begin: int, moment_s: int) -> bool:
    """Return whether all entries of the window from `begin` are older than a moment."""
    window = (AuditRow.sequence >= begin) & (AuditRow.sequence < begin + SCAN_WINDOW)
    newest = await session.scalar(select(func.max(AuditRow.at_s)).where(window))
    return newest is not None and newest < moment_s


def _filters(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    filters: list[ColumnElement[bool]] = []
    if wanted.since_s:
        filters.append(AuditRow.at_s >= wanted.since_s)
    if wanted.until_s:
        filters.append(AuditRow.at_s < wanted.until_s)
    if wanted.subject:
        filters.append(AuditRow.subject == wanted.subject)
    if wanted.principal:
        filters.append(AuditRow.principal.icontains(wanted.principal, autoescape=True))
    if wanted.action:
        filters.append(AuditRow.action.icontains(wanted.action, autoescape=True))
    filters += [_has_word(word) for word in wanted.words]
    if wanted.app:
        in_details = json.dumps({"app": wanted.app}, ensure_ascii=False)[1:-1]  # as `write_audit` writes it
        filters.append(
            or_(
                AuditRow.subject == wanted.app,
                AuditRow.subject.startswith(f"{wanted.app}/", autoescape=True),
                AuditRow.subject.in_(select(RolloutRow.rollout_id).where(RolloutRow.app == wanted.app)),
                AuditRow.subject.in_(select(ExperimentRow.experiment_id).where(ExperimentRow.app == wanted.app)),
                AuditRow.details.contains(in_details, autoescape=True),
            )
        )
    return filters


def _has_word(word: str) -> ColumnElement[bool]:
    """In the subject, or in the details as they are written."""
    written = json.dumps(word, ensure_ascii=False)[1:-1]
    return or_(AuditRow.subject.icontains(word, autoescape=True), AuditRow.details.icontains(written, autoescape=True))


async def find_last_entry(session: AsyncSession, subject: str, action: str) -> AuditEntry | None:
    """Return the newest entry of an action on a subject; None: there is none."""
    query = select(AuditRow).where(AuditRow.subject == subject, AuditRow.action == action)
    row = await session.scalar(query.order_by(AuditRow.sequence.desc()).limit(1))
    return None if row is None else _entry(row)


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(row.sequence, row.at_s, row.principal, row.action, row.subject, json.loads(row.details))
