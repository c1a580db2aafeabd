"""Keeps the tasks that an aggregator takes part in, and decides which ones it does.

A task is announced by a party that has shown who it is: the collector at the leader, the leader at the helper. What a
device advertises is compared and never believed, so no stranger can fill the table.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from alcove.platform.aggregator.config import AggregatorConfig
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import TaskRow
from alcove.platform.store.dialects import insert
from alcove.privacy.dap.task import DapTask, read_task
from alcove.privacy.dap.verification import Verifier
from alcove.privacy.errors import DapMessageError, DapTaskError

__all__ = ["JOB_REPORTS", "OpenTask", "TaskBook"]

KEPT: Final = 256  # tasks in memory
MISSING_S: Final = 1.0  # seconds for which a task that is not there is not asked for again
MISSING_KEPT: Final = 4096


JOB_REPORTS: Final = 512
"""Most reports of a job that the leader makes."""

JOB_ELEMENTS: Final = 1 << 21
"""Most elements of their sums together: each takes 16 bytes, some times over, while a job is worked on."""


@dataclass(frozen=True)
class OpenTask:
    """A task with what verifies its reports."""

    task: DapTask
    verifier: Verifier

    @property
    def job_reports(self) -> int:
        """Most reports of an aggregation job: fewer where a report is a long one, so that memory bounds both."""
        return max(1, min(JOB_REPORTS, JOB_ELEMENTS // self.task.circuit.output_length))


class TaskBook:
    """The tasks of an aggregator.

    Args:
        database: its rows.
        config: whose seat, URLs and rules decide.
        monotonic_s: seconds that only rise; ages what is remembered to be missing.
    """

    def __init__(
        self,
        database: AggregatorDatabase,
        config: AggregatorConfig,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._config = config
        self._monotonic_s = monotonic_s
        self._open: OrderedDict[bytes, OpenTask] = OrderedDict()
        self._missing: OrderedDict[bytes, float] = OrderedDict()

    async def find(self, task_id: bytes) -> OpenTask:
        """Return a task that this aggregator takes part in.

        Raises:
            DapProblem: it does not know the task, or the rules do not allow it any more.
        """
        found = self._open.get(task_id)
        if found is not None:
            self._open.move_to_end(task_id)
            return found
        if self._monotonic_s() < self._missing.get(task_id, 0.0):
            raise _refuse_unknown(task_id)
        async with self._database.read() as session:
            row = await session.get(TaskRow, task_id)
        if row is None:
            self._missing[task_id] = self._monotonic_s() + MISSING_S
            _trim(self._missing, MISSING_KEPT)
            raise _refuse_unknown(task_id)
        return self._keep(self._validate(task_id, row.configuration))  # the rules may be stricter by now

    async def announce(self, task_id: bytes, encoded: bytes, now_s: int) -> OpenTask:
        """Take part in a task from now on, if the rules allow it; again is the same as once.

        Args:
            task_id: as the caller names it.
            encoded: the task's configuration.
            now_s: seconds since 1970.

        Raises:
            DapProblem: the id is another configuration's, or the rules do not allow it.
        """
        if task_id in self._open:
            return await self.find(task_id)
        task = self._validate(task_id, encoded)
        row = {"task_id": task_id, "configuration": encoded, "created_at_s": now_s}
        async with self._database.write() as session:
            await session.execute(insert(session, TaskRow).values(row).on_conflict_do_nothing())
        self._missing.pop(task_id, None)
        return self._keep(task)

    def _validate(self, task_id: bytes, encoded: bytes) -> DapTask:
        try:
            task = read_task(encoded)
        except DapMessageError as error:
            raise DapProblem(ProblemType.INVALID_MESSAGE, str(error), task_id) from None
        except DapTaskError as error:
            raise DapProblem(ProblemType.INVALID_TASK, str(error), task_id) from None
        if task.task_id != task_id:
            raise DapProblem(ProblemType.UNRECOGNIZED_TASK, "the id is not that of the configuration", task_id)
        ours = (self._config.leader_url.encode(), self._config.helper_url.encode())
        if (task.configuration.leader_url, task.configuration.helper_url) != ours:
            raise DapProblem(ProblemType.INVALID_TASK, "the task names other aggregators", task_id)
        if task.info.token_issuer != self._config.token_issuer:
            raise DapProblem(ProblemType.INVALID_TASK, "the task names another issuer of tokens", task_id)
        try:
            self._config.rules.check(task)
        except DapTaskError as error:
            raise DapProblem(ProblemType.INVALID_TASK, str(error), task_id) from None
        return task

    def _keep(self, task: DapTask) -> OpenTask:
        self._open[task.task_id] = found = OpenTask(task, Verifier(task, self._config.secret))
        _trim(self._open, KEPT)
        return found


def _trim(kept: "OrderedDict[bytes, OpenTask] | OrderedDict[bytes, float]", most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


def _refuse_unknown(task_id: bytes) -> DapProblem:
    return DapProblem(ProblemType.UNRECOGNIZED_TASK, "no such task was announced here", task_id)
