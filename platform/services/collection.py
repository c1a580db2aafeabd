"""Finds the tasks whose windows are collected, and what became of these."""

from dataclasses import dataclass

from alcove.platform.domain.collection import Announcement, CollectedTask, CollectionStatus, WindowRequest
from alcove.platform.domain.experiments.task import tasks_of
from alcove.platform.domain.limits import COLLECT_FOR_S
from alcove.platform.domain.readouts.task import schedule_of
from alcove.platform.domain.readouts.task import task_of as readout_task
from alcove.platform.domain.records import ExperimentRecord, RolloutRecord
from alcove.platform.domain.rollouts.task import stage_tasks
from alcove.platform.store.collected_windows import collected_windows
from alcove.platform.store.experiments import experiments_stopped_since, running_experiments
from alcove.platform.store.readouts import running_readouts
from alcove.platform.store.rollouts import live_rollouts
from alcove.platform.store.window_requests import find_announcement, window_requests
from alcove.registry.limits import WINDOW_MAX_S
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["TaskProgress", "collected_tasks", "count_windows", "read_progress", "read_status"]


@dataclass(frozen=True)
class TaskProgress:
    """How far the collection of a task is.

    Attributes:
        of: the task.
        collected: windows that were collected.
        requests: what came of asking for others.
        announcement: what came of announcing the task; None: it was not yet.
    """

    of: CollectedTask
    collected: frozenset[int]
    requests: dict[int, WindowRequest]
    announcement: Announcement | None

    def open_windows(self, now_s: int) -> list[int]:
        """Return the windows that are to be asked for now."""
        return self.of.open_windows(now_s, self.collected, self.requests)

    def status(self, now_s: int) -> CollectionStatus:
        """Return what became of the windows."""
        return self.of.describe(now_s, self.collected, self.requests, self.announcement)


async def collected_tasks(session: AsyncSession, now_s: int, app: str | None = None) -> list[CollectedTask]:
    """Return the tasks by Prio3 of which windows are or may be asked for: of what runs, or ended not long ago.

    Those of an app, or of all.
    """
    stopped = await experiments_stopped_since(session, now_s - COLLECT_FOR_S - 2 * WINDOW_MAX_S)
    records: list[ExperimentRecord | RolloutRecord] = [
        *await running_experiments(session, app),
        *(one for one in stopped if app in (None, one.app)),
        *await live_rollouts(session, app),
    ]
    # The windows after the last one that is measured are nobody's.
    readouts = [
        CollectedTask(readout_task(one), schedule_of(one.plan, one.until_s).end_s - 1)
        for one in await running_readouts(session)
        if one.plan.aggregation is not None and app in (None, one.app)
    ]
    return [task for record in records for task in _collected_tasks(record)] + readouts


async def read_status(
    session: AsyncSession, record: ExperimentRecord | RolloutRecord, now_s: int
) -> CollectionStatus | None:
    """Return what became of the windows of an experiment or of a rollout's stage; None: it has no task by Prio3.

    Of several tasks it is the status of the one that lacks most windows.
    """
    found = [(await read_progress(session, of)).status(now_s) for of in _collected_tasks(record)]
    return max(found, key=lambda status: len(status.uncollected), default=None)


async def count_windows(session: AsyncSession, now_s: int) -> dict[str, int]:
    """Return how many windows of what runs, or ended not long ago, were collected, wait or are missing."""
    counts: dict[str, int] = dict.fromkeys(("collected", "waiting", "missing"), 0)
    for task in await collected_tasks(session, now_s):
        status = (await read_progress(session, task)).status(now_s)
        for state in counts:
            counts[state] += getattr(status, state)
    return counts


async def read_progress(session: AsyncSession, of: CollectedTask) -> TaskProgress:
    """Return how far the collection of a task is."""
    task_id = of.task.task_id
    return TaskProgress(
        of,
        await collected_windows(session, task_id),
        await window_requests(session, task_id),
        await find_announcement(session, task_id),
    )


def _collected_tasks(record: ExperimentRecord | RolloutRecord) -> list[CollectedTask]:
    """Return the tasks by Prio3 of an experiment that has started, or of a rollout's present stage.

    The stages of a rollout before the present one are compared no more, and their windows are not asked for.
    """
    if isinstance(record, RolloutRecord):
        tasks, ended_at_s = stage_tasks(record), None
    else:
        tasks, ended_at_s = (() if record.started_at_s is None else tasks_of(record)), record.stopped_at_s
    return [CollectedTask(task, ended_at_s) for task in tasks if task.aggregation is not None]
