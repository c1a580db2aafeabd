"""Says how long a process keeps a piece of work for itself, and how long a piece that failed is left alone."""

from typing import Final

__all__ = ["LEASE_S", "delay_after"]

LEASE_S: Final = 120
"""Seconds in which a process finishes a step of a job; after them another process may take it up."""

_FIRST_DELAY_S: Final = 1
_LONGEST_DELAY_S: Final = 300


def delay_after(attempts: int) -> int:
    """Return the seconds until a job is tried again that has failed so many times in a row."""
    return min(_LONGEST_DELAY_S, _FIRST_DELAY_S << min(attempts - 1, 10))
