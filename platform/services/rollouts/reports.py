"""Reads the reports of a rollout's stage; where they come from is behind `ReportSource`."""

from typing import Protocol

from alcove.platform.domain.reports import aggregate_of
from alcove.platform.services.reports import read_reports
from alcove.platform.stats import Aggregate
from alcove.registry.policy import TaskPolicy
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["ReportSource", "StoredReports"]


class ReportSource(Protocol):
    """Source of a stage's counts."""

    async def read(self, session: AsyncSession, task: TaskPolicy) -> tuple[Aggregate, int]:
        """Return the counts of a task over all windows, and how many of them one device can have sent."""
        ...


class StoredReports:
    """What the database has: randomized cells that the ingress added up, or sums that were collected."""

    async def read(self, session: AsyncSession, task: TaskPolicy) -> tuple[Aggregate, int]:
        """Return the counts of a task over all windows, and how many of them one device can have sent.

        Raises:
            StatsError: the counts are more than statistics accept.
        """
        reports = await read_reports(session, task)
        return aggregate_of(reports), reports.per_device
