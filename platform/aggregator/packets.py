"""Keeps the reports that wait for aggregation: those of one task and time that were stored together are a packet.

    stored ─▶ waits ─▶ claimed: in a job ─▶ gone with its job
                ▲          │
                └──────────┴── reports that were too early for the helper, in a packet of their own

A packet's reports are a row beside its own: SQLite writes a whole row anew where one of its columns changes, and a
claim changes one number. The connection is the caller's, in a transaction.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from alcove.platform.aggregator.leases import is_due
from alcove.platform.aggregator.store.tables import AggregationJobRow, PacketReportsRow, PacketRow, table_of
from alcove.privacy.dap.messages import split_reports
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

__all__ = [
    "Claim",
    "claim_packets",
    "count_waiting",
    "drop_packets",
    "find_waiting_task",
    "insert_packets",
    "postpone_reports",
    "read_packets",
]

MAX_TASK_JOBS: Final = 4
"""Most jobs of a task under way: while the helper is away, reports wait outside of jobs."""

_PACKETS: Final = table_of(PacketRow)
_REPORTS: Final = table_of(PacketReportsRow)
_JOBS: Final = table_of(AggregationJobRow)


@dataclass(frozen=True)
class Claim:
    """What a job has claimed.

    Attributes:
        reports: how many.
        has_more: whether more of its task may wait.
    """

    reports: int
    has_more: bool


_INSERT_PACKET: Final = insert(_PACKETS).returning(_PACKETS.c.sequence)
_INSERT_REPORTS: Final = insert(_REPORTS)


def insert_packets(
    connection: Connection, task_id: bytes, reports: Sequence[tuple[int, bytes]], *, most: int, not_before_s: int = 0
) -> None:
    """Store reports, each with its time, in packets of at most `most`."""
    by_time: dict[int, list[bytes]] = defaultdict(list)
    for time, encoded in reports:
        by_time[time].append(encoded)
    for time in sorted(by_time):
        same = by_time[time]
        for first in range(0, len(same), most):
            part = same[first : first + most]
            packet = {
                "task_id": task_id,
                "time": time,
                "reports": len(part),
                "job": None,
                "not_before_s": not_before_s,
            }
            sequence = connection.execute(_INSERT_PACKET, packet).scalar_one()
            connection.execute(_INSERT_REPORTS, {"packet": sequence, "reports": b"".join(part)})


def find_waiting_task(connection: Connection, now_s: int) -> bytes | None:
    """Return the task whose packet has waited longest, of those that have not too many jobs; None: nothing waits."""
    busy = select(_JOBS.c.task_id).group_by(_JOBS.c.task_id).having(func.count() >= MAX_TASK_JOBS)
    waits = _PACKETS.c.job.is_(None) & is_due(PacketRow.not_before_s, now_s)
    query = select(_PACKETS.c.task_id).where(waits, _PACKETS.c.task_id.not_in(busy)).order_by(_PACKETS.c.sequence)
    return connection.execute(query.limit(1)).scalar()


def claim_packets(connection: Connection, task_id: bytes, job: int, *, most: int, now_s: int) -> Claim:
    """Put packets of a task that wait into a job, the oldest first: at most `most` reports, but at least one packet."""
    waits = _PACKETS.c.job.is_(None) & is_due(PacketRow.not_before_s, now_s) & (_PACKETS.c.task_id == task_id)
    query = select(_PACKETS.c.sequence, _PACKETS.c.reports).where(waits).order_by(_PACKETS.c.sequence)
    found = connection.execute(query.limit(most).with_for_update(skip_locked=True)).all()
    claimed: list[int] = []
    reports = 0
    for sequence, size in found:
        if claimed and reports + size > most:
            break
        claimed.append(sequence)
        reports += size
    if claimed:
        connection.execute(update(_PACKETS).where(_PACKETS.c.sequence.in_(claimed)).values(job=job))
    return Claim(reports, len(claimed) < len(found) or len(found) == most)


_READ: Final = (
    select(_REPORTS.c.reports)
    .join(_PACKETS, _PACKETS.c.sequence == _REPORTS.c.packet)
    .where(_PACKETS.c.job == bindparam("of_job"))
    .order_by(_PACKETS.c.sequence)
)


def read_packets(connection: Connection, job: int) -> list[bytes]:
    """Return the reports of a job's packets, in the order in which they came."""
    return list(connection.execute(_READ, {"of_job": job}).scalars())


def postpone_reports(
    connection: Connection, task_id: bytes, job: int, report_ids: frozenset[bytes], *, most: int, not_before_s: int
) -> None:
    """Let some of a job's reports wait again, until a time, in packets of their own."""
    kept = [
        (report.metadata.time, encoded)
        for packet in read_packets(connection, job)
        for report, encoded in split_reports(packet)
        if report.metadata.report_id in report_ids
    ]
    insert_packets(connection, task_id, kept, most=most, not_before_s=not_before_s)


_DROP_REPORTS: Final = delete(_REPORTS).where(
    _REPORTS.c.packet.in_(select(_PACKETS.c.sequence).where(_PACKETS.c.job == bindparam("of_job")))
)
_DROP_PACKETS: Final = delete(_PACKETS).where(_PACKETS.c.job == bindparam("of_job"))


def drop_packets(connection: Connection, job: int) -> None:
    """Remove a job's packets."""
    for statement in (_DROP_REPORTS, _DROP_PACKETS):
        connection.execute(statement, {"of_job": job})


def count_waiting(connection: Connection, task_id: bytes, start: int, end: int) -> int:
    """Return how many reports of the windows from `start` up to `end` wait or are in jobs."""
    query = select(func.sum(_PACKETS.c.reports)).where(
        _PACKETS.c.task_id == task_id, _PACKETS.c.time >= start, _PACKETS.c.time < end
    )
    return int(connection.execute(query).scalar() or 0)
