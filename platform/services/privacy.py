"""Reads what the server has of the reports of an app's running tasks: sums, never a report."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from alcove.platform.domain.noise_shares import NoiseShare, noise_shares
from alcove.platform.services.collection import collected_tasks, read_progress
from alcove.platform.services.reports import read_reports
from alcove.platform.store.running_tasks import running_tasks
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["TaskReports", "read_task_reports"]


@dataclass(frozen=True)
class TaskReports:
    """The reports of a running task.

    Attributes:
        task_id: its id.
        reports: counted here; with aggregators those that they added up.
        windows: that have reports here; with aggregators those that were collected.
        waiting: with aggregators, windows that are over and not collected yet.
        missing: with aggregators, windows that were given up.
        noise: of each comparison that they allow.
    """

    task_id: str
    reports: int
    windows: int
    waiting: int
    missing: int
    noise: tuple[NoiseShare, ...]


async def read_task_reports(
    session: AsyncSession, app: str, task_ids: Collection[str], now_s: int
) -> list[TaskReports]:
    """Return what there is of some tasks, by the task's id; those that do not run in the app are left out."""
    if not task_ids:
        return []
    tasks = {task_id: task for task_id, task in (await running_tasks(session, app)).items() if task_id in task_ids}
    collected = {of.task.task_id: of for of in await collected_tasks(session, now_s, app)}
    found = []
    for task_id, task in sorted(tasks.items()):
        reports = await read_reports(session, task)
        waiting = missing = 0
        if task_id in collected:
            status = (await read_progress(session, collected[task_id])).status(now_s)
            waiting, missing = status.waiting, status.missing
        count = reports.reports if task.aggregation is None else reports.released
        noise = await asyncio.to_thread(noise_shares, reports)  # a matrix of all cells: not on the loop
        found.append(TaskReports(task_id, count, reports.windows, waiting, missing, noise))
    return found
