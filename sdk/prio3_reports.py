"""Makes the report of one window for a task of two aggregators (Prio3 over DAP), after the device's own rules.

    cell of the window, or the idle one ─▶ [local_epsilon: randomized] ─▶ shared in two ─▶ each sealed to its aggregator

No state and no network: `reports.py` decides when a report is made, pays for it and sends it; simulations and tests
make reports of many devices by the same functions.

Invariants:
  P1  A task is carried out only if the app names its two aggregators, in these seats, and if the device's rules allow
      it: a batch of at least 100, a window of at least an hour, epsilon within the device's own cap of a day.
  P2  The same seed, cell and token give the same report id and the same shares.  Sealing them again to other keys
      is the same report to both aggregators: each takes an id once, and who has both sealings learns no more than from
      one (docs/decisions/0041).
  P3  A device that has nothing to report of a window shares the idle cell: both reports look alike.
"""

import hashlib
from collections.abc import Collection
from fractions import Fraction
from typing import Final

from alcove.privacy.dap.messages import Report
from alcove.privacy.dap.report_tokens import ReportToken
from alcove.privacy.dap.reports import Recipients, make_report
from alcove.privacy.dap.rules import TaskRules
from alcove.privacy.dap.task import DapTask
from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import DapTaskError
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy.dap import dap_time, idle_cell, make_dap_task
from alcove.registry.policy.task import TaskPolicy
from alcove.sdk.aggregators import AggregatorPair

__all__ = ["SeedEntropy", "check_task", "make_window_report"]

_EXPANSION: Final = b"alcove report randomness"


class SeedEntropy:
    """Expands one report's seed, so that the report can be sealed again after its aggregator took another key (P2).

    Args:
        seed: 32 unpredictable bytes, used for one report.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._calls = 0

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return the next bytes."""
        self._calls += 1
        return hashlib.shake_256(_EXPANSION + self._calls.to_bytes(4, "big") + self._seed).digest(size_bytes)


def check_task(task: TaskPolicy, trusted: Collection[AggregatorPair], max_epsilon: Fraction) -> DapTask:
    """Return the task of DAP that carries out a policy's task, if this device takes part in it (P1).

    Args:
        task: it names aggregators.
        trusted: pairs of aggregators that the app names.
        max_epsilon: the device's cap of a day.

    Raises:
        DapTaskError: the aggregators are not the app's, or a rule is broken.
        ParameterError: a term cannot be carried out.
    """
    aggregation = task.aggregation
    named = None if aggregation is None else (aggregation.leader_url, aggregation.helper_url)
    if named not in {(pair.leader_url, pair.helper_url) for pair in trusted}:
        raise DapTaskError(what="aggregators", bound="a pair that the app names (Client(aggregators=...))", value=named)
    dap_task = make_dap_task(task)
    TaskRules(max_epsilon=max_epsilon).check(dap_task)
    _make_mechanism(task)
    return dap_task


def make_window_report(
    task: TaskPolicy,
    dap_task: DapTask,
    window: int,
    cell: int | None,
    *,
    recipients: Recipients,
    entropy: Entropy,
    token: ReportToken | None = None,
    is_native: bool = True,
) -> Report:
    """Return a device's report of a window that is over.

    Args:
        task: the policy's task.
        dap_task: its form in DAP, `make_dap_task(task)`.
        window: number of the window, counted by the policy.
        cell: what happened, a cell of the task's layout; None: nothing did, which is the idle cell (P3).
        recipients: keys of both aggregators.
        entropy: source of all randomness but that of the sealing: randomization, id, shares.
        token: what the report is counted by, where the task asks for one.
        is_native: whether the native core shares; the bytes are the same.

    Raises:
        ParameterError: the cell is none of the task's, or `local_epsilon` is out of its bound.
        ValueError: the window is negative.
        HpkeError: a key is none.
    """
    shared = idle_cell(task) if cell is None else cell
    mechanism = _make_mechanism(task)
    if mechanism is not None:
        shared = mechanism.randomize(shared, entropy)
    time = dap_time(task, window)
    return make_report(
        dap_task,
        shared,
        time,
        recipients,
        entropy,
        extensions=() if token is None else token.extensions,
        helper_extensions=() if token is None else token.helper_extensions,
        is_native=is_native,
    )


def _make_mechanism(task: TaskPolicy) -> RandomizedResponse | None:
    """Return what randomizes a cell, the idle one included, before it is shared; None: nothing does.

    Raises:
        ParameterError: `local_epsilon` is out of its bound.
    """
    epsilon = None if task.aggregation is None else task.aggregation.local_epsilon_fraction
    return None if epsilon is None else RandomizedResponse(task.cell_count + 1, epsilon)
