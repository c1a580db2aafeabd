"""Notes which of the server's own works fail, and since when.

    works ──fails──▶ failing ──for ALERT_AFTER_S──▶ reported ──works──▶ recovered (said once)
                        └──works: nobody needs to hear of it

It is in memory: a server that starts again counts again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from alcove.platform.domain.alerts.alert import Alert
from alcove.platform.domain.alerts.conditions import alert_of_monitor
from alcove.platform.domain.errors import PlatformError
from alcove.registry.errors import RegistryError
from alcove.runtime.clock import Clock

__all__ = ["ALERT_AFTER_S", "Monitors", "Work"]

ALERT_AFTER_S: Final = 300  # seconds that something fails before people hear of it; a restarted peer is back by then


@dataclass
class _Failure:
    since_s: int
    problem: str
    is_reported: bool = False
    is_over: bool = False


@dataclass(frozen=True)
class Work:
    """A work that the server repeats.

    Attributes:
        name: in words with an article.
        every_s: seconds between two times.
        last_ok_s: when it last ended well, seconds since 1970-01-01 UTC; 0: not since the server started.
        problem: why it fails now; "": it does not.
    """

    name: str
    every_s: float
    last_ok_s: int
    problem: str


class Monitors:
    """What fails now.

    Args:
        clock: dates failures.
        after_s: seconds that something fails before it is alerted.

    Attributes:
        started_at_s: when it began to count, seconds since 1970-01-01 UTC.
    """

    def __init__(self, clock: Clock, *, after_s: int = ALERT_AFTER_S) -> None:
        self._clock = clock
        self._after_s = after_s
        self._failures: dict[str, _Failure] = {}
        self._works: dict[str, tuple[float, int]] = {}
        self.started_at_s = clock.now_s()

    def note(self, name: str, problem: str) -> None:
        """Note that a work fails, or with `problem` "" that it does not.

        Args:
            name: of the work, in words with an article.
            problem: why, without a secret.
        """
        failure = self._failures.get(name)
        if problem:
            if failure is None or failure.is_over:
                self._failures[name] = _Failure(self._clock.now_s(), problem)
            else:
                failure.problem = problem
        elif failure is not None:
            failure.is_over = True
            if not failure.is_reported:
                del self._failures[name]

    def reporter(self, name: str, every_s: float) -> Callable[[Exception | None], None]:
        """Return a function that notes what a work, repeated every so many seconds, raised; None: nothing."""
        self._works[name] = (every_s, 0)

        def report(error: Exception | None) -> None:
            self.note(name, _words(error))
            if error is None:
                self._works[name] = (every_s, self._clock.now_s())

        return report

    def list_works(self) -> list[Work]:
        """Return the works that the server repeats, in the order in which they were begun."""
        return [
            Work(name, every_s, last_ok_s, self.find_problem(name))
            for name, (every_s, last_ok_s) in self._works.items()
        ]

    def list_others(self) -> dict[str, str]:
        """Return whatever else fails now, such as the analysis of one rollout: why, by name."""
        failing = {name: self.find_problem(name) for name in self._failures if name not in self._works}
        return {name: problem for name, problem in failing.items() if problem}

    def find_problem(self, name: str) -> str:
        """Return why something fails now; "": it does not."""
        failure = self._failures.get(name)
        return "" if failure is None or failure.is_over else failure.problem

    def find_alerts(self, source: str) -> dict[str, Alert]:
        """Return what people have not heard of yet, by name: to be given to `mark` once it is kept."""
        now_s = self._clock.now_s()
        found = {}
        for name, failure in self._failures.items():
            is_due = failure.is_over or (not failure.is_reported and now_s - failure.since_s >= self._after_s)
            if is_due:
                problem = "" if failure.is_over else failure.problem
                found[name] = alert_of_monitor(source, name, since_s=failure.since_s, now_s=now_s, problem=problem)
        return found

    def mark(self, name: str) -> None:
        """Note that people hear of a work's failure, or of its end."""
        failure = self._failures.get(name)
        if failure is None:
            return
        if failure.is_over:
            del self._failures[name]
        else:
            failure.is_reported = True


def _words(error: Exception | None) -> str:
    """Return an error in words: our own ones name no secret, of others the kind is enough."""
    if error is None:
        return ""
    is_ours = isinstance(error, PlatformError | RegistryError)
    return str(error) if is_ours else type(error).__name__
