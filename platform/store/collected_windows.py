"""Stores the sums that were collected of each window of a task by Prio3.

The aggregators draw a window's noise once and release it once, so that the first sums of a window are the only ones.
Every device that takes part reports every window: the cell behind those of the task's layout, the idle cell, counts
those with nothing to tell.  It is stored with the others, and statistics read the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.domain.errors import WindowCollectedError
from alcove.platform.domain.reports import WindowReports, estimate_reports, pool_windows
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.platform.store.dialects import insert
from alcove.platform.store.tables import CollectedWindowRow
from alcove.registry.policy import TaskPolicy
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["CollectedSums", "add_collected_window", "collected_reports", "collected_sums", "collected_windows"]

_COUNT = np.dtype("<i8")


@dataclass(frozen=True)
class CollectedSums:
    """The sums of the windows that were collected of a task.

    Attributes:
        counts: noised sum of each cell of the layout, which may be negative.
        idle: noised sum of the idle cell.
        reports: estimate of those that told something: window by window all but the idle ones, at least 0.
        released: all reports that were added up, exactly.
        windows: that were collected; each has noise of its own.
        span: how many lie from the first of them to the last.
    """

    counts: tuple[int, ...]
    idle: int
    reports: int
    released: int
    windows: int
    span: int


async def add_collected_window(
    session: AsyncSession, task: TaskPolicy, window: int, *, reports: int, counts: Sequence[int]
) -> bool:
    """Write a window's sums; return False if the same were there.

    Args:
        session: of a transaction.
        task: by Prio3.
        window: number of the window, from 0.
        reports: that were added up; both aggregators state the same.
        counts: noised sum of each cell in the order of the task's layout, and of the idle cell; each aggregator's noise
            is in them.

    Raises:
        ValueError: no aggregators, another number of cells, or a number out of its bounds.
        WindowCollectedError: the window was collected with other sums.
    """
    cells = task.cell_count + 1
    if task.aggregation is None or len(counts) != cells or window < 0:
        msg = f"a window from 0 of {cells} cells by Prio3, got window {window} of {len(counts)} cells"
        raise ValueError(msg)
    if not task.aggregation.min_batch_size <= reports <= MAX_REPORTS or max(map(abs, counts)) > MAX_REPORTS:
        msg = f"a batch has {task.aggregation.min_batch_size} to {MAX_REPORTS} reports, got {reports} and {counts}"
        raise ValueError(msg)
    packed = np.asarray(counts, _COUNT).tobytes()
    statement = insert(session, CollectedWindowRow).values(
        task_id=task.task_id, window=window, reports=reports, counts=packed
    )
    found = await session.execute(statement.on_conflict_do_nothing().returning(CollectedWindowRow.window))
    if found.first() is not None:
        return True
    there = await session.get_one(CollectedWindowRow, (task.task_id, window))
    if (there.reports, there.counts) != (reports, packed):
        raise WindowCollectedError(task.task_id, window)
    return False


async def collected_windows(session: AsyncSession, task_id: str) -> frozenset[int]:
    """Return the numbers of the windows that were collected of a task."""
    query = select(CollectedWindowRow.window).where(CollectedWindowRow.task_id == task_id)
    return frozenset(await session.scalars(query))


async def collected_sums(session: AsyncSession, task: TaskPolicy, among: range | None = None) -> CollectedSums:
    """Return the sums of the windows that were collected of a task: of all, or of some that follow each other."""
    windows = await collected_reports(session, task)
    found = pool_windows(task, [each for each in windows if among is None or each.window in among])
    return CollectedSums(
        found.counts, found.idle, found.reports, found.released, windows=found.windows, span=found.span
    )


async def collected_reports(session: AsyncSession, task: TaskPolicy) -> tuple[WindowReports, ...]:
    """Return the sums of each window that was collected of a task, by rising window."""
    query = select(CollectedWindowRow.window, CollectedWindowRow.reports, CollectedWindowRow.counts)
    query = query.where(CollectedWindowRow.task_id == task.task_id).order_by(CollectedWindowRow.window)
    found = []
    for window, released, packed in await session.execute(query):
        *of_layout, idle = np.frombuffer(packed, _COUNT).tolist()
        reports = estimate_reports(task, released, idle)
        found.append(WindowReports(window, tuple(of_layout), reports, idle, released))
    return tuple(found)
