"""Takes reports from devices: checked by what is in memory, stored with others in one transaction, then acknowledged.

    arrived ─▶ checked without a key ─▶ waits ─▶ stored with all that wait ─▶ committed and synced ─▶ acknowledged

A report whose id is there already is acknowledged again: a device that lost the answer sends the same bytes (A1). A
window that is being collected takes no more. At most `WAITING_MOST` reports wait; who comes later is asked to come
again, before anything is acknowledged.

Source: draft-ietf-ppm-dap-18, section 4.4.3.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from alcove.platform.aggregator.batches import find_closed, insert_report_ids, lock_task
from alcove.platform.aggregator.keys import KeyRing
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import ReportRow
from alcove.platform.aggregator.tasks import OpenTask
from alcove.platform.domain.errors import StoreBusyError
from alcove.privacy.dap.messages import Report, ReportError, ReportUploadStatus, Role, UploadRequest
from alcove.privacy.dap.reports import check_time
from alcove.privacy.errors import DapMessageError, ReportRejectedError
from alcove.privacy.hpke import KEY_BYTES, TAG_BYTES
from alcove.runtime.clock import Clock
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["MAX_UPLOAD_REPORTS", "Uploads"]

MAX_UPLOAD_REPORTS: Final = 1000
"""Most reports of one request."""

WAITING_MOST: Final = 8192
"""Most reports that wait to be stored."""

AT_ONCE: Final = 1024
"""Reports that are stored in one transaction."""

MAX_PRIVATE_BYTES: Final = 4096
"""What an encrypted share may have beside the VDAF's: extensions that only one aggregator reads."""


@dataclass(frozen=True)
class _Arrival:
    """Reports of one request that wait, and where to say which of them were refused."""

    task_id: bytes
    reports: tuple[Report, ...]
    stored: "asyncio.Future[dict[bytes, ReportError]]"


class Uploads:
    """The reports that devices send.

    Args:
        database: where they wait for aggregation.
        keys: gives the leader's present HPKE keys.
        clock: says which windows have begun.
        on_stored: called after each transaction that stored reports.

    Attributes:
        acknowledged: reports stored since the start.
        refused: reports refused since the start, by reason.
    """

    def __init__(
        self,
        database: AggregatorDatabase,
        keys: Callable[[], KeyRing],
        clock: Clock,
        on_stored: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._keys = keys
        self._clock = clock
        self._on_stored = on_stored
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
        if len(reports) > MAX_UPLOAD_REPORTS:
            detail = f"at most {MAX_UPLOAD_REPORTS} reports in a request, not {len(reports)}"
            raise DapProblem(ProblemType.INVALID_MESSAGE, detail, task_id)
        errors = [self._check(opened, report) for report in reports]
        sound = tuple(report for report, refusal in zip(reports, errors, strict=True) if refusal is None)
        late = await self._store(task_id, sound) if sound else {}
        statuses = []
        for report, refusal in zip(reports, errors, strict=True):
            reason = refusal or late.get(report.metadata.report_id)
            if reason is not None:
                statuses.append(ReportUploadStatus(report.metadata.report_id, reason))
                self.refused[reason.name.lower()] += 1
        self.acknowledged += len(reports) - len(statuses)
        return tuple(statuses)

    async def close(self) -> None:
        """Store what waits, and end."""
        while self._writer is not None and not self._writer.done():
            await self._writer

    def _check(self, opened: OpenTask, report: Report) -> ReportError | None:
        """Return why a report is refused, by what can be seen without opening it; None: it is not."""
        task = opened.task
        try:
            check_time(task, report.metadata.time, self._clock.now_s())
        except ReportRejectedError as rejection:
            early = ReportError.REPORT_TOO_EARLY
            return early if rejection.error is early else ReportError.REPORT_DROPPED
        if report.leader_input_share.config_id not in self._keys().private:
            return ReportError.OUTDATED_CONFIG
        sealed = ((Role.LEADER, report.leader_input_share), (Role.HELPER, report.helper_input_share))
        is_sized = len(report.public_share) == opened.verifier.public_share_bytes and all(
            len(share.encapsulated_key) == KEY_BYTES
            and len(share.payload) <= opened.verifier.input_share_bytes(role) + TAG_BYTES + MAX_PRIVATE_BYTES
            for role, share in sealed
        )
        return None if is_sized and not report.metadata.public_extensions else ReportError.INVALID_MESSAGE

    async def _store(self, task_id: bytes, reports: tuple[Report, ...]) -> dict[bytes, ReportError]:
        if self._waiting_reports + len(reports) > WAITING_MOST:
            raise StoreBusyError
        arrival = _Arrival(task_id, reports, asyncio.get_running_loop().create_future())
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
                    arrival.stored.set_result(refused[arrival.task_id])
            self._on_stored()

    async def _insert(self, batch: list[_Arrival]) -> dict[bytes, dict[bytes, ReportError]]:
        """Store reports in one transaction; return for each task those whose windows take no more."""
        by_task: dict[bytes, dict[bytes, Report]] = defaultdict(dict)
        for arrival in batch:
            for report in arrival.reports:
                by_task[arrival.task_id].setdefault(report.metadata.report_id, report)
        refused: dict[bytes, dict[bytes, ReportError]] = {}
        async with self._database.write() as session:
            for task_id in sorted(by_task):
                refused[task_id] = await self._insert_of_task(session, task_id, by_task[task_id])
        return refused

    async def _insert_of_task(
        self, session: AsyncSession, task_id: bytes, reports: dict[bytes, Report]
    ) -> dict[bytes, ReportError]:
        await lock_task(session, task_id, is_exclusive=False)
        times = {report_id: report.metadata.time for report_id, report in reports.items()}
        closed = await find_closed(session, task_id, times.values())
        new = await insert_report_ids(
            session, task_id, [(report_id, time) for report_id, time in times.items() if time not in closed]
        )
        rows = [
            {
                "task_id": task_id,
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
            await session.execute(insert(ReportRow), rows)
        # The draft's own word for a report of a batch that was collected.
        return {report_id: ReportError.REPORT_REPLAYED for report_id, time in times.items() if time in closed}
