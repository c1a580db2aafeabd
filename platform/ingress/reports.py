"""Which reports are counted, and what is kept of them?

A body is counted as a whole or refused as a whole.  What is kept is one sum per (task, window, cell); order, time and
origin of reports are gone when the answer is sent.  Refusals are counted by reason.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
from aiohttp import web
from alcove.platform.core import limits
from alcove.platform.core.errors import ReportRefusedError
from alcove.platform.experiments.task import task_of
from alcove.platform.ingress.rate import RateLimit
from alcove.platform.store import Store
from alcove.platform.store.experiments import running_experiments
from alcove.platform.store.reports import add_counts
from alcove.privacy.errors import ReportFormatError
from alcove.privacy.limits import MAX_REPORTS_PER_BODY, REPORT_BYTES
from alcove.privacy.report import Report, reports_from_bytes
from alcove.registry.clock import Clock
from alcove.registry.policy import TaskPolicy

__all__ = ["ReportCollector", "reports_handler"]

BODY_BYTES: Final = REPORT_BYTES * MAX_REPORTS_PER_BODY
BODY_TIMEOUT_S: Final = 10.0  # seconds; 39 kB take longer on no network that could have carried a model
_log = structlog.get_logger()


class ReportCollector:
    """Counts reports of running experiments.

    Attributes:
        refused: bodies refused since the start, by reason.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.refused: Counter[str] = Counter()

    async def collect(self, body: bytes) -> int:
        """Count the reports in a body; return how many there were.

        Raises:
            ReportRefusedError: not whole reports, or one names no running task, no open window or no cell.
        """
        try:
            reports = reports_from_bytes(body)
        except ReportFormatError as error:
            reason = "malformed"
            raise ReportRefusedError(reason, error.bound) from None
        # One transaction: an experiment that is stopped meanwhile has all of the body or nothing.
        async with self._store.write() as session:
            tasks = {task.task_id: task for task in map(task_of, await running_experiments(session))}
            await add_counts(session, _counts(reports, tasks, self._clock.now_s()))
        return len(reports)


def _counts(reports: Sequence[Report], tasks: dict[str, TaskPolicy], now_s: int) -> Counter[tuple[str, int, int]]:
    """Return the sums that the reports add, or raise for the first that none of the tasks admits."""
    counts: Counter[tuple[str, int, int]] = Counter()
    for report in reports:
        task = tasks.get(report.task_id.hex())
        if task is None:
            reason, bound = "unknown_task", "the task of a running experiment"
            raise ReportRefusedError(reason, bound)
        last = task.window_at(now_s + limits.WINDOW_SKEW_S)
        if last is None or report.window > last:
            reason, bound = "unknown_window", "a window that has begun"
            raise ReportRefusedError(reason, bound)
        if report.cell >= task.cell_count:
            reason, bound = "unknown_cell", f"a cell below {task.cell_count}"
            raise ReportRefusedError(reason, bound)
        counts[task.task_id, report.window, report.cell] += 1
    return counts


def reports_handler(
    collector: ReportCollector, rate: RateLimit
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler of POST /reports: 204 counted, 400 refused, 413 too large, 408 too slow, 429 too many."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.content_length is not None and request.content_length > BODY_BYTES:
            return _refuse(collector, 413, "too_large", f"at most {BODY_BYTES} bytes")
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await _read(request)
        except TimeoutError:
            return _refuse(collector, 408, "too_slow", f"a body within {BODY_TIMEOUT_S:.0f} s")
        if len(body) > BODY_BYTES:
            return _refuse(collector, 413, "too_large", f"at most {BODY_BYTES} bytes")
        if not rate.take(max(1, len(body) // REPORT_BYTES)):
            return _refuse(collector, 429, "too_many", "fewer reports a second; try again")
        try:
            await collector.collect(body)
        except ReportRefusedError as error:
            return _refuse(collector, 400, error.reason, error.bound)
        return web.Response(status=204)

    return handle


async def _read(request: web.Request) -> bytes:
    """Return the body, or its first BODY_BYTES + some bytes if it is longer."""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > BODY_BYTES:
            break
    return bytes(body)


def _refuse(collector: ReportCollector, status: int, reason: str, bound: str) -> web.Response:
    collector.refused[reason] += 1
    _log.info("reports refused", reason=reason, total=collector.refused[reason])
    headers = {"Retry-After": "1"} if status == 429 else None
    return web.Response(status=status, text=f"{reason}: expected {bound}\n", headers=headers)
