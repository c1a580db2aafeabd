"""Gives a policy's task its form in DAP: one answer for devices, aggregators' collector and issuer of tokens.

What is hashed into DAP's task id is all of the policy's task that a device must agree on with the aggregators: their
addresses, window, smallest batch, cells, epsilon, issuer of tokens, and the id of the policy's task for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alcove.privacy.dap.task import TaskInfo, make_histogram_task

if TYPE_CHECKING:
    from alcove.privacy.dap.task import DapTask
    from alcove.registry.policy.task import TaskPolicy


def make_dap_task(task: TaskPolicy) -> DapTask:
    """Return the task that the aggregators carry out for a task of the policy.

    Raises:
        ValueError: its reports are randomized on the device, no aggregators are named.
        DapTaskError: its noise cannot be drawn exactly: epsilon is out of the bounds of the noise.
    """
    aggregation = task.aggregation
    if aggregation is None:
        msg = f"task {task.task_id} names no aggregators"
        raise ValueError(msg)
    return make_histogram_task(
        leader_url=aggregation.leader_url,
        helper_url=aggregation.helper_url,
        window_s=task.window_s,
        min_batch_size=aggregation.min_batch_size,
        cells=task.cell_count + 1,
        info=TaskInfo(task.epsilon_fraction, bytes.fromhex(task.task_id), aggregation.token_issuer),
    )


def idle_cell(task: TaskPolicy) -> int:
    """Return the cell of a device that has nothing to report of a window: the one after those of the task's layout.

    Such a device reports all the same, so that the existence of a report says nothing of what happened on it.
    """
    return task.cell_count


def dap_time(task: TaskPolicy, window: int) -> int:
    """Return the time in DAP of a window of the task; DAP counts windows since 1970, the policy since the task began.

    Raises:
        ValueError: the window is negative.
    """
    if window < 0:
        msg = f"windows are numbered from 0, got {window}"
        raise ValueError(msg)
    return task.first_window_start_s // task.window_s + window
