"""Reads the reports of a task, from where its mechanism puts them."""

from dataclasses import replace

from alcove.platform.domain.experiments.questions import strata_count
from alcove.platform.domain.experiments.task import tasks_of
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, WindowReports, pool_windows
from alcove.platform.store.collected_windows import collected_reports, collected_sums
from alcove.platform.store.reports import cell_counts, reported_windows, window_cell_counts
from alcove.registry.policy import TaskPolicy
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["read_deciding_reports", "read_experiment_reports", "read_reports", "read_windows"]


async def read_reports(session: AsyncSession, task: TaskPolicy, windows: range | None = None) -> Reports:
    """Return the reports of a task: cells counted here, or windows collected from its aggregators.

    Args:
        session: of a transaction.
        task: whose.
        windows: that are read; None: all.
    """
    if task.aggregation is not None:
        found = await collected_sums(session, task, windows)
        return Reports(task, found.counts, found.reports, found.windows, found.idle, found.released, found.span)
    counts = await cell_counts(session, task.task_id, task.cell_count, windows)
    return Reports.of_cells(task, counts, *await reported_windows(session, task.task_id, windows))


async def read_windows(session: AsyncSession, task: TaskPolicy) -> Reports:
    """Return the reports of a task with those of each window."""
    if task.aggregation is not None:
        return pool_windows(task, await collected_reports(session, task))
    found = await window_cell_counts(session, task.task_id, task.cell_count)
    windows = (
        WindowReports(window, tuple(counts), sum(counts) // task.subset_size) for window, counts in found.items()
    )
    return pool_windows(task, tuple(windows))


async def read_deciding_reports(session: AsyncSession, record: ExperimentRecord) -> Reports:
    """Return the reports of the question that decides an experiment, of all values of its dimension together."""
    strata = tasks_of(record)[: strata_count(record.plan)]
    return Reports.of_strata([await read_reports(session, task) for task in strata])


async def read_experiment_reports(session: AsyncSession, record: ExperimentRecord) -> Reports:
    """Return the same with the reports of the experiment's other questions.

    Where a bandit moves the arms' shares it has them window by window.
    """
    if record.plan.bandit is not None:
        return await read_windows(session, tasks_of(record)[0])
    others = tasks_of(record)[strata_count(record.plan) :]
    found = await read_deciding_reports(session, record)
    return replace(found, others=tuple([await read_reports(session, task) for task in others]))
