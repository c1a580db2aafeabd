"""Collects batches for the collector: one job a request, from the request to the shares of both aggregators.

    waiting ─▶ closing ─▶ frozen ─▶ done
       ▲          │ too few  │ the helper refuses
       │          ▼          ▼
       └─ asked ─ failed ◀───┘
          again

C1  Windows of a job that is closing take no upload; of one that is frozen, no report from an aggregation job.
C2  A job is frozen only when no report of its windows waits or is under way, so both aggregators have added the same.
C3  The leader's noise is drawn, and its share stored, in the transaction that ends the job (A4).
C4  A job that failed has released nothing here; the same request makes it wait again.

Source: draft-ietf-ppm-dap-18, sections 4.6.1 and 4.6.4.
"""

import asyncio
from dataclasses import dataclass

import structlog
from alcove.platform.aggregator.aggregation import HelperPort
from alcove.platform.aggregator.batches import FROZEN, Batch, drop_batch, lock_task, sum_batch
from alcove.platform.aggregator.config import AggregatorConfig
from alcove.platform.aggregator.helper import derive_resource_id
from alcove.platform.aggregator.leases import LEASE_S, delay_after, is_due
from alcove.platform.aggregator.noise import NoiseSource, draw_noise, replay
from alcove.platform.aggregator.packets import count_waiting
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.aggregator.queries import check_collection, read_interval
from alcove.platform.aggregator.store import AggregatorDatabase, run_in
from alcove.platform.aggregator.store.tables import BucketRow, CollectionJobRow
from alcove.platform.aggregator.tasks import OpenTask, TaskBook
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.privacy.dap.messages import (
    AggregateShare,
    AggregateShareReq,
    BatchMode,
    BatchSelector,
    CollectionJobReq,
    CollectionJobResp,
    HpkeCiphertext,
    Interval,
    Role,
)
from alcove.privacy.dap.release import add_noise, seal_aggregate_share
from alcove.privacy.errors import DapMessageError
from alcove.runtime.clock import Clock
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["Collection", "CollectionState"]

_CLOSING_S = 1
"""Seconds until a job whose reports are still under way is looked at again."""

_log = structlog.get_logger()


@dataclass(frozen=True)
class CollectionState:
    """What the collector is told of a job: the response, the problem, or neither as long as it is under way."""

    response: bytes | None = None
    problem: DapProblem | None = None


@dataclass(frozen=True)
class _Frozen:
    """A job whose batch no longer changes."""

    task_id: bytes
    job_id: bytes
    request: CollectionJobReq
    start: int
    end: int
    batch: Batch
    attempts: int


class Collection:
    """The leader's collection jobs.

    Args:
        database: its rows.
        config: of the leader.
        book: the tasks.
        helper: the other aggregator.
        clock: dates leases.
        noise: draws the noise of a release.

    Attributes:
        released: batches released since the start.
    """

    def __init__(
        self,
        database: AggregatorDatabase,
        config: AggregatorConfig,
        book: TaskBook,
        helper: HelperPort,
        *,
        clock: Clock,
        noise: NoiseSource = draw_noise,
    ) -> None:
        self._database = database
        self._config = config
        self._book = book
        self._helper = helper
        self._clock = clock
        self._noise = noise
        self.released = 0

    async def create(self, opened: OpenTask, body: bytes) -> bytes:
        """Return the id of the job of a request, made now or when the same bytes came before.

        Raises:
            DapProblem: the request names no batch, or a part of one that is collected or asked for.
            ServerError: the database does not take it now.
        """
        task_id = opened.task.task_id
        try:
            request = CollectionJobReq.from_bytes(body)
        except DapMessageError as error:
            raise DapProblem(ProblemType.INVALID_MESSAGE, str(error), task_id) from None
        start, end = read_interval(request.query, task_id)
        check_collection(request, task_id)
        job_id = derive_resource_id(body)
        async with self._database.write() as session:
            await _lock(session, task_id)
            row = await session.get(CollectionJobRow, (task_id, job_id))
            if row is not None and row.state != "failed":
                return job_id
            await _check_overlap(session, task_id, start, end)
            if row is not None:
                row.state, row.problem, row.attempts, row.leased_until_s = "waiting", None, 0, 0
                return job_id
            session.add(
                CollectionJobRow(
                    task_id=task_id,
                    job_id=job_id,
                    request=body,
                    start=start,
                    end=end,
                    state="waiting",
                    attempts=0,
                    leased_until_s=0,
                )
            )
        return job_id

    async def find(self, task_id: bytes, job_id: bytes) -> CollectionState | None:
        """Return what became of a job; None: there is no such job."""
        async with self._database.read() as session:
            row = await session.get(CollectionJobRow, (task_id, job_id))
        if row is None or (row.state == "done" and row.response is None):
            return None  # there is none, or `forget` has removed what it held
        return CollectionState(row.response, None if row.problem is None else DapProblem.from_json(row.problem))

    async def forget(self, task_id: bytes, job_id: bytes) -> None:
        """Remove what a job holds for the collector; what protects against collecting twice stays."""
        async with self._database.write() as session:
            await _lock(session, task_id)
            row = await session.get(CollectionJobRow, (task_id, job_id))
            if row is not None and row.state in FROZEN:
                row.response = None
            elif row is not None:
                await session.delete(row)

    async def run_job(self) -> bool:
        """Take up one job and do what can be done of it; return whether there was one.

        Raises:
            ServerError: the database does not take it now; the job is taken up again.
        """
        frozen = await self._claim()
        if frozen is None:
            return False
        if isinstance(frozen, _Frozen):
            await self._release(frozen)
        return True

    async def _claim(self) -> "_Frozen | bool | None":
        """Lease a job and move it as far as the rows allow: its batch if it is frozen, None if there is no job."""
        now_s = self._clock.now_s()
        is_open = CollectionJobRow.state.in_(("waiting", "closing", "frozen")) & is_due(
            CollectionJobRow.leased_until_s, now_s
        )
        due = select(CollectionJobRow).where(is_open).order_by(CollectionJobRow.leased_until_s).limit(1)
        async with self._database.read() as session:
            found = (await session.scalars(due)).first()
        if found is None:
            return None
        opened = await self._find_task(found.task_id)
        async with self._database.write() as session:
            await _lock(session, found.task_id)
            key = (CollectionJobRow.task_id == found.task_id) & (CollectionJobRow.job_id == found.job_id)
            row = (await session.scalars(select(CollectionJobRow).where(key, is_open).with_for_update())).first()
            if row is None:
                return True  # another process has it, or has ended it since
            if isinstance(opened, DapProblem):
                row.state, row.problem = "failed", opened.to_json()
                return True
            if row.state != "frozen":
                await self._advance(session, opened, row)
            if row.state != "frozen":
                row.leased_until_s = now_s + _CLOSING_S
                return True
            row.attempts += 1
            row.leased_until_s = now_s + LEASE_S
            batch = await run_in(session, sum_batch, opened.verifier, row.task_id, row.start, row.end)
            request = CollectionJobReq.from_bytes(row.request)
            return _Frozen(row.task_id, row.job_id, request, row.start, row.end, batch, row.attempts)

    async def _find_task(self, task_id: bytes) -> OpenTask | DapProblem:
        try:
            return await self._book.find(task_id)
        except DapProblem as problem:
            return problem

    async def _advance(self, session: AsyncSession, opened: OpenTask, row: CollectionJobRow) -> None:
        """Close, freeze or fail a job, by how many reports its windows have and how many are under way."""
        added = await _count_added(session, row)
        under_way = await run_in(session, count_waiting, row.task_id, row.start, row.end)
        least = opened.task.configuration.min_batch_size
        if added + under_way < least:
            detail = f"fewer than {least} reports"  # how many would tell of single devices
            problem = DapProblem(ProblemType.INVALID_BATCH_SIZE, detail, row.task_id)
            row.state, row.problem = "failed", problem.to_json()
        elif under_way:
            row.state = "closing"
        else:
            row.state = "frozen"

    async def _release(self, frozen: _Frozen) -> None:
        """Get the helper's share, then release the leader's with it."""
        opened = await self._book.find(frozen.task_id)
        interval = Interval(frozen.start, frozen.end - frozen.start)
        selector = BatchSelector(BatchMode.TIME_INTERVAL, interval.to_bytes())
        request = AggregateShareReq(frozen.request, selector, frozen.batch.reports, frozen.batch.checksum)
        try:
            answer = await self._helper.release(opened.task, request.to_bytes())
            share = AggregateShare.from_bytes(answer).encrypted_aggregate_share
        except DapProblem as problem:
            _log.warning("the helper releases no batch", problem=str(problem))
            await self._fail(frozen, problem)
            return
        except (PeerUnavailableError, DapMessageError) as error:
            _log.warning("the helper did not answer a request for a batch", problem=str(error))
            await self._postpone(frozen)
            return
        task = opened.task
        drawn = await asyncio.to_thread(self._noise, task.noise_scale, task.circuit.output_length)
        noised = add_noise(task, frozen.batch.aggregate_share, replay(drawn))
        sealed = seal_aggregate_share(task, Role.LEADER, self._config.collector.config, frozen.request, noised)
        await self._end(frozen, sealed, share)

    async def _end(self, frozen: _Frozen, leader: HpkeCiphertext, helper: HpkeCiphertext) -> None:
        batch = frozen.batch
        interval = Interval(batch.first_time, batch.last_time - batch.first_time + 1)
        response = CollectionJobResp(batch.reports, interval, leader, helper).to_bytes()
        async with self._database.write() as session:
            await _lock(session, frozen.task_id)
            row = await session.get(CollectionJobRow, (frozen.task_id, frozen.job_id), with_for_update=True)
            if row is None or row.state != "frozen":
                return  # another process has ended it, with noise of its own
            row.state, row.response = "done", response
            await run_in(session, drop_batch, frozen.task_id, frozen.start, frozen.end)
        self.released += 1

    async def _fail(self, frozen: _Frozen, problem: DapProblem) -> None:
        problem = DapProblem(problem.kind, f"the helper: {problem.detail}", frozen.task_id)
        async with self._database.write() as session:
            row = await session.get(CollectionJobRow, (frozen.task_id, frozen.job_id), with_for_update=True)
            if row is not None and row.state == "frozen":
                row.state, row.problem = "failed", problem.to_json()

    async def _postpone(self, frozen: _Frozen) -> None:
        until_s = self._clock.now_s() + delay_after(frozen.attempts)
        async with self._database.write() as session:
            row = await session.get(CollectionJobRow, (frozen.task_id, frozen.job_id), with_for_update=True)
            if row is not None:
                row.leased_until_s = until_s


async def _lock(session: AsyncSession, task_id: bytes) -> None:
    """Keep those who add reports of a task, and those who collect, out until the transaction ends (A6)."""
    await run_in(session, lock_task, task_id, is_exclusive=True)


async def _count_added(session: AsyncSession, row: CollectionJobRow) -> int:
    """Return how many reports of a job's windows have been added."""
    query = select(func.sum(BucketRow.reports)).where(
        BucketRow.task_id == row.task_id, BucketRow.time >= row.start, BucketRow.time < row.end
    )
    return int((await session.scalar(query)) or 0)


async def _check_overlap(session: AsyncSession, task_id: bytes, start: int, end: int) -> None:
    query = select(CollectionJobRow.job_id).where(
        CollectionJobRow.task_id == task_id,
        CollectionJobRow.state != "failed",
        CollectionJobRow.start < end,
        CollectionJobRow.end > start,
    )
    if (await session.scalars(query)).first() is not None:
        raise DapProblem(ProblemType.BATCH_OVERLAP, "a part of the batch was asked for before", task_id)
