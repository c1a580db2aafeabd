"""Adds reports to batch buckets and takes whole batches out, under the locks that keep both apart (A6).

The connection is the caller's; what is read, decided and written here is one transaction with what the caller does.
Statements are made once: making one anew, or a row's object, takes longer than the database does.

Source: draft-ietf-ppm-dap-18, section 4.5.4.4.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from alcove.platform.aggregator.store.tables import (
    AggregateShareRow,
    BucketRow,
    CollectionJobRow,
    ReportIdRow,
    SpentTokenRow,
    TaskRow,
    table_of,
)
from alcove.platform.store.dialects import insert_into
from alcove.privacy.dap.messages import CHECKSUM_BYTES
from alcove.privacy.dap.verification import Verifier
from sqlalchemy import Connection, Insert, Select, bindparam, delete, select, update
from sqlalchemy.sql.dml import ReturningInsert

__all__ = [
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

CLOSED: Final = ("closing", *FROZEN)
"""States in which its windows take no upload."""

_TASKS: Final = table_of(TaskRow)
_IDS: Final = table_of(ReportIdRow)
_NONCES: Final = table_of(SpentTokenRow)
_BUCKETS: Final = table_of(BucketRow)
_SHARES: Final = table_of(AggregateShareRow)
_COLLECTIONS: Final = table_of(CollectionJobRow)


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


_LOCK: Final = select(_TASKS.c.created_at_s).where(_TASKS.c.task_id == bindparam("of_task"))


def lock_task(connection: Connection, task_id: bytes, *, is_exclusive: bool) -> None:
    """Keep others of this task out until the transaction ends: those who collect out, or everybody.

    Of a SQLite file there is one writer anyway.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(_LOCK.with_for_update(read=not is_exclusive), {"of_task": task_id})


@cache
def _insert_ids(dialect: str) -> ReturningInsert[Any]:
    statement = insert_into(dialect, _IDS).on_conflict_do_nothing()
    return statement.returning(_IDS.c.report_id)


def insert_report_ids(connection: Connection, task_id: bytes, reports: Iterable[tuple[bytes, int]]) -> set[bytes]:
    """Store ids, with their times, and return those that were new (A1)."""
    rows = [
        {"task_id": task_id, "report_id": report_id, "time": time} for report_id, time in sorted(dict(reports).items())
    ]
    if not rows:
        return set()
    return set(connection.execute(_insert_ids(connection.dialect.name), rows).scalars())


@cache
def _insert_nonces(dialect: str) -> Insert:
    return insert_into(dialect, _NONCES).on_conflict_do_nothing()


_SPENT: Final = select(_NONCES.c.nonce, _NONCES.c.report_id).where(
    _NONCES.c.task_id == bindparam("of_task"), _NONCES.c.nonce.in_(bindparam("nonces", expanding=True))
)


def spend_tokens(connection: Connection, task_id: bytes, reports: Mapping[bytes, tuple[int, bytes]]) -> set[bytes]:
    """Spend the tokens of reports, and return the ids of those whose token is theirs (A7).

    The same report again finds its own token.

    Args:
        connection: in a transaction.
        task_id: of the reports' task.
        reports: time and token's nonce by the report's id.
    """
    if not reports:
        return set()
    rows = [
        {"task_id": task_id, "nonce": nonce, "report_id": report_id, "time": time}
        for report_id, (time, nonce) in sorted(reports.items(), key=lambda item: item[1][1])
    ]
    connection.execute(_insert_nonces(connection.dialect.name), rows)
    spent = connection.execute(_SPENT, {"of_task": task_id, "nonces": [row["nonce"] for row in rows]})
    return {report_id for nonce, report_id in spent if reports.get(report_id, (0, b""))[1] == nonce}


_RELEASED: Final = select(_SHARES.c.start, _SHARES.c.end).where(
    _SHARES.c.task_id == bindparam("of_task"), _SHARES.c.start <= bindparam("last"), _SHARES.c.end > bindparam("first")
)
_CLOSED: Final = select(_COLLECTIONS.c.start, _COLLECTIONS.c.end).where(
    _COLLECTIONS.c.task_id == bindparam("of_task"),
    _COLLECTIONS.c.state.in_(CLOSED),
    _COLLECTIONS.c.start <= bindparam("last"),
    _COLLECTIONS.c.end > bindparam("first"),
)


def find_released(connection: Connection, task_id: bytes, times: Iterable[int]) -> set[int]:
    """Helper: return those times whose windows were released."""
    return _find_within(connection, _RELEASED, task_id, times)


def find_closed(connection: Connection, task_id: bytes, times: Iterable[int]) -> set[int]:
    """Leader: return those times whose windows take no upload any more."""
    return _find_within(connection, _CLOSED, task_id, times)


def _find_within(connection: Connection, query: Select[int, int], task_id: bytes, times: Iterable[int]) -> set[int]:
    """Return those times that are in an interval of the query."""
    wanted = sorted(set(times))
    if not wanted:
        return set()
    intervals = connection.execute(query, {"of_task": task_id, "first": wanted[0], "last": wanted[-1]}).all()
    return {time for time in wanted if any(start <= time < end for start, end in intervals)}


def add_reports(connection: Connection, verifier: Verifier, task_id: bytes, reports: Sequence[VerifiedReport]) -> None:
    """Add reports to the buckets of their times; that they may be added was decided in this transaction."""
    by_time: dict[int, list[VerifiedReport]] = defaultdict(list)
    for report in reports:
        by_time[report.time].append(report)
    for time in sorted(by_time):
        added = by_time[time]
        share, count, checksum = _lock_bucket(connection, task_id, time)
        total = verifier.add([*([share] if count else []), *(report.output_share for report in added)])
        values = {
            "aggregate_share": total,
            "reports": count + len(added),
            "checksum": compute_checksum(checksum, (report.report_id for report in added)),
        }
        key = (_BUCKETS.c.task_id == task_id) & (_BUCKETS.c.time == time)
        connection.execute(update(_BUCKETS).where(key).values(values))


_BATCH: Final = (
    select(_BUCKETS.c.time, _BUCKETS.c.reports, _BUCKETS.c.checksum, _BUCKETS.c.aggregate_share)
    .where(
        _BUCKETS.c.task_id == bindparam("of_task"),
        _BUCKETS.c.time >= bindparam("first"),
        _BUCKETS.c.time < bindparam("behind"),
    )
    .order_by(_BUCKETS.c.time)
)


def sum_batch(connection: Connection, verifier: Verifier, task_id: bytes, start: int, end: int) -> Batch:
    """Return the sum of the windows from `start` up to `end`."""
    rows = connection.execute(_BATCH, {"of_task": task_id, "first": start, "behind": end}).all()
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


_DROPS: Final = tuple(
    delete(table).where(
        table.c.task_id == bindparam("of_task"),
        table.c.time >= bindparam("first"),
        table.c.time < bindparam("behind"),
    )
    for table in (_BUCKETS, _IDS, _NONCES)
)


def drop_batch(connection: Connection, task_id: bytes, start: int, end: int) -> None:
    """Remove what a collected batch no longer needs: its sums, and the ids and tokens of its reports (A1, A7)."""
    for statement in _DROPS:
        connection.execute(statement, {"of_task": task_id, "first": start, "behind": end})


def compute_checksum(checksum: bytes, report_ids: Iterable[bytes]) -> bytes:
    """Return a checksum with reports added to it."""
    for report_id in report_ids:
        checksum = _xor(checksum, hashlib.sha256(report_id).digest())
    return checksum


def _xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(CHECKSUM_BYTES, "big")


def _lock_bucket(connection: Connection, task_id: bytes, time: int) -> tuple[bytes, int, bytes]:
    """Return sum, number and checksum of a bucket that no other transaction changes, empty where there was none."""
    empty = {
        "task_id": task_id,
        "time": time,
        "aggregate_share": b"",
        "reports": 0,
        "checksum": bytes(CHECKSUM_BYTES),
    }
    connection.execute(insert_into(connection.dialect.name, _BUCKETS).on_conflict_do_nothing(), empty)
    query = select(_BUCKETS.c.aggregate_share, _BUCKETS.c.reports, _BUCKETS.c.checksum)
    key = (_BUCKETS.c.task_id == task_id) & (_BUCKETS.c.time == time)
    share, reports, checksum = connection.execute(query.where(key).with_for_update()).one()
    return share, reports, checksum
