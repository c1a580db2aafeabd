"""Defines the tables of an aggregator's database, and the invariants that they keep.

A1  A report is added once: its id is in `report_ids` from its upload (leader) or its commit (helper) until the window
    is collected, and after that no report of the window is taken.
A2  A report is in a packet (`packets`, `packet_reports`) until the transaction that adds it to a batch bucket or drops
    it; nothing between an acknowledged upload and that transaction is kept in memory alone.
A3  A window is collected once: `collection_jobs` (leader) and `aggregate_shares` (helper) of one task never overlap.
A4  A noised share is drawn in the transaction that stores it, so it exists once.
A5  An aggregation job is sent in one form of bytes: `request` is stored before it is sent, and never changes.
A6  What decides whether a report may be added, or a window collected, reads and writes under a lock of the task's row:
    shared by those who add, exclusive for those who collect.
A7  A token is spent once: its nonce is in `spent_tokens`, with the one report that it is for, in the transaction that
    takes the report (leader) or adds it (helper), until the window is collected.
A8  The first public key of an issuer that was seen for a task and time is the only one, for ever.
"""

from typing import ClassVar, Final

from alcove.platform.store.dialects import BIG
from sqlalchemy import Index, LargeBinary, MetaData, Table, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = [
    "AggregateShareRow",
    "AggregationJobRow",
    "AnsweredJobRow",
    "Base",
    "BucketRow",
    "CollectionJobRow",
    "PacketReportsRow",
    "PacketRow",
    "ReportIdRow",
    "SpentTokenRow",
    "TaskRow",
    "TokenKeyRow",
    "table_of",
]

WITHOUT_ROWID: Final = {"sqlite_with_rowid": False}
"""Of a table whose rows are short: they are in the tree of the primary key, and in no other."""


class Base(DeclarativeBase):
    """Names every constraint, so that migrations can."""

    type_annotation_map: ClassVar = {int: BIG, bytes: LargeBinary, str: Text}
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def table_of(row: type[Base]) -> Table:
    """Return the table of a class of rows, for statements that make no objects.

    Raises:
        TypeError: the class has no table of its own.
    """
    if not isinstance(row.__table__, Table):
        raise TypeError(f"{row.__name__} is no class of a table's rows")
    return row.__table__


class TaskRow(Base):
    """A task that this aggregator takes part in."""

    __tablename__ = "tasks"
    task_id: Mapped[bytes] = mapped_column(primary_key=True)
    configuration: Mapped[bytes]
    created_at_s: Mapped[int]


class ReportIdRow(Base):
    """The id of a report that was taken."""

    __tablename__ = "report_ids"
    task_id: Mapped[bytes] = mapped_column(primary_key=True)
    report_id: Mapped[bytes] = mapped_column(primary_key=True)
    time: Mapped[int]
    __table_args__ = (Index("ix_report_ids_task_id_time", "task_id", "time"), WITHOUT_ROWID)


class SpentTokenRow(Base):
    """The nonce of a token, and the report that it is spent on."""

    __tablename__ = "spent_tokens"
    task_id: Mapped[bytes] = mapped_column(primary_key=True)
    nonce: Mapped[bytes] = mapped_column(primary_key=True)
    report_id: Mapped[bytes]
    time: Mapped[int]
    __table_args__ = (Index("ix_spent_tokens_task_id_time", "task_id", "time"), WITHOUT_ROWID)


class TokenKeyRow(Base):
    """The issuer's public key for the tokens of one task and time, as it was seen first."""

    __tablename__ = "token_keys"
    task_id: Mapped[bytes] = mapped_column(primary_key=True)
    time: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[bytes]


class BucketRow(Base):
    """Sum of the reports of one task and time; `checksum` is the XOR of the digests of their ids."""

    __tablename__ = "buckets"
    task_id: Mapped[bytes] = mapped_column(primary_key=True)
    time: Mapped[int] = mapped_column(primary_key=True)
    aggregate_share: Mapped[bytes]
    reports: Mapped[int]
    checksum: Mapped[bytes]


class PacketRow(Base):
    """Leader: how many reports of one task and time wait together; `job` is the aggregation job that they are in."""

    __tablename__ = "packets"
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    task_id: Mapped[bytes]
    time: Mapped[int]
    reports: Mapped[int]
    job: Mapped[int | None]
    not_before_s: Mapped[int]
    __table_args__ = (
        Index("ix_packets_job_sequence", "job", "sequence"),
        Index("ix_packets_task_id_time", "task_id", "time"),
    )


class PacketReportsRow(Base):
    """Leader: the reports of a packet as they were uploaded, one after the other."""

    __tablename__ = "packet_reports"
    packet: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    reports: Mapped[bytes]


class AggregationJobRow(Base):
    """Leader: an aggregation job under way; `request` and `states` are written when its reports have been opened."""

    __tablename__ = "aggregation_jobs"
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    task_id: Mapped[bytes]
    request: Mapped[bytes | None]
    states: Mapped[bytes | None]
    attempts: Mapped[int]
    leased_until_s: Mapped[int]
    __table_args__ = (Index("ix_aggregation_jobs_leased_until_s", "leased_until_s"),)


class CollectionJobRow(Base):
    """Leader: a collector's request for the windows from `start` up to `end`; see `collection` for its states."""

    __tablename__ = "collection_jobs"
    task_id: Mapped[bytes] = mapped_column(primary_key=True)
    job_id: Mapped[bytes] = mapped_column(primary_key=True)
    request: Mapped[bytes]
    start: Mapped[int]
    end: Mapped[int]
    state: Mapped[str]
    response: Mapped[bytes | None]
    problem: Mapped[str | None]
    attempts: Mapped[int]
    leased_until_s: Mapped[int]
    __table_args__ = (Index("ix_collection_jobs_state_leased_until_s", "state", "leased_until_s"),)


class AnsweredJobRow(Base):
    """Helper: an aggregation job and what was answered, until the windows of its reports are released.

    The id is the digest of the request; `first_time` and `last_time` are those of the job's reports.
    """

    __tablename__ = "answered_jobs"
    task_id: Mapped[bytes] = mapped_column(primary_key=True)
    job_id: Mapped[bytes] = mapped_column(primary_key=True)
    response: Mapped[bytes]
    first_time: Mapped[int]
    last_time: Mapped[int]


class AggregateShareRow(Base):
    """Helper: a batch that was released for the windows from `start` up to `end`; the id is the request's digest."""

    __tablename__ = "aggregate_shares"
    task_id: Mapped[bytes] = mapped_column(primary_key=True)
    share_id: Mapped[bytes] = mapped_column(primary_key=True)
    start: Mapped[int]
    end: Mapped[int]
    response: Mapped[bytes]
    __table_args__ = (UniqueConstraint("task_id", "start", name="uq_aggregate_shares_task_id_start"),)
