"""Says which windows of a task by Prio3 are to be collected, and tells people what became of each.  Pure.

under way ─▶ over, reports come in ─▶ asked for ─────────────▶ collected
             (the next window)             │ again and again
                                           └ for COLLECT_FOR_S ─▶ missing, with the last reason
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from alcove.platform.domain.limits import COLLECT_AGAIN_S, COLLECT_FOR_S
from alcove.registry.policy import TaskPolicy

__all__ = [
    "UNCOLLECTED_SHOWN",
    "Announcement",
    "CollectedTask",
    "CollectionStatus",
    "UncollectedWindow",
    "WindowRequest",
    "is_due",
]

NEVER_ASKED: Final = "it was not asked for yet"
UNCOLLECTED_SHOWN: Final = 20
"""Windows of one task that people are shown, the newest; hourly ones are hundreds in a fortnight."""


def is_due(not_before_s: int, now_s: int) -> bool:
    """Return whether a wait is over; one longer than any was written by a clock that was ahead."""
    return not now_s < not_before_s <= now_s + COLLECT_AGAIN_S[1]


@dataclass(frozen=True)
class WindowRequest:
    """What came of asking for a window.

    Attributes:
        attempts: how often it was asked for.
        not_before_s: when it may be asked for again, seconds since 1970.
        problem: why there was no release at last; "": it was not answered.
    """

    attempts: int
    not_before_s: int
    problem: str


@dataclass(frozen=True)
class Announcement:
    """What came of announcing a task to the leader.

    Attributes:
        not_before_s: when it is announced again, seconds since 1970.
        problem: why the leader takes no part; "": it does.
    """

    not_before_s: int
    problem: str


@dataclass(frozen=True)
class UncollectedWindow:
    """A window that could be collected and was not.

    Attributes:
        window: its number.
        start_s: when it began, seconds since 1970.
        is_missing: it is not asked for any more.
        reason: why there is no release.
    """

    window: int
    start_s: int
    is_missing: bool
    reason: str


@dataclass(frozen=True)
class CollectionStatus:
    """What became of the windows of a task.

    Attributes:
        collected: how many were collected.
        uncollected: those that should have been by now, in order.
        next_at_s: when the next window is asked for, seconds since 1970; None: there is none.
        problem: why the aggregators take no part in the task; "": they do, or were not asked yet.
    """

    collected: int
    uncollected: tuple[UncollectedWindow, ...]
    next_at_s: int | None
    problem: str

    @property
    def waiting(self) -> int:
        """How many windows are still asked for."""
        return len(self.uncollected) - self.missing

    @property
    def missing(self) -> int:
        """How many windows were given up."""
        return sum(window.is_missing for window in self.uncollected)


@dataclass(frozen=True)
class CollectedTask:
    """A task by Prio3, and when devices were told to make no more reports for it.

    Attributes:
        task: with aggregators.
        ended_at_s: seconds since 1970; None: it goes on.
    """

    task: TaskPolicy
    ended_at_s: int | None = None

    def collects_at_s(self, window: int) -> int:
        """Return when a window is asked for: reports of a window come in all through the next one."""
        return self.task.first_window_start_s + (window + 2) * self.task.window_s

    def windows(self, now_s: int) -> range:
        """Return the windows that could be collected by now, the missing ones among them."""
        count = (now_s - self.task.first_window_start_s) // self.task.window_s - 1
        most = self._most()
        return range(max(0, count if most is None else min(count, most)))

    def open_windows(self, now_s: int, collected: Collection[int], requests: Mapping[int, WindowRequest]) -> list[int]:
        """Return the windows that are to be asked for now.

        Args:
            now_s: seconds since 1970.
            collected: windows that were.
            requests: what came of asking for windows.
        """
        return [
            window
            for window in self.windows(now_s)
            if window not in collected
            and not self._is_missing(window, now_s)
            and (window not in requests or is_due(requests[window].not_before_s, now_s))
        ]

    def describe(
        self,
        now_s: int,
        collected: Collection[int],
        requests: Mapping[int, WindowRequest],
        announcement: Announcement | None,
    ) -> CollectionStatus:
        """Return what became of the task's windows; the arguments are those of `open_windows`."""
        problem = "" if announcement is None else announcement.problem
        windows = self.windows(now_s)
        uncollected = [window for window in windows if window not in collected]
        following, most = len(windows), self._most()
        return CollectionStatus(
            len(collected),
            tuple(
                UncollectedWindow(
                    window,
                    self.task.first_window_start_s + window * self.task.window_s,
                    self._is_missing(window, now_s),
                    (requests[window].problem if window in requests else "") or problem or NEVER_ASKED,
                )
                for window in uncollected
            ),
            self.collects_at_s(following) if most is None or following < most else None,
            problem,
        )

    def _is_missing(self, window: int, now_s: int) -> bool:
        return now_s >= self.collects_at_s(window) + COLLECT_FOR_S

    def _most(self) -> int | None:
        """Return how many windows devices make reports for; None: there is no end."""
        if self.ended_at_s is None:
            return None
        last = self.task.window_at(self.ended_at_s)
        return 0 if last is None else last + 1
