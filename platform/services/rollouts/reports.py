"""Reads the reports of a rollout's stage; where they come from is behind `ReportSource`."""

from typing import Protocol

from alcove.platform.domain.reports import aggregate_of
from alcove.platform.domain.rollouts.analysis import StageCounts
from alcove.platform.services.reports import read_reports
from alcove.registry.policy import TaskPolicy
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["ReportSource", "StoredReports"]


class ReportSource(Protocol):
    """Source of a stage's counts."""

    async def read(self, session: AsyncSession, task: TaskPolicy) -> StageCounts:
        """Return the counts of a stage's task over all windows."""
        ...


class StoredReports:
    """What the database has: randomized cells that the ingress added up, or sums that were collected."""

    async def read(self, session: AsyncSession, task: TaskPolicy) -> StageCounts:
        """Return the counts of a stage's task over all windows.

        Raises:
            StatsError: the counts are more than statistics accept.
        """
        reports = await read_reports(session, task)
        collected = None if task.aggregation is None else reports.windows
        return StageCounts(aggregate_of(reports), reports.per_device, collected)
