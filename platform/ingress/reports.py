"""Validates reports, and counts those of running experiments.

A body is one report, as devices send it.  What is kept is one sum per (task, window, cell), to which a
report adds one for each cell that it names; order, time and origin of
reports are gone when the answer is sent.  Refusals are counted by reason.

arrived ─▶ checked by the tasks in memory ─▶ waits ─▶ checked again, counted with all that wait ─▶ committed ─▶ answered

I1  A report that is refused costs no transaction.
I2  A report is acknowledged when the commit that counts it is synced, never sooner.
I3  Writers of the server go first: between two transactions there is a pause of PAUSE times what the last one took, one
    that finds the database busy tries again later, and what waits for too long is sent away.
I4  At most WAITING_MOST reports wait; one more is sent away.
"""

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from alcove.platform.domain import limits
from alcove.platform.domain.errors import ReportRefusedError, ServerError, StoreBusyError
from alcove.platform.domain.windows import first_open_window
from alcove.platform.store import Store
from alcove.platform.store.reports import add_counts
from alcove.platform.store.running_tasks import RunningTasks, running_tasks
from alcove.privacy.errors import ReportFormatError
from alcove.privacy.report import AnyReport, Report, parse_report, subset_bytes
from alcove.registry.policy import TaskPolicy
from alcove.runtime.clock import Clock

__all__ = ["ReportCollector"]

TASKS_AGE_S: Final = 1.0  # seconds after which the tasks in memory are read again
WAITING_MOST: Final = 4096  # reports; a second of them or so
AT_ONCE: Final = 1024  # reports in one transaction; it takes some ten milliseconds
PAUSE: Final = 4  # times what the last transaction took: reports hold the database a fifth of the time at most
PAUSE_S: Final = 0.02  # seconds of such a pause at least
AGAIN_S: Final = 0.02  # seconds until a busy database is tried again
BUSY_S: Final = 3.0  # seconds of trying before those that wait are sent away


class ReportCollector:
    """Counts reports of running experiments.

    Args:
        store: where sums are kept.
        clock: says which windows have begun.
        monotonic_s: seconds that only rise; ages the tasks in memory.
        sleep: waits a number of seconds.

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
        self._tasks = RunningTasks(store, monotonic_s, sleep)
        self._waiting: deque[tuple[AnyReport, asyncio.Future[None]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self.counted = 0
        self.refused: Counter[str] = Counter()

    async def collect(self, body: bytes) -> None:
        """Count the report that a body is; it is committed when this returns.

        Raises:
            ReportRefusedError: no report, or one that names no running task, no open window or no cell.
            StoreBusyError: too many wait, or other writers hold the database; repeating helps.
            StoreFullError, StoreUnavailableError: the database does not take it now.
        """
        try:
            report = parse_report(body)
        except ReportFormatError as error:
            reason = "malformed"
            raise ReportRefusedError(reason, error.bound) from None
        tasks = await self._tasks.read(TASKS_AGE_S)
        if report.task_id.hex() not in tasks:
            tasks = await self._tasks.read(0)  # one may have started a moment ago, in another process
        _judge(report, tasks, self._clock.now_s())
        if len(self._waiting) >= WAITING_MOST:
            raise StoreBusyError
        counted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((report, counted))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        await counted

    async def close(self) -> None:
        """Count what waits, and end."""
        while self._writer is not None and not self._writer.done():
            await self._writer

    async def _write(self) -> None:
        """Count what waits, many at once, until nothing does."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
            began_s = self._monotonic_s()
            try:
                took_s = await self._count_patiently(batch)
            except ServerError as error:
                self._settle([(counted, error) for _, counted in batch])
                took_s = self._monotonic_s() - began_s
            except BaseException as error:
                self._settle([(counted, error) for _, counted in batch])
                raise
            await self._sleep(max(PAUSE_S, PAUSE * took_s))

    async def _count_patiently(self, batch: list[tuple[AnyReport, asyncio.Future[None]]]) -> float:
        """Count a batch, when other writers let it; return the seconds of the transaction."""
        until_s = self._monotonic_s() + BUSY_S
        while True:
            began_s = self._monotonic_s()
            with contextlib.suppress(StoreBusyError):
                await self._count(batch)
                return self._monotonic_s() - began_s
            if self._monotonic_s() >= until_s:
                raise StoreBusyError
            await self._sleep(AGAIN_S)

    async def _count(self, batch: list[tuple[AnyReport, asyncio.Future[None]]]) -> None:
        """Count a batch in one transaction: an experiment that is stopped meanwhile has a report, or it is refused."""
        counts: Counter[tuple[str, int, int]] = Counter()
        answers: list[tuple[asyncio.Future[None], BaseException | None]] = []
        accepted = 0
        async with self._store.write() as session:
            tasks, now_s = await running_tasks(session), self._clock.now_s()
            for report, counted in batch:
                try:
                    _judge(report, tasks, now_s)
                except ReportRefusedError as error:
                    answers.append((counted, error))
                else:
                    cells = (report.cell,) if isinstance(report, Report) else report.cells
                    counts.update((report.task_id.hex(), report.window, cell) for cell in cells)
                    accepted += 1
                    answers.append((counted, None))
            await add_counts(session, counts)
        self.counted += accepted
        self._settle(answers)

    @staticmethod
    def _settle(answers: list[tuple[asyncio.Future[None], BaseException | None]]) -> None:
        """Answer those that still wait."""
        for counted, error in answers:
            if counted.done():
                continue
            if error is None:
                counted.set_result(None)
            else:
                counted.set_exception(error)


def _judge(report: AnyReport, tasks: Mapping[str, TaskPolicy], now_s: int) -> None:
    """Raise for a report that none of the tasks admits now."""
    task = tasks.get(report.task_id.hex())
    if task is None or task.aggregation is not None:  # the others' go to their aggregators
        reason, bound = "unknown_task", "the task of a running experiment"
        raise ReportRefusedError(reason, bound)
    last = task.window_at(now_s + limits.WINDOW_SKEW_S)
    if last is None or report.window > last:
        reason, bound = "unknown_window", "a window that has begun"
        raise ReportRefusedError(reason, bound)
    first = first_open_window(task, now_s)
    if first is not None and report.window < first:
        reason, bound = "closed_window", f"window {first} or a later one"
        raise ReportRefusedError(reason, bound)
    _judge_cells(report, task)


def _judge_cells(report: AnyReport, task: TaskPolicy) -> None:
    """Raise for a report that names no cell of its task, or another number of them than its devices do."""
    size, reason = task.subset_size, "unknown_cell"
    if isinstance(report, Report):
        bound = f"a cell below {task.cell_count}" if size == 1 else f"a set of {size} cells below {task.cell_count}"
        if size > 1 or report.cell >= task.cell_count:
            raise ReportRefusedError(reason, bound)
        return
    cells = report.cells
    bound = f"{size} of {task.cell_count} cells"
    if size == 1 or len(report.bits) != subset_bytes(task.cell_count) or len(cells) != size:
        raise ReportRefusedError(reason, bound)
    if cells[-1] >= task.cell_count:
        raise ReportRefusedError(reason, bound)
