"""Stores how many reports named each cell.  Sums only: no row, time or address of a single report exists anywhere."""

from collections.abc import Mapping, Sequence

from alcove.platform.store.dialects import insert
from alcove.platform.store.tables import CollectedWindowRow, ReportCountRow
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["add_counts", "cell_counts", "report_marks", "reported_windows", "window_cell_counts"]


async def add_counts(session: AsyncSession, counts: Mapping[tuple[str, int, int], int]) -> None:
    """Add to the sums; keys are (task id, window, cell)."""
    if not counts:
        return
    statement = insert(session, ReportCountRow)
    statement = statement.on_conflict_do_update(
        index_elements=["task_id", "window", "cell"],
        set_={"count": ReportCountRow.count + statement.excluded.count},
    )
    rows = [
        {"task_id": task_id, "window": window, "cell": cell, "count": count}
        for (task_id, window, cell), count in counts.items()
    ]
    await session.execute(statement, rows)


async def cell_counts(session: AsyncSession, task_id: str, cell_count: int, windows: range | None = None) -> list[int]:
    """Return the reports of a task per cell, over all windows or some that follow each other."""
    query = select(ReportCountRow.cell, func.sum(ReportCountRow.count)).where(_is_in(task_id, windows))
    found = (await session.execute(query.group_by(ReportCountRow.cell))).all()
    sums = {cell: int(total) for cell, total in found}
    return [sums.get(cell, 0) for cell in range(cell_count)]


async def reported_windows(session: AsyncSession, task_id: str, windows: range | None = None) -> tuple[int, int]:
    """Return how many windows of a task have a report, and how many lie from the first of them to the last.

    Args:
        session: of a transaction.
        task_id: whose.
        windows: among which they are counted, one after the other; None: all.
    """
    window = ReportCountRow.window
    query = select(func.count(func.distinct(window)), func.max(window) - func.min(window) + 1)
    count, span = (await session.execute(query.where(_is_in(task_id, windows)))).one()
    return int(count), int(span or 0)


async def report_marks(session: AsyncSession, task_ids: Sequence[str]) -> tuple[int, int]:
    """Return two numbers of which one rises with each report of some tasks: cells named, and windows collected."""
    cells = select(func.sum(ReportCountRow.count)).where(ReportCountRow.task_id.in_(task_ids))
    windows = select(func.count()).where(CollectedWindowRow.task_id.in_(task_ids))
    return int(await session.scalar(cells) or 0), int(await session.scalar(windows) or 0)


def _is_in(task_id: str, windows: range | None) -> ColumnElement[bool]:
    """Return what is true of the rows of a task's windows."""
    is_of_task = ReportCountRow.task_id == task_id
    if windows is None:
        return is_of_task
    return is_of_task & ReportCountRow.window.between(windows.start, windows.stop - 1)


async def window_cell_counts(session: AsyncSession, task_id: str, cell_count: int) -> dict[int, list[int]]:
    """Return the reports of a task per cell, for each window that has any, by rising window."""
    query = select(ReportCountRow.window, ReportCountRow.cell, ReportCountRow.count)
    rows = await session.execute(query.where(ReportCountRow.task_id == task_id).order_by(ReportCountRow.window))
    found: dict[int, list[int]] = {}
    for window, cell, count in rows:
        counts = found.setdefault(window, [0] * cell_count)
        if cell < cell_count:
            counts[cell] = count
    return found
