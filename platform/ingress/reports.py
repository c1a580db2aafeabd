"""Which reports are counted, and what is kept of them?

A body is counted as a whole or refused as a whole.  What is kept is one sum per (task, window, cell); order, time and
origin of reports are gone when the answer is sent.  Refusals are counted by reason.

A body that is refused costs no transaction: it is judged by the tasks in memory first.  One that passes is judged again
inside the transaction that counts it, by the tasks as they are then.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog
from aiohttp import web
from alcove.platform.core import limits
from alcove.platform.core.errors import ReportRefusedError, StoreBusyError, StoreFullError, StoreUnavailableError
from alcove.platform.experiments.task import task_of
from alcove.platform.ingress.rate import RateLimit
from alcove.platform.rollouts.task import stage_task
from alcove.platform.store import Store
from alcove.platform.store.experiments import running_experiments
from alcove.platform.store.reports import add_counts
from alcove.platform.store.rollouts import live_rollouts
from alcove.privacy.errors import ReportFormatError
from alcove.privacy.limits import MAX_REPORTS_PER_BODY, REPORT_BYTES
from alcove.privacy.report import Report, reports_from_bytes
from alcove.registry.clock import Clock
from alcove.registry.policy import TaskPolicy
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["ReportCollector", "reports_handler"]

BODY_BYTES: Final = REPORT_BYTES * MAX_REPORTS_PER_BODY
BODY_TIMEOUT_S: Final = 10.0  # seconds; 39 kB take longer on no network that could have carried a model
TASKS_AGE_S: Final = 1.0  # seconds after which the tasks in memory are read again, whoever changed them
TASKS_AGAIN_S: Final = 0.05  # seconds between two readings, where reports name tasks that are not among them
_log = structlog.get_logger()


class ReportCollector:
    """Counts reports of running experiments.

    Args:
        store: where sums are kept.
        clock: says which windows have begun.
        monotonic_s: seconds that only rise; ages the tasks in memory.
        sleep: waits so many seconds.

    Attributes:
        counted: reports counted since the start.
        refused: bodies refused since the start, by reason.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._sleep = sleep
        self._reading = asyncio.Lock()
        self._tasks: Mapping[str, TaskPolicy] = {}
        self._read_at_s = -math.inf
        self.counted = 0
        self.refused: Counter[str] = Counter()

    async def collect(self, body: bytes) -> int:
        """Count the reports in a body; return how many there were.

        Raises:
            ReportRefusedError: not whole reports, or one names no running task, no open window or no cell.
            StoreBusyError: another writer holds the database; repeating helps.
        """
        try:
            reports = reports_from_bytes(body)
        except ReportFormatError as error:
            reason = "malformed"
            raise ReportRefusedError(reason, error.bound) from None
        tasks = await self._running(TASKS_AGE_S)
        if any(report.task_id.hex() not in tasks for report in reports):
            tasks = await self._running(0)  # one may have started a moment ago, in another process
        _counts(reports, tasks, self._clock.now_s())
        # One transaction: an experiment that is stopped meanwhile has all of the body or nothing.
        async with self._store.write() as session:
            await add_counts(session, _counts(reports, await _tasks(session), self._clock.now_s()))
        self.counted += len(reports)
        return len(reports)

    async def _running(self, age_s: float) -> Mapping[str, TaskPolicy]:
        """Return the tasks as they were at most `age_s` seconds before this call."""
        oldest_s = self._monotonic_s() - age_s
        async with self._reading:  # one reads, the others wait for what it finds
            if self._read_at_s <= oldest_s:
                await self._sleep(max(0.0, self._read_at_s + TASKS_AGAIN_S - self._monotonic_s()))
                self._read_at_s = self._monotonic_s()
                async with self._store.read() as session:
                    self._tasks = await _tasks(session)
            return self._tasks


async def _tasks(session: AsyncSession) -> dict[str, TaskPolicy]:
    tasks = [task_of(record) for record in await running_experiments(session)]
    tasks += [task for task in map(stage_task, await live_rollouts(session)) if task is not None]
    return {task.task_id: task for task in tasks}


def _counts(reports: Sequence[Report], tasks: Mapping[str, TaskPolicy], now_s: int) -> Counter[tuple[str, int, int]]:
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
    collector: ReportCollector, rate: RateLimit, bodies: RateLimit
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler of POST /reports.

    It answers 204 counted, 400 refused, 408 too slow, 413 too large, 429 too many, 503 busy: repeat the last two.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            await collector.collect(await _body(request, rate, bodies))
        except _NotRead as error:
            return _refuse(collector, error.status, error.reason, error.bound)
        except ReportRefusedError as error:
            return _refuse(collector, 400, error.reason, error.bound)
        except (StoreBusyError, StoreFullError, StoreUnavailableError):
            return _refuse(collector, 503, "busy", "a free database; try again")
        return web.Response(status=204)

    return handle


class _NotRead(Exception):  # noqa: N818 - never leaves this module
    """A body that is not looked at."""

    def __init__(self, status: int, reason: str, bound: str) -> None:
        self.status, self.reason, self.bound = status, reason, bound
        super().__init__(reason)


async def _body(request: web.Request, rate: RateLimit, bodies: RateLimit) -> bytes:
    """Return a body of acceptable size that came in time and within the rates, or raise _NotRead."""
    bound = f"at most {BODY_BYTES} bytes"
    if (request.content_length or 0) > BODY_BYTES:
        raise _NotRead(413, "too_large", bound)
    if not bodies.take(1):
        raise _NotRead(429, "too_many", "fewer bodies a second; try again")
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            body = await _read(request)
    except TimeoutError:
        raise _NotRead(408, "too_slow", f"a body within {BODY_TIMEOUT_S:.0f} s") from None
    if len(body) > BODY_BYTES:
        raise _NotRead(413, "too_large", bound)
    if not rate.take(max(1, len(body) // REPORT_BYTES)):
        raise _NotRead(429, "too_many", "fewer reports a second; try again")
    return body


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
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return web.Response(status=status, text=f"{reason}: expected {bound}\n", headers=headers)
