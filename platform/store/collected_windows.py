"""Stores the sums that were collected of each window of a task by Prio3.

The aggregators draw a window's noise once and release it once, so that the first sums of a window are the only ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.domain.errors import WindowCollectedError
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.platform.store.dialects import insert
from alcove.platform.store.tables import CollectedWindowRow
from alcove.registry.policy import TaskPolicy
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["CollectedSums", "add_collected_window", "collected_sums", "collected_windows"]

_COUNT = np.dtype("<i8")


@dataclass(frozen=True)
class CollectedSums:
    """The sums of the windows that were collected of a task.

    Attributes:
        counts: noised sum of each cell, which may be negative.
        reports: that were added up in them, exactly.
        windows: that were collected; each has noise of its own.
    """

    counts: tuple[int, ...]
    reports: int
    windows: int


async def add_collected_window(
    session: AsyncSession, task: TaskPolicy, window: int, *, reports: int, counts: Sequence[int]
) -> bool:
    """Write a window's sums; return False if the same were there.

    Args:
        session: of a transaction.
        task: by Prio3.
        window: number of the window, from 0.
        reports: that were added up; both aggregators state the same.
        counts: noised sum of each cell in the order of the task's layout; each aggregator's noise is in it.

    Raises:
        ValueError: no aggregators, another number of cells, or a number out of its bounds.
        WindowCollectedError: the window was collected with other sums.
    """
    if task.aggregation is None or len(counts) != task.cell_count or window < 0:
        msg = f"a window from 0 of {task.cell_count} cells by Prio3, got window {window} of {len(counts)} cells"
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


async def collected_sums(session: AsyncSession, task: TaskPolicy) -> CollectedSums:
    """Return the sums of all windows that were collected of a task."""
    query = select(CollectedWindowRow.reports, CollectedWindowRow.counts)
    rows = (await session.execute(query.where(CollectedWindowRow.task_id == task.task_id))).all()
    counts = np.zeros(task.cell_count, np.int64)
    for _, packed in rows:
        counts += np.frombuffer(packed, _COUNT)
    return CollectedSums(tuple(counts.tolist()), sum(reports for reports, _ in rows), len(rows))
