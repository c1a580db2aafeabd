"""Reads the reports of a task, from where its mechanism puts them."""

from alcove.platform.domain.reports import Reports
from alcove.platform.store.collected_windows import collected_sums
from alcove.platform.store.reports import cell_counts, reported_windows
from alcove.registry.policy import TaskPolicy
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["read_reports"]


async def read_reports(session: AsyncSession, task: TaskPolicy) -> Reports:
    """Return the reports of a task: cells counted here, or windows collected from its aggregators."""
    if task.aggregation is not None:
        found = await collected_sums(session, task)
        return Reports(task, found.counts, found.reports, found.windows, found.idle, found.released, found.span)
    counts = await cell_counts(session, task.task_id, task.cell_count)
    return Reports.of_cells(task, counts, *await reported_windows(session, task.task_id))
