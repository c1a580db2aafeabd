"""Says how long a process keeps a piece of work for itself, and how long a piece that failed is left alone."""

from typing import Final

from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import AggregationJobRow, CollectionJobRow
from sqlalchemy import ColumnElement, or_, update
from sqlalchemy.orm import InstrumentedAttribute

__all__ = ["LEASE_S", "delay_after", "end_leases", "is_due"]

LEASE_S: Final = 120
"""Seconds in which a process finishes a step of a job; after them another process may take it up."""

_FIRST_DELAY_S: Final = 1
_LONGEST_DELAY_S: Final = 300
"""Nothing here waits for longer."""


def is_due(until_s: InstrumentedAttribute[int], now_s: int) -> ColumnElement[bool]:
    """Return the condition that a wait is over; one longer than any was written by a clock that was ahead."""
    return or_(until_s <= now_s, until_s > now_s + _LONGEST_DELAY_S)


def delay_after(attempts: int) -> int:
    """Return the seconds until a job is tried again that has failed so many times in a row."""
    return min(_LONGEST_DELAY_S, _FIRST_DELAY_S << min(attempts - 1, 10))


async def end_leases(database: AggregatorDatabase) -> None:
    """Let all jobs be taken up at once, those too that a process had leased which was killed.

    For the start of the one process of a database; beside another one a job would be worked on twice, which adds
    nothing twice but costs time.
    """
    async with database.write() as session:
        for table in (AggregationJobRow, CollectionJobRow):
            await session.execute(update(table).values(leased_until_s=0))
