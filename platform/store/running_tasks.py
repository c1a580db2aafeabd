"""Reads the tasks that devices report for now: of running experiments and read-outs, and of stages of live rollouts."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from alcove.platform.domain.experiments.task import tasks_of
from alcove.platform.domain.readouts.task import task_of as readout_task
from alcove.platform.domain.rollouts.task import stage_tasks
from alcove.platform.store.database import Store
from alcove.platform.store.experiments import running_experiments
from alcove.platform.store.readouts import running_readouts
from alcove.platform.store.rollouts import live_rollouts
from alcove.registry.policy import TaskPolicy
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["RunningTasks", "running_tasks"]

AGAIN_S: Final = 0.05  # seconds between two readings, where strangers name tasks that are not among them


class RunningTasks:
    """The tasks by id, kept in memory between two readings.

    Args:
        store: where they are.
        monotonic_s: seconds that only rise; ages what is in memory.
        sleep: waits a number of seconds.
    """

    def __init__(
        self,
        store: Store,
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._monotonic_s = monotonic_s
        self._sleep = sleep
        self._reading = asyncio.Lock()
        self._tasks: Mapping[str, TaskPolicy] = {}
        self._read_at_s = -math.inf

    async def read(self, age_s: float) -> Mapping[str, TaskPolicy]:
        """Return the tasks as they were at most `age_s` seconds before this call."""
        oldest_s = self._monotonic_s() - age_s
        async with self._reading:  # one reads, the others wait for what it finds
            if self._read_at_s <= oldest_s:
                await self._sleep(max(0.0, self._read_at_s + AGAIN_S - self._monotonic_s()))
                self._read_at_s = self._monotonic_s()
                async with self._store.read() as session:
                    self._tasks = await running_tasks(session)
            return self._tasks

    async def read_in(self, session: AsyncSession) -> Mapping[str, TaskPolicy]:
        """Return the tasks as a transaction sees them."""
        return await running_tasks(session)


async def running_tasks(session: AsyncSession, app: str | None = None) -> dict[str, TaskPolicy]:
    """Return the tasks of an app, or of all, by id, as the session sees them."""
    tasks = [task for record in await running_experiments(session, app) for task in tasks_of(record)]
    tasks += [task for record in await live_rollouts(session, app) for task in stage_tasks(record)]
    tasks += [readout_task(record) for record in await running_readouts(session) if app in (None, record.app)]
    return {task.task_id: task for task in tasks}
