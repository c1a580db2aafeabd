"""Simulates the devices of an app: which of them report in a window, and how many have each true cell.

A device is a bucket, computed from a secret of its own by the function that devices use, and the windows in which it
has reported during the last thirty days: the ledger's caps hold here too.  Everything else about it is drawn again.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from alcove.platform.domain.rollouts.task import CONTROL, TREATMENT
from alcove.privacy.schedule import WIDEST
from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy import RolloutPolicy, TaskPolicy, bucket, rollout_ranges
from alcove.registry.policy.assignment import SECRET_BYTES
from numpy.typing import NDArray

__all__ = ["Fleet", "buckets_of"]


def buckets_of(devices: int, salt: str, rng: np.random.Generator) -> NDArray[np.uint16]:
    """Return the bucket of each device: a secret is drawn, and hashed as devices do."""
    secrets = rng.bytes(devices * SECRET_BYTES)
    places = range(0, len(secrets), SECRET_BYTES)
    return np.fromiter((bucket(secrets[at : at + SECRET_BYTES], salt) for at in places), np.uint16, devices)


class Fleet:
    """The devices of an app.

    Args:
        buckets: of each, in [0, 10 000).
        epsilon: what one report spends.
        window_s: seconds of a window.
        rng: of everything random.
        spent: what each device has spent on other tasks when the first window begins; it comes back after 30 days.
        may_use_reserve: the reports are a guardrail's, as a rollout's are. The app allows what a report costs.
    """

    def __init__(
        self,
        buckets: NDArray[np.uint16],
        epsilon: Fraction,
        window_s: int,
        rng: np.random.Generator,
        *,
        spent: Fraction = Fraction(0),
        may_use_reserve: bool = True,
    ) -> None:
        caps = WIDEST.caps(may_use_reserve=may_use_reserve)
        self._buckets = buckets
        self._rng = rng
        longest_s = max(cap.length_s for cap in caps)
        self._until = max(1, longest_s // window_s)  # windows in which that is missing
        most = min(cap.most for cap in caps if cap.length_s == longest_s)
        self._most_before = int(max(most - spent, Fraction(0)) / epsilon)
        self._window = 0
        self._caps = [
            (max(1, cap.length_s // window_s), max(int(cap.most / epsilon), int(epsilon <= cap.most_of_one)))
            for cap in caps
        ]
        self._reported: list[NDArray[np.bool_]] = []  # by window, the newest last
        self._spent = [np.zeros(len(buckets), np.uint16) for _ in self._caps]  # reports within each cap's span
        self.total = np.zeros(len(buckets), np.uint32)
        self._task_buckets: NDArray[np.uint16] | None = None  # that draw the task of each, where there are several

    def report(
        self, policy: RolloutPolicy, chances: Sequence[Sequence[NDArray[np.float64]]], active: float
    ) -> list[NDArray[np.int64]]:
        """Return of each task how many devices have each true cell in this window, int64 [cells of the task].

        Args:
            policy: the rollout as the app's policy has it, with tasks.
            chances: of each task and arm, the probability of each of its cells.
            active: share of the devices that report, if their budget lets them.
        """
        may = self._may_report()
        if active < 1:
            may &= self._rng.random(len(may), dtype=np.float32) < active
        found = [np.zeros((task.arm_count, task.layout.arm_cell_count), np.int64) for task in policy.tasks]
        reported = np.zeros(len(may), bool)
        for arm, members in zip((CONTROL, TREATMENT), rollout_ranges(policy), strict=True):
            chosen = may & (self._buckets >= members.start) & (self._buckets < members.stop)
            reported |= chosen
            for counts, of_task, asked in zip(found, chances, self._members(policy.tasks), strict=True):
                edges = np.cumsum(of_task[arm])[:-1].astype(np.float32)
                drawn = self._rng.random(int((chosen & asked).sum()), dtype=np.float32)
                cells = np.searchsorted(edges, drawn, side="right")
                counts[arm] = np.bincount(cells, minlength=counts[arm].size)
        self._debit(reported)
        return [counts.ravel() for counts in found]

    def choose(self, members: NDArray[np.bool_], active: float) -> NDArray[np.bool_]:
        """Return which of some devices report in this window, as far as their budgets let them; they pay for it.

        Args:
            members: which devices would.
            active: share of the devices that report, if their budget lets them.
        """
        chosen = self._may_report() & members
        if active < 1:
            chosen &= self._rng.random(len(chosen), dtype=np.float32) < active
        self._debit(chosen)
        return chosen

    def _members(self, tasks: Sequence[TaskPolicy]) -> list[NDArray[np.bool_]]:
        """Return of each task which devices report it; a device stays with the question that was drawn for it."""
        if len(tasks) == 1:
            return [np.ones(len(self._buckets), bool)]
        if self._task_buckets is None:
            self._task_buckets = self._rng.integers(0, POLICY_BUCKETS, len(self._buckets)).astype(np.uint16)
        ends = np.cumsum([task.share_basis_points for task in tasks])
        places = np.searchsorted(ends, self._task_buckets, side="right")
        return [places == place for place in range(len(tasks))]

    def _may_report(self) -> NDArray[np.bool_]:
        may = np.ones(len(self._buckets), bool)
        for (_, most), spent in zip(self._caps, self._spent, strict=True):
            may &= spent < most
        if self._window < self._until:
            may &= self.total < self._most_before
        return may

    def _debit(self, reported: NDArray[np.bool_]) -> None:
        self.total += reported
        self._window += 1
        self._reported.append(reported)
        for (windows, _), spent in zip(self._caps, self._spent, strict=True):
            np.add(spent, reported, out=spent)
            if len(self._reported) >= windows:
                np.subtract(spent, self._reported[-windows], out=spent)
        longest = max(windows for windows, _ in self._caps)
        del self._reported[:-longest]
