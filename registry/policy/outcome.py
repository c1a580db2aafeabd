"""Numbers the outcomes of a prediction that a report may name; frozen, because running tasks count by them."""

from enum import IntEnum

__all__ = ["Outcome"]


class Outcome(IntEnum):
    """One outcome; a task counts the first `outcome_count` of them."""

    REFUSED = 0
    """The user did not keep the answer."""
    ACCEPTED = 1
    """The user kept the answer."""
    ERROR = 2
    """The prediction answered with an error; counted in latency bin 0."""
    FALLBACK = 3
    """The device left the version of its arm because it crashed here; counted in latency bin 0."""
