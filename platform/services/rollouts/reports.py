"""Reads the reports of a rollout's stage; where they come from is behind `ReportSource`."""

from fractions import Fraction
from typing import Protocol

from alcove.platform.stats import Aggregate, aggregate_from_randomized_response
from alcove.platform.store.reports import cell_counts, window_count
from alcove.registry.policy import TaskPolicy
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["RandomizedReports", "ReportSource"]


class ReportSource(Protocol):
    """Source of a stage's counts."""

    async def read(self, session: AsyncSession, task: TaskPolicy) -> tuple[Aggregate, int]:
        """Return the counts of a task over all windows, and how many windows have any."""
        ...


class RandomizedReports:
    """Counts of randomized cells, as the ingress has added them up."""

    async def read(self, session: AsyncSession, task: TaskPolicy) -> tuple[Aggregate, int]:
        """Return the counts of a task over all windows, and how many windows have any.

        Raises:
            StatsError: the counts are more than statistics accept.
        """
        aggregate = aggregate_from_randomized_response(
            await cell_counts(session, task.task_id, task.cell_count),
            task.layout,
            epsilon=Fraction(task.epsilon),
        )
        return aggregate, await window_count(session, task.task_id)
