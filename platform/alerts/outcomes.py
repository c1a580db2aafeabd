"""Defines what came of an attempt to send, and when the next one is."""

from dataclasses import dataclass
from typing import Final

from alcove.platform.domain.alerts.alert import one_line

__all__ = ["ATTEMPTS", "LONGEST_WAIT_S", "Outcome", "delay_after"]

ATTEMPTS: Final = 12  # the last one is about a day after the first: a receiver may be away for a night
_FIRST_WAIT_S: Final = 5
LONGEST_WAIT_S: Final = 6 * 3600


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt.

    Attributes:
        problem: why it failed, without anything of the URL but its host; "": it did not.
        is_final: whether another attempt is of no use.
        wait_s: seconds that the receiver asked us to wait; 0: it did not ask.
    """

    problem: str = ""
    is_final: bool = False
    wait_s: int = 0

    @classmethod
    def failure(cls, problem: object, *, is_final: bool = False, wait_s: int = 0) -> "Outcome":
        """Return that it failed."""
        return cls(one_line(problem, 300) or "it failed", is_final, wait_s)


def delay_after(attempts: int, jitter: float) -> int:
    """Return the seconds from a failed attempt to the next: five at first, four times as many each time, six hours.

    Args:
        attempts: how many there were, from 1.
        jitter: in [0, 1), by which up to half of the time is left out, so that not all come back at one moment.
    """
    whole = min(LONGEST_WAIT_S, _FIRST_WAIT_S << (2 * min(attempts - 1, 10)))
    return max(1, round(whole * (1 - jitter / 2)))
