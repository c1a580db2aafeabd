"""Reads the reports of an experiment that has started."""

from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.snapshots.experiment import Reports
from alcove.platform.store.reports import cell_counts, window_count
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["read_reports"]


async def read_reports(session: AsyncSession, record: ExperimentRecord) -> Reports:
    """Return the reports of an experiment that has started, with their task."""
    task = task_of(record)
    counts = await cell_counts(session, task.task_id, task.cell_count)
    return Reports(task, tuple(counts), await window_count(session, task.task_id))
