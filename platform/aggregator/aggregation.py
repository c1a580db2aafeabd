"""Runs the leader's aggregation jobs: waiting reports, some hundreds at a time, are verified with the helper and added.

    reports wait ─▶ claimed ─▶ begun: request and states stored ─▶ answered by the helper ─▶ added, job gone
                       ▲                    │ helper away                  │ too early for the helper
                       └── lease over ──────┴───── wait again ─────────────┘

J1  A report is in at most one job; a job is of one task.
J2  The bytes of a request are stored before they are sent, and sent again unchanged until they are answered (A5).
J3  A job is over in the transaction that adds its reports; a process that comes late finds it gone and adds nothing.
J4  A crash anywhere leaves a job whose lease ends, and the next process goes on from what is stored.

Source: draft-ietf-ppm-dap-18, sections 4.5.3.1 and 4.5.4.4.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog
from alcove.platform.aggregator.batches import add_reports, lock_task
from alcove.platform.aggregator.jobs import BegunJob, FinishedJob, begin_job, finish_job, read_job
from alcove.platform.aggregator.keys import KeyRing
from alcove.platform.aggregator.leases import LEASE_S, delay_after, is_due
from alcove.platform.aggregator.packets import (
    claim_packets,
    drop_packets,
    find_waiting_task,
    postpone_reports,
    read_packets,
)
from alcove.platform.aggregator.problems import DapProblem
from alcove.platform.aggregator.store import AggregatorDatabase, run_in
from alcove.platform.aggregator.store.tables import AggregationJobRow, table_of
from alcove.platform.aggregator.tasks import JOB_REPORTS, OpenTask, TaskBook
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.privacy.dap.task import DapTask
from alcove.runtime.clock import Clock
from sqlalchemy import Connection, delete, insert, select, update

__all__ = ["Aggregation", "HelperPort"]

AGAIN_S: Final = 60
"""Seconds until a report that was too early for the helper is tried again."""

_JOBS: Final = table_of(AggregationJobRow)
_log = structlog.get_logger()


class HelperPort(Protocol):
    """The helper, as the leader reaches it."""

    async def aggregate(self, task: DapTask, request: bytes) -> bytes:
        """Return the answer to an aggregation job, or raise DapProblem or PeerUnavailableError."""
        ...

    async def release(self, task: DapTask, request: bytes) -> bytes:
        """Return an aggregate share, or raise DapProblem or PeerUnavailableError."""
        ...


@dataclass(frozen=True)
class _Job:
    """A job that this process has leased; `begun` is what was stored of it before."""

    sequence: int
    task_id: bytes
    attempts: int
    begun: tuple[bytes, bytes] | None = None


class Aggregation:
    """The leader's aggregation jobs.

    Args:
        database: its rows.
        book: the tasks.
        keys: gives the leader's present HPKE keys.
        helper: the other aggregator.
        clock: dates leases.

    Attributes:
        added: reports added since the start.
        rejected: reports left out since the start, by reason.
        is_helper_away: whether the last exchange with the helper failed.
        has_more: whether more reports than those of the last job may wait.
    """

    def __init__(
        self,
        database: AggregatorDatabase,
        book: TaskBook,
        keys: Callable[[], KeyRing],
        helper: HelperPort,
        *,
        clock: Clock,
    ) -> None:
        self._database = database
        self._book = book
        self._keys = keys
        self._helper = helper
        self._clock = clock
        self.added = 0
        self.rejected: Counter[str] = Counter()
        self.is_helper_away = False
        self.has_more = False

    async def run_job(self) -> bool:
        """Take up one job and do what can be done of it; return whether there was one.

        Raises:
            ServerError: the database does not take it now; the job is taken up again.
        """
        job = await self._take_up() or await self._claim()
        if job is None:
            return False
        try:
            opened = await self._book.find(job.task_id)
        except DapProblem as problem:
            _log.warning("the task of reports that wait is refused", problem=str(problem))
            await self._postpone(job)
            return True
        begun = await self._begin(opened, job) if job.begun is None else await asyncio.to_thread(read_job, *job.begun)
        if begun is None:
            return True  # no report was left, or somebody else has the job
        try:
            answer = await self._helper.aggregate(opened.task, begun.request)
        except (PeerUnavailableError, DapProblem) as error:
            self.is_helper_away = True
            _log.warning("the helper did not answer an aggregation job", attempts=job.attempts, problem=str(error))
            await self._postpone(job)
            return True
        self.is_helper_away = False
        finished = await asyncio.to_thread(finish_job, opened, begun, answer)
        await self._finish(opened, job, finished)
        return True

    async def _take_up(self) -> _Job | None:
        """Lease a job whose lease is over; None: there is none."""
        now_s = self._clock.now_s()
        overdue = (
            select(AggregationJobRow)
            .where(is_due(AggregationJobRow.leased_until_s, now_s))
            .order_by(AggregationJobRow.leased_until_s)
            .limit(1)
        )
        async with self._database.read() as session:
            if (await session.scalars(overdue.with_only_columns(AggregationJobRow.sequence))).first() is None:
                return None
        async with self._database.write() as session:
            row = (await session.scalars(overdue.with_for_update(skip_locked=True))).first()
            if row is None:
                return None
            row.leased_until_s = now_s + LEASE_S
            row.attempts += 1
            self.has_more = True
            begun = None if row.request is None or row.states is None else (row.request, row.states)
            return _Job(row.sequence, row.task_id, row.attempts, begun)

    async def _claim(self) -> _Job | None:
        """Make a job of reports that wait; None: none do."""
        now_s = self._clock.now_s()
        async with self._database.read() as session:
            task_id = await run_in(session, find_waiting_task, now_s)
        if task_id is None:
            return None
        try:
            most = (await self._book.find(task_id)).job_reports
        except DapProblem:
            most = JOB_REPORTS  # they wait together until the task is allowed again

        def claim(connection: Connection) -> tuple[int, int, bool]:
            values = {"task_id": task_id, "attempts": 1, "leased_until_s": now_s + LEASE_S}
            sequence = connection.execute(insert(_JOBS).values(values).returning(_JOBS.c.sequence)).scalar_one()
            claimed = claim_packets(connection, task_id, sequence, most=most, now_s=now_s)
            if claimed.reports == 0:  # another process has them
                connection.execute(delete(_JOBS).where(_JOBS.c.sequence == sequence))
            return sequence, claimed.reports, claimed.has_more

        async with self._database.write() as session:
            sequence, reports, self.has_more = await run_in(session, claim)
        return _Job(sequence, task_id, 1) if reports else None

    async def _begin(self, opened: OpenTask, job: _Job) -> BegunJob | None:
        """Open and verify a job's reports, store its request; return it, or None where no report is left."""
        async with self._database.read() as session:
            packets = await run_in(session, read_packets, job.sequence)
        begun, rejected = await asyncio.to_thread(begin_job, opened, self._keys().private, packets)

        def store(connection: Connection) -> bool:
            key = (_JOBS.c.sequence == job.sequence) & _JOBS.c.request.is_(None)
            if connection.execute(select(_JOBS.c.sequence).where(key).with_for_update()).scalar() is None:
                return False  # another process has begun it since
            if begun is None:
                _drop_job(connection, job.sequence)
            else:
                values = {"request": begun.request, "states": begun.states}
                connection.execute(update(_JOBS).where(key).values(values))
            return True

        async with self._database.write() as session:
            if not await run_in(session, store):
                return None
        self.rejected.update(rejected)
        return begun

    async def _postpone(self, job: _Job) -> None:
        until_s = self._clock.now_s() + delay_after(job.attempts)
        async with self._database.write() as session:
            key = AggregationJobRow.sequence == job.sequence
            await session.execute(update(AggregationJobRow).where(key).values(leased_until_s=until_s))

    async def _finish(self, opened: OpenTask, job: _Job, finished: FinishedJob) -> None:
        """Add what both have verified, and end the job, in one transaction (J3)."""
        again_s = self._clock.now_s() + AGAIN_S

        def finish(connection: Connection) -> bool:
            lock_task(connection, job.task_id, is_exclusive=False)
            key = _JOBS.c.sequence == job.sequence
            if connection.execute(select(_JOBS.c.sequence).where(key).with_for_update()).scalar() is None:
                return False
            add_reports(connection, opened.verifier, job.task_id, finished.added)
            if finished.early:
                postpone_reports(
                    connection,
                    job.task_id,
                    job.sequence,
                    finished.early,
                    most=opened.job_reports,
                    not_before_s=again_s,
                )
            _drop_job(connection, job.sequence)
            return True

        async with self._database.write() as session:
            is_ours = await run_in(session, finish)
        if is_ours:
            self.added += len(finished.added)
            self.rejected.update(finished.rejected)


def _drop_job(connection: Connection, sequence: int) -> None:
    drop_packets(connection, sequence)
    connection.execute(delete(_JOBS).where(_JOBS.c.sequence == sequence))
