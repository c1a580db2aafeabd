"""Adds reports to batch buckets and takes whole batches out, under the locks that keep both apart (A6).

The session is the caller's; what is read, decided and written here is one transaction with what the caller does.

Source: draft-ietf-ppm-dap-18, section 4.5.4.4.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from alcove.platform.aggregator.store.tables import (
    AggregateShareRow,
    BucketRow,
    CollectionJobRow,
    ReportIdRow,
    SpentTokenRow,
    TaskRow,
)
from alcove.platform.store.dialects import insert
from alcove.privacy.dap.messages import CHECKSUM_BYTES
from alcove.privacy.dap.verification import Verifier
from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "AS_THEY_ARE",
    "CLOSED",
    "FROZEN",
    "Batch",
    "VerifiedReport",
    "add_reports",
    "drop_batch",
    "find_closed",
    "find_released",
    "insert_report_ids",
    "lock_task",
    "spend_tokens",
    "sum_batch",
]

FROZEN: Final = ("frozen", "done")
"""States of a collection job in which no report is added to its windows any more."""

AS_THEY_ARE: Final[dict[str, Any]] = {"dml_strategy": "raw"}
"""Options of an INSERT of many rows: values go to the database as they are, which takes half the time of an upload."""

CLOSED: Final = ("closing", *FROZEN)
"""States in which its windows take no upload."""


@dataclass(frozen=True)
class VerifiedReport:
    """A report that both aggregators have verified, at one of them."""

    report_id: bytes
    time: int
    output_share: bytes


@dataclass(frozen=True)
class Batch:
    """The sum of a batch at one aggregator.

    Attributes:
        reports: how many.
        checksum: XOR of the digests of their ids.
        aggregate_share: without noise.
        first_time: the first time with a report; 0 without any.
        last_time: the last one.
    """

    reports: int
    checksum: bytes
    aggregate_share: bytes
    first_time: int
    last_time: int


async def lock_task(session: AsyncSession, task_id: bytes, *, is_exclusive: bool) -> None:
    """Keep others of this task out until the transaction ends: those who collect out, or everybody."""
    query = select(TaskRow.created_at_s).where(TaskRow.task_id == task_id).with_for_update(read=not is_exclusive)
    await session.execute(query)


async def insert_report_ids(session: AsyncSession, task_id: bytes, reports: Iterable[tuple[bytes, int]]) -> set[bytes]:
    """Store ids, with their times, and return those that were new (A1)."""
    rows = [
        {"task_id": task_id, "report_id": report_id, "time": time} for report_id, time in sorted(dict(reports).items())
    ]
    if not rows:
        return set()
    statement = insert(session, ReportIdRow).on_conflict_do_nothing().returning(ReportIdRow.report_id)
    statement = statement.execution_options(**AS_THEY_ARE)
    return set((await session.scalars(statement, rows)).all())


async def spend_tokens(session: AsyncSession, task_id: bytes, reports: Mapping[bytes, tuple[int, bytes]]) -> set[bytes]:
    """Spend the tokens of reports, and return the ids of those whose token is theirs (A7).

    The same report again finds its own token.

    Args:
        session: of a transaction.
        task_id: of the reports' task.
        reports: time and token's nonce by the report's id.
    """
    if not reports:
        return set()
    rows = [
        {"task_id": task_id, "nonce": nonce, "report_id": report_id, "time": time}
        for report_id, (time, nonce) in sorted(reports.items(), key=lambda item: item[1][1])
    ]
    await session.execute(insert(session, SpentTokenRow).on_conflict_do_nothing(), rows)
    query = select(SpentTokenRow.nonce, SpentTokenRow.report_id).where(
        SpentTokenRow.task_id == task_id, SpentTokenRow.nonce.in_([row["nonce"] for row in rows])
    )
    spent = await session.execute(query)
    return {report_id for nonce, report_id in spent if reports.get(report_id, (0, b""))[1] == nonce}


async def find_released(session: AsyncSession, task_id: bytes, times: Iterable[int]) -> set[int]:
    """Helper: return those times whose windows were released."""
    return await _find_within(session, AggregateShareRow, AggregateShareRow.task_id == task_id, times)


async def find_closed(session: AsyncSession, task_id: bytes, times: Iterable[int]) -> set[int]:
    """Leader: return those times whose windows take no upload any more."""
    condition = (CollectionJobRow.task_id == task_id) & CollectionJobRow.state.in_(CLOSED)
    return await _find_within(session, CollectionJobRow, condition, times)


async def _find_within(
    session: AsyncSession,
    table: type[AggregateShareRow] | type[CollectionJobRow],
    condition: ColumnElement[bool],
    times: Iterable[int],
) -> set[int]:
    """Return those times that are in the interval of a row."""
    wanted = sorted(set(times))
    if not wanted:
        return set()
    query = select(table.start, table.end).where(condition, table.start <= wanted[-1], table.end > wanted[0])
    intervals = (await session.execute(query)).all()
    return {time for time in wanted if any(start <= time < end for start, end in intervals)}


async def add_reports(
    session: AsyncSession, verifier: Verifier, task_id: bytes, reports: Sequence[VerifiedReport]
) -> None:
    """Add reports to the buckets of their times; that they may be added was decided in this transaction."""
    by_time: dict[int, list[VerifiedReport]] = defaultdict(list)
    for report in reports:
        by_time[report.time].append(report)
    for time in sorted(by_time):
        added = by_time[time]
        row = await _lock_bucket(session, task_id, time)
        parts = [row.aggregate_share] if row.reports else []
        row.aggregate_share = verifier.add([*parts, *(report.output_share for report in added)])
        row.reports += len(added)
        row.checksum = compute_checksum(row.checksum, (report.report_id for report in added))
    await session.flush()


async def sum_batch(session: AsyncSession, verifier: Verifier, task_id: bytes, start: int, end: int) -> Batch:
    """Return the sum of the windows from `start` up to `end`."""
    query = (
        select(BucketRow)
        .where(BucketRow.task_id == task_id, BucketRow.time >= start, BucketRow.time < end)
        .order_by(BucketRow.time)
    )
    rows = (await session.scalars(query)).all()
    checksum = bytes(CHECKSUM_BYTES)
    for row in rows:
        checksum = _xor(checksum, row.checksum)
    return Batch(
        sum(row.reports for row in rows),
        checksum,
        verifier.add([row.aggregate_share for row in rows]),
        rows[0].time if rows else 0,
        rows[-1].time if rows else 0,
    )


async def drop_batch(session: AsyncSession, task_id: bytes, start: int, end: int) -> None:
    """Remove what a collected batch no longer needs: its sums, and the ids and tokens of its reports (A1, A7)."""
    for table in (BucketRow, ReportIdRow, SpentTokenRow):
        await session.execute(delete(table).where(table.task_id == task_id, table.time >= start, table.time < end))


def compute_checksum(checksum: bytes, report_ids: Iterable[bytes]) -> bytes:
    """Return a checksum with reports added to it."""
    for report_id in report_ids:
        checksum = _xor(checksum, hashlib.sha256(report_id).digest())
    return checksum


def _xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(CHECKSUM_BYTES, "big")


async def _lock_bucket(session: AsyncSession, task_id: bytes, time: int) -> BucketRow:
    """Return a bucket that no other transaction changes, empty where there was none."""
    empty = {
        "task_id": task_id,
        "time": time,
        "aggregate_share": b"",
        "reports": 0,
        "checksum": bytes(CHECKSUM_BYTES),
    }
    await session.execute(insert(session, BucketRow).values(empty).on_conflict_do_nothing())
    query = select(BucketRow).where(BucketRow.task_id == task_id, BucketRow.time == time).with_for_update()
    return (await session.scalars(query)).one()
