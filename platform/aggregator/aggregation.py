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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Protocol

import structlog
from alcove.platform.aggregator.batches import VerifiedReport, add_reports, lock_task
from alcove.platform.aggregator.keys import KeyRing
from alcove.platform.aggregator.leases import LEASE_S, delay_after, is_due
from alcove.platform.aggregator.problems import DapProblem
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import AggregationJobRow, ReportRow
from alcove.platform.aggregator.tasks import OpenTask, TaskBook
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.privacy.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    Report,
    ReportError,
    ReportShare,
    Role,
    VerifyInit,
    VerifyResp,
    VerifyRespType,
)
from alcove.privacy.dap.reports import open_input_share
from alcove.privacy.dap.task import DapTask
from alcove.privacy.errors import DapMessageError, ReportRejectedError
from alcove.privacy.presentation import Opaque, Rest, Structure
from alcove.privacy.prio3 import Report as VdafReport
from alcove.privacy.prio3 import VerifyState
from alcove.runtime.clock import Clock
from sqlalchemy import delete, func, select, update

__all__ = ["Aggregation", "HelperPort"]

JOB_REPORTS: Final = 512
"""Most reports of a job."""

MAX_TASK_JOBS: Final = 4
"""Most jobs of a task under way: while the helper is away, reports wait outside of jobs."""

AGAIN_S: Final = 60
"""Seconds until a report that was too early for the helper is tried again."""

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
class _State(Structure):
    """What the leader keeps of a report until the helper has answered."""

    output_share: Annotated[bytes, Opaque(4)]
    joint_rand_seed: Annotated[bytes, Opaque(1)]


@dataclass(frozen=True)
class _States(Structure):
    """The states of a job's reports, in their order."""

    states: Annotated[tuple[_State, ...], Rest(_State)]


@dataclass(frozen=True)
class _Job:
    """A job that this process has leased; what is stored of it is read by then."""

    sequence: int
    task_id: bytes
    request: bytes | None
    states: bytes | None
    attempts: int


@dataclass(frozen=True)
class _Finished:
    """What becomes of a job's reports.

    Attributes:
        added: verified by both.
        early: ids of those that wait again.
        rejected: why the others are left out.
    """

    added: tuple[VerifiedReport, ...]
    early: tuple[bytes, ...]
    rejected: tuple[str, ...]


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
        job = await self._claim()
        if job is None:
            return False
        try:
            opened = await self._book.find(job.task_id)
        except DapProblem as problem:
            _log.warning("the task of reports that wait is refused", problem=str(problem))
            await self._postpone(job)
            return True
        if job.request is None or job.states is None:
            job = await self._begin(opened, job)
        if job is None or job.request is None or job.states is None:
            return True  # no report was left, or somebody else has the job
        try:
            answer = await self._helper.aggregate(opened.task, job.request)
        except (PeerUnavailableError, DapProblem) as error:
            self.is_helper_away = True
            _log.warning("the helper did not answer an aggregation job", attempts=job.attempts, problem=str(error))
            await self._postpone(job)
            return True
        self.is_helper_away = False
        request = AggregationJobInitReq.from_bytes(job.request)
        states = _States.from_bytes(job.states).states
        try:
            answers = _read_answers(request, answer)
        except DapMessageError as error:
            _log.error("an aggregation job is abandoned: the helper's answer is none", problem=str(error))
            answers = tuple(_abandon(init) for init in request.verify_inits)
        await self._finish(opened, job, _finish_reports(opened, request, states, answers))
        return True

    async def _claim(self) -> _Job | None:
        """Lease a job whose lease is over, or make one of reports that wait; None: there is nothing to do."""
        now_s = self._clock.now_s()
        async with self._database.write() as session:
            overdue = (
                select(AggregationJobRow)
                .where(is_due(AggregationJobRow.leased_until_s, now_s))
                .order_by(AggregationJobRow.leased_until_s)
                .limit(1)
                .with_for_update(skip_locked=True)
            )
            row = (await session.scalars(overdue)).first()
            if row is not None:
                row.leased_until_s = now_s + LEASE_S
                row.attempts += 1
                self.has_more = True
                return _Job(row.sequence, row.task_id, row.request, row.states, row.attempts)
            busy = (
                select(AggregationJobRow.task_id)
                .group_by(AggregationJobRow.task_id)
                .having(func.count() >= MAX_TASK_JOBS)
            )
            waits = (ReportRow.job.is_(None)) & is_due(ReportRow.not_before_s, now_s)
            oldest = select(ReportRow.task_id).where(waits, ReportRow.task_id.not_in(busy)).order_by(ReportRow.sequence)
            task_id = (await session.scalars(oldest.limit(1))).first()
            if task_id is None:
                return None
            reports = (
                select(ReportRow.sequence)
                .where(waits, ReportRow.task_id == task_id)
                .order_by(ReportRow.sequence)
                .limit(JOB_REPORTS)
                .with_for_update(skip_locked=True)
            )
            sequences = (await session.scalars(reports)).all()
            if not sequences:
                return None
            self.has_more = len(sequences) == JOB_REPORTS
            row = AggregationJobRow(task_id=task_id, attempts=1, leased_until_s=now_s + LEASE_S)
            session.add(row)
            await session.flush()
            await session.execute(update(ReportRow).where(ReportRow.sequence.in_(sequences)).values(job=row.sequence))
            return _Job(row.sequence, task_id, None, None, 1)

    async def _begin(self, opened: OpenTask, job: _Job) -> _Job | None:
        """Open and verify a job's reports, store its request; return it, or None where no report is left."""
        query = select(ReportRow.sequence, ReportRow.report).where(ReportRow.job == job.sequence)
        async with self._database.read() as session:
            rows = (await session.execute(query.order_by(ReportRow.sequence))).all()
        reports = [Report.from_bytes(report) for _, report in rows]
        begun = await asyncio.to_thread(self._verify, opened, reports)
        left_out = [sequence for (sequence, _), each in zip(rows, begun, strict=True) if each is None]
        sound = [each for each in begun if each is not None]
        request = AggregationJobInitReq(0, b"", (), tuple(init for init, _ in sound)).to_bytes() if sound else None
        states = _States(tuple(state for _, state in sound)).to_bytes()
        async with self._database.write() as session:
            row = await session.get(AggregationJobRow, job.sequence, with_for_update=True)
            if row is None or row.request is not None:
                return None  # another process has begun it since
            if left_out:
                await session.execute(delete(ReportRow).where(ReportRow.sequence.in_(left_out)))
            if request is None:
                await session.delete(row)
                return None
            row.request, row.states = request, states
        return _Job(job.sequence, job.task_id, request, states, job.attempts)

    def _verify(self, opened: OpenTask, reports: Sequence[Report]) -> list[tuple[VerifyInit, _State] | None]:
        """Return for each report what is sent and what is kept; None: it is left out."""
        keys = self._keys().private
        payloads: list[VdafReport | None] = []
        for report in reports:
            share = ReportShare(report.metadata, report.public_share, report.leader_input_share)
            try:
                opened_share = open_input_share(opened.task, Role.LEADER, keys, share)
            except ReportRejectedError as error:
                self.rejected[error.label] += 1
                payloads.append(None)
                continue
            payloads.append(VdafReport(report.metadata.report_id, report.public_share, opened_share.payload))
        verified = iter(opened.verifier.begin_leader([each for each in payloads if each is not None]))
        results: list[tuple[VerifyInit, _State] | None] = []
        for report, payload in zip(reports, payloads, strict=True):
            found = None if payload is None else next(verified)
            if found is None or isinstance(found, ReportRejectedError):
                if found is not None:
                    self.rejected[found.label] += 1
                results.append(None)
                continue
            state, message = found
            share = ReportShare(report.metadata, report.public_share, report.helper_input_share)
            results.append((VerifyInit(share, message), _State(state.output_share, state.joint_rand_seed)))
        return results

    async def _postpone(self, job: _Job) -> None:
        until_s = self._clock.now_s() + delay_after(job.attempts)
        async with self._database.write() as session:
            key = AggregationJobRow.sequence == job.sequence
            await session.execute(update(AggregationJobRow).where(key).values(leased_until_s=until_s))

    async def _finish(self, opened: OpenTask, job: _Job, finished: "_Finished") -> None:
        """Add what both have verified, and end the job, in one transaction (J3)."""
        async with self._database.write() as session:
            await lock_task(session, job.task_id, is_exclusive=False)
            row = await session.get(AggregationJobRow, job.sequence, with_for_update=True)
            if row is None:
                return
            await add_reports(session, opened.verifier, job.task_id, finished.added)
            is_early = (ReportRow.job == job.sequence) & ReportRow.report_id.in_(finished.early)
            again_s = self._clock.now_s() + AGAIN_S
            await session.execute(update(ReportRow).where(is_early).values(job=None, not_before_s=again_s))
            await session.execute(delete(ReportRow).where(ReportRow.job == job.sequence))
            await session.delete(row)
        self.added += len(finished.added)
        self.rejected.update(finished.rejected)


def _read_answers(request: AggregationJobInitReq, answer: bytes) -> tuple[VerifyResp, ...]:
    """Return the helper's answers, one a report of the request, in its order.

    Raises:
        DapMessageError: they are not.
    """
    answers = AggregationJobResp.from_bytes(answer).verify_resps
    if [each.report_id for each in answers] != [init.report_share.metadata.report_id for init in request.verify_inits]:
        raise DapMessageError("AggregationJobResp", "verify_resps", "the reports are not those of the request")
    if any(each.kind is VerifyRespType.FINISH for each in answers):
        raise DapMessageError("AggregationJobResp", "verify_resps", "Prio3 does not finish without a message")
    return answers


def _abandon(init: VerifyInit) -> VerifyResp:
    return VerifyResp(init.report_share.metadata.report_id, VerifyRespType.REJECT, error=ReportError.REPORT_DROPPED)


def _finish_reports(
    opened: OpenTask, request: AggregationJobInitReq, states: Sequence[_State], answers: Sequence[VerifyResp]
) -> _Finished:
    """Return what becomes of each report, by the helper's answer."""
    added: list[VerifiedReport] = []
    early: list[bytes] = []
    rejected: list[str] = []
    for init, state, answer in zip(request.verify_inits, states, answers, strict=True):
        if answer.error is ReportError.REPORT_TOO_EARLY:
            early.append(answer.report_id)
        elif answer.error is not None:
            rejected.append(answer.error.name.lower())
        else:
            kept = VerifyState(state.output_share, state.joint_rand_seed)
            try:
                output_share = opened.verifier.finish_leader(kept, answer.payload)
            except ReportRejectedError as error:  # the helper has added it: its message was changed, or it is no helper
                _log.error("a report that the helper has added does not finish here", problem=error.reason)
                rejected.append(error.label)
                continue
            added.append(VerifiedReport(answer.report_id, init.report_share.metadata.time, output_share))
    return _Finished(tuple(added), tuple(early), tuple(rejected))
