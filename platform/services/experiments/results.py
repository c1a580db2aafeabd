"""Reads an experiment's reports and returns what they show."""

from alcove.platform.domain.experiments.analysis import ExperimentResults, evaluate
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.store.reports import cell_counts, window_count
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["read_results"]


async def read_results(session: AsyncSession, record: ExperimentRecord) -> ExperimentResults:
    """Return what the reports of an experiment that has started say.

    Raises:
        StatsError: the counts are more than statistics accept.
    """
    task = task_of(record)
    counts = await cell_counts(session, task.task_id, task.cell_count)
    return evaluate(record, task, counts, await window_count(session, task.task_id))
