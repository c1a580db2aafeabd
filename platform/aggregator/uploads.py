"""Takes reports from devices: checked by what is in memory, stored with others in one transaction, then acknowledged.

    arrived ─▶ checked without a key ─▶ waits ─▶ stored with all that wait ─▶ committed and synced ─▶ acknowledged

A report whose id is there already is acknowledged again: a device that lost the answer sends the same bytes (A1). Where
the task names an issuer, a report's token is spent in the transaction that stores the report, and a report whose token
another has spent is refused (A7). A window that is being collected takes no more. At most `WAITING_MOST` reports wait;
who comes later is asked to come again, before anything is acknowledged.

Source: draft-ietf-ppm-dap-18, section 4.4.3.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from alcove.platform.aggregator.batches import AS_THEY_ARE, find_closed, insert_report_ids, lock_task, spend_tokens
from alcove.platform.aggregator.keys import KeyRing
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import ReportRow
from alcove.platform.aggregator.tasks import OpenTask
from alcove.platform.aggregator.token_keys import TokenKeys
from alcove.platform.domain.errors import StoreBusyError
from alcove.privacy.dap.messages import Report, ReportError, ReportUploadStatus, Role, UploadRequest
from alcove.privacy.dap.report_tokens import (
    check_extensions,
    check_token,
    public_extension_types,
    read_nonce,
    refuse_spent,
)
from alcove.privacy.dap.reports import check_time
from alcove.privacy.dap.task import DapTask
from alcove.privacy.errors import DapMessageError, ReportRejectedError
from alcove.privacy.hpke import KEY_BYTES, TAG_BYTES
from alcove.runtime.clock import Clock
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["Uploads"]

WAITING_MOST: Final = 8192
"""Most reports that wait to be stored."""

AT_ONCE: Final = 1024
"""Reports that are stored in one transaction."""

MAX_PRIVATE_BYTES: Final = 4096
"""What an encrypted share may have beside the VDAF's: extensions that only one aggregator reads."""


@dataclass(frozen=True)
class _Arrival:
    """Reports of one request that wait, and where to say which of them were refused."""

    task: DapTask
    reports: tuple[Report, ...]
    stored: "asyncio.Future[dict[bytes, ReportRejectedError]]"


class Uploads:
    """The reports that devices send.

    Args:
        database: where they wait for aggregation.
        keys: gives the leader's present HPKE keys.
        token_keys: verify the tokens of tasks with an issuer.
        clock: says which windows have begun.

    Attributes:
        acknowledged: reports stored since the start.
        refused: reports refused since the start, by reason.
    """

    def __init__(
        self,
        database: AggregatorDatabase,
        keys: Callable[[], KeyRing],
        token_keys: TokenKeys,
        clock: Clock,
    ) -> None:
        self._database = database
        self._keys = keys
        self._token_keys = token_keys
        self._clock = clock
        self._waiting: deque[_Arrival] = deque()
        self._waiting_reports = 0
        self._writer: asyncio.Task[None] | None = None
        self.acknowledged = 0
        self.refused: Counter[str] = Counter()

    async def take(self, opened: OpenTask, body: bytes) -> tuple[ReportUploadStatus, ...]:
        """Store the reports of a request, and return those that were refused, with the reason of each.

        Raises:
            DapProblem: the body is no request.
            StoreBusyError: too many wait; nothing of the request was stored, and repeating it helps.
            ServerError: the database does not take it now; repeating helps.
        """
        task_id = opened.task.task_id
        try:
            reports = UploadRequest.from_bytes(body).reports
        except DapMessageError as error:
            raise DapProblem(ProblemType.INVALID_MESSAGE, str(error), task_id) from None
        refusals = [self._check(opened, report) for report in reports]
        await self._check_tokens(opened.task, reports, refusals)
        sound = tuple(report for report, refusal in zip(reports, refusals, strict=True) if refusal is None)
        late = await self._store(opened.task, sound) if sound else {}
        statuses = []
        for report, refusal in zip(reports, refusals, strict=True):
            reason = refusal or late.get(report.metadata.report_id)
            if reason is not None:
                statuses.append(ReportUploadStatus(report.metadata.report_id, reason.error))
                self.refused[reason.label] += 1
        self.acknowledged += len(reports) - len(statuses)
        return tuple(statuses)

    async def close(self) -> None:
        """Store what waits, and end."""
        while self._writer is not None and not self._writer.done():
            await self._writer

    def _check(self, opened: OpenTask, report: Report) -> ReportRejectedError | None:
        """Return why a report is refused, by what can be seen without opening it; None: it is not."""
        task = opened.task
        try:
            check_time(task, report.metadata.time, self._clock.now_s())
        except ReportRejectedError as rejection:
            if rejection.error is ReportError.REPORT_TOO_EARLY:
                return rejection
            return ReportRejectedError(ReportError.REPORT_DROPPED, rejection.reason)
        if report.leader_input_share.config_id not in self._keys().private:
            return ReportRejectedError(ReportError.OUTDATED_CONFIG, "it is sealed to a key that is gone")
        sealed = ((Role.LEADER, report.leader_input_share), (Role.HELPER, report.helper_input_share))
        is_sized = len(report.public_share) == opened.verifier.public_share_bytes and all(
            len(share.encapsulated_key) == KEY_BYTES
            and len(share.payload) <= opened.verifier.input_share_bytes(role) + TAG_BYTES + MAX_PRIVATE_BYTES
            for role, share in sealed
        )
        if not is_sized:
            return ReportRejectedError(ReportError.INVALID_MESSAGE, "a share has another size than the task's")
        try:
            check_extensions(report.metadata.public_extensions, public_extension_types(task))
        except ReportRejectedError as rejection:
            return rejection
        return None

    async def _check_tokens(
        self, task: DapTask, reports: Sequence[Report], refusals: list[ReportRejectedError | None]
    ) -> None:
        """Refuse also those reports whose token is not for their task and time."""
        if task.info.token_issuer is None:
            return
        times = {report.metadata.time for report, refusal in zip(reports, refusals, strict=True) if refusal is None}
        keys = await self._token_keys.find(task, times)

        def check(report: Report) -> ReportRejectedError | None:
            try:
                check_token(task, report.metadata, keys.get(report.metadata.time))
            except ReportRejectedError as rejection:
                return rejection
            return None

        def check_all() -> list[ReportRejectedError | None]:
            return [refusal or check(report) for report, refusal in zip(reports, refusals, strict=True)]

        refusals[:] = await asyncio.to_thread(check_all)

    async def _store(self, task: DapTask, reports: tuple[Report, ...]) -> dict[bytes, ReportRejectedError]:
        if self._waiting_reports + len(reports) > WAITING_MOST:
            raise StoreBusyError
        arrival = _Arrival(task, reports, asyncio.get_running_loop().create_future())
        self._waiting.append(arrival)
        self._waiting_reports += len(reports)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return await arrival.stored

    async def _write(self) -> None:
        """Store what waits, many at once, until nothing does."""
        while self._waiting:
            batch = [self._waiting.popleft()]
            size = len(batch[0].reports)
            while self._waiting and size + len(self._waiting[0].reports) <= AT_ONCE:
                batch.append(self._waiting.popleft())
                size += len(batch[-1].reports)
            self._waiting_reports -= size
            try:
                refused = await self._insert(batch)
            except Exception as error:  # noqa: BLE001 - each request is answered with it
                for arrival in batch:
                    if not arrival.stored.done():
                        arrival.stored.set_exception(error)
                continue
            for arrival in batch:
                if not arrival.stored.done():
                    arrival.stored.set_result(refused[arrival.task.task_id])

    async def _insert(self, batch: list[_Arrival]) -> dict[bytes, dict[bytes, ReportRejectedError]]:
        """Store reports in one transaction; return for each task those that are refused."""
        tasks = {arrival.task.task_id: arrival.task for arrival in batch}
        by_task: dict[bytes, dict[bytes, Report]] = defaultdict(dict)
        for arrival in batch:
            for report in arrival.reports:
                by_task[arrival.task.task_id].setdefault(report.metadata.report_id, report)
        refused: dict[bytes, dict[bytes, ReportRejectedError]] = {}
        async with self._database.write() as session:
            for task_id in sorted(by_task):
                refused[task_id] = await self._insert_of_task(session, tasks[task_id], by_task[task_id])
        return refused

    async def _insert_of_task(
        self, session: AsyncSession, task: DapTask, reports: dict[bytes, Report]
    ) -> dict[bytes, ReportRejectedError]:
        await lock_task(session, task.task_id, is_exclusive=False)
        times = {report_id: report.metadata.time for report_id, report in reports.items()}
        closed = await find_closed(session, task.task_id, times.values())
        # The draft's own word for a report of a batch that was collected.
        late = ReportRejectedError(ReportError.REPORT_REPLAYED, "its window takes no more reports")
        refused = {report_id: late for report_id, time in times.items() if time in closed}
        if task.info.token_issuer is not None:
            nonces = {
                report_id: (times[report_id], read_nonce(report.metadata))
                for report_id, report in reports.items()
                if report_id not in refused
            }
            own = await spend_tokens(session, task.task_id, nonces)
            refused |= dict.fromkeys(nonces.keys() - own, refuse_spent())
        accepted = [(report_id, time) for report_id, time in times.items() if report_id not in refused]
        new = await insert_report_ids(session, task.task_id, accepted)
        rows = [
            {
                "task_id": task.task_id,
                "report_id": report_id,
                "time": times[report_id],
                "report": report.to_bytes(),
                "job": None,
                "not_before_s": 0,
            }
            for report_id, report in reports.items()
            if report_id in new
        ]
        if rows:
            await session.execute(insert(ReportRow).execution_options(**AS_THEY_ARE), rows)
        return refused
