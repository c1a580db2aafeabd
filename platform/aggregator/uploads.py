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

from alcove.platform.aggregator.batches import find_closed, insert_report_ids, lock_task, spend_tokens
from alcove.platform.aggregator.keys import KeyRing
from alcove.platform.aggregator.packets import insert_packets
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.aggregator.store import AggregatorDatabase, run_in
from alcove.platform.aggregator.tasks import OpenTask
from alcove.platform.aggregator.token_keys import TokenKeys
from alcove.platform.domain.errors import StoreBusyError
from alcove.privacy.dap.messages import (
    MAX_UPLOAD_REPORTS,
    Report,
    ReportError,
    ReportUploadStatus,
    Role,
    UploadedReport,
    split_reports,
)
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
from sqlalchemy import Connection

__all__ = ["Uploads"]

WAITING_MOST: Final = 8192
"""Most reports that wait to be stored."""

WAITING_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of them: a report of the longest sum has a megabyte."""

AT_ONCE: Final = 1024
"""Reports that are stored in one transaction."""

BYTES_AT_ONCE: Final = 8 * 1024 * 1024
"""Bytes of them, but for those of one request."""

MAX_PRIVATE_BYTES: Final = 4096
"""What an encrypted share may have beside the VDAF's: extensions that only one aggregator reads."""


@dataclass(frozen=True)
class _Arrival:
    """Reports of one request that wait, each with its bytes, and where to say which of them were refused."""

    opened: OpenTask
    reports: tuple[UploadedReport, ...]
    size_bytes: int
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
        self._waiting_bytes = 0
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
        try:
            arrived = split_reports(body, MAX_UPLOAD_REPORTS)
        except DapMessageError as error:
            raise DapProblem(ProblemType.INVALID_MESSAGE, str(error), opened.task.task_id) from None
        reports = [report for report, _ in arrived]
        refusals = [self._check(opened, report) for report in reports]
        await self._check_tokens(opened.task, reports, refusals)
        sound = tuple(each for each, refusal in zip(arrived, refusals, strict=True) if refusal is None)
        late = await self._store(opened, sound) if sound else {}
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

    async def _store(self, opened: OpenTask, reports: tuple[UploadedReport, ...]) -> dict[bytes, ReportRejectedError]:
        size_bytes = sum(len(encoded) for _, encoded in reports)
        is_full = self._waiting_reports + len(reports) > WAITING_MOST
        if is_full or (self._waiting and self._waiting_bytes + size_bytes > WAITING_BYTES):
            raise StoreBusyError
        arrival = _Arrival(opened, reports, size_bytes, asyncio.get_running_loop().create_future())
        self._waiting.append(arrival)
        self._waiting_reports += len(reports)
        self._waiting_bytes += size_bytes
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return await arrival.stored

    async def _write(self) -> None:
        """Store what waits, many at once, until nothing does."""
        while self._waiting:
            batch = self._take_batch()
            try:
                refused = await self._insert(batch)
            except Exception as error:  # noqa: BLE001 - each request is answered with it
                for arrival in batch:
                    if not arrival.stored.done():
                        arrival.stored.set_exception(error)
                continue
            for arrival in batch:
                if not arrival.stored.done():
                    arrival.stored.set_result(refused[arrival.opened.task.task_id])

    def _take_batch(self) -> list[_Arrival]:
        """Return the arrivals that are stored next, in one transaction."""
        batch: list[_Arrival] = []
        reports = size_bytes = 0
        while self._waiting:
            reports += len(self._waiting[0].reports)
            size_bytes += self._waiting[0].size_bytes
            if batch and (reports > AT_ONCE or size_bytes > BYTES_AT_ONCE):
                break
            batch.append(self._waiting.popleft())
        self._waiting_reports -= sum(len(arrival.reports) for arrival in batch)
        self._waiting_bytes -= sum(arrival.size_bytes for arrival in batch)
        return batch

    async def _insert(self, batch: list[_Arrival]) -> dict[bytes, dict[bytes, ReportRejectedError]]:
        """Store reports in one transaction; return for each task those that are refused."""
        tasks = {arrival.opened.task.task_id: arrival.opened for arrival in batch}
        by_task: dict[bytes, dict[bytes, UploadedReport]] = defaultdict(dict)
        for arrival in batch:
            of_task = by_task[arrival.opened.task.task_id]
            for each in arrival.reports:
                of_task.setdefault(each.report.metadata.report_id, each)

        def insert_all(connection: Connection) -> dict[bytes, dict[bytes, ReportRejectedError]]:
            return {
                task_id: _insert_reports(connection, tasks[task_id], by_task[task_id]) for task_id in sorted(by_task)
            }

        async with self._database.write() as session:
            return await run_in(session, insert_all)


def _insert_reports(
    connection: Connection, opened: OpenTask, reports: dict[bytes, UploadedReport]
) -> dict[bytes, ReportRejectedError]:
    """Store those reports of a task, by their ids, that are new; return those that are refused."""
    task = opened.task
    lock_task(connection, task.task_id, is_exclusive=False)
    times = {report_id: report.metadata.time for report_id, (report, _) in reports.items()}
    closed = find_closed(connection, task.task_id, times.values())
    # The draft's own word for a report of a batch that was collected.
    late = ReportRejectedError(ReportError.REPORT_REPLAYED, "its window takes no more reports")
    refused = {report_id: late for report_id, time in times.items() if time in closed}
    if task.info.token_issuer is not None:
        nonces = {
            report_id: (times[report_id], read_nonce(report.metadata))
            for report_id, (report, _) in reports.items()
            if report_id not in refused
        }
        own = spend_tokens(connection, task.task_id, nonces)
        refused |= dict.fromkeys(nonces.keys() - own, refuse_spent())
    accepted = [(report_id, time) for report_id, time in times.items() if report_id not in refused]
    new = insert_report_ids(connection, task.task_id, accepted)
    waiting = [(times[report_id], encoded) for report_id, (_, encoded) in reports.items() if report_id in new]
    insert_packets(connection, task.task_id, waiting, most=opened.job_reports)
    return refused
