"""Numbers the outcomes of a prediction that a report may name; frozen, because running tasks count by them."""

from enum import IntEnum
from typing import Final

__all__ = ["OUTCOMES_WITH_LATENCY", "Outcome"]


class Outcome(IntEnum):
    """One outcome; a task says which of them it counts, and which as one (`TaskPolicy.outcome_groups`)."""

    REFUSED = 0
    """The user did not keep the answer."""
    ACCEPTED = 1
    """The user kept the answer."""
    ERROR = 2
    """The prediction answered with an error; it has no latency."""
    FALLBACK = 3
    """The device left the version of its arm because it crashed here; it has no latency."""
    ANSWERED = 4
    """The version answered, and nothing else was noted in the window: any other outcome takes its place."""


OUTCOMES_WITH_LATENCY: Final = frozenset({Outcome.REFUSED, Outcome.ACCEPTED, Outcome.ANSWERED})
"""Outcomes that carry the latency of an answer."""
