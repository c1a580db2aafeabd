"""Finds the apps that have, or ever had, a version on their devices; counts rollouts and experiments."""

from alcove.platform.domain.records import ExperimentState, RolloutState
from alcove.platform.domain.rollout_records import StageDecisionKind
from alcove.platform.store.rollouts import live_rollouts
from alcove.platform.store.tables import DefaultRow, ExperimentRow, RolloutRow, VersionRow
from sqlalchemy import func, select, union
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["apps_using", "count_alarms", "experiments_by_state", "rollouts_by_state"]


async def apps_using(session: AsyncSession, feature: str, version: str) -> list[str]:
    """Return the apps that have a version as a default, or had it in a rollout or an experiment, by name.

    Every default came from a rollout or an experiment, so the three together miss no app that ever used the version.
    A draft counts too: too many apps do no harm.
    """
    digest = (
        select(VersionRow.manifest_sha256)
        .where(VersionRow.feature == feature, VersionRow.version == version)
        .scalar_subquery()
    )
    query = union(
        select(DefaultRow.app).where(DefaultRow.feature == feature, DefaultRow.manifest_sha256 == digest),
        select(RolloutRow.app).where(RolloutRow.feature == feature, RolloutRow.manifest_sha256 == digest),
        # `arms` is JSON that holds the digests; a digest occurs in nothing else.
        select(ExperimentRow.app).where(ExperimentRow.feature == feature, ExperimentRow.arms.contains(digest)),
    )
    return sorted(await session.scalars(query))


async def rollouts_by_state(session: AsyncSession) -> dict[str, int]:
    """Return how many rollouts are in each state; 0 in one that none is in."""
    rows = await session.execute(select(RolloutRow.state, func.count()).group_by(RolloutRow.state))
    return dict.fromkeys(RolloutState, 0) | {str(state): count for state, count in rows}


async def experiments_by_state(session: AsyncSession) -> dict[str, int]:
    """Return how many experiments are in each state; 0 in one that none is in."""
    rows = await session.execute(select(ExperimentRow.state, func.count()).group_by(ExperimentRow.state))
    return dict.fromkeys(ExperimentState, 0) | {str(state): count for state, count in rows}


async def count_alarms(session: AsyncSession) -> int:
    """Return how many rollouts on devices have reports that no devices can have sent, in their present stage."""
    analyses = [rollout.analysis for rollout in await live_rollouts(session)]
    return sum(analysis is not None and analysis.decision is StageDecisionKind.ALARM for analysis in analyses)
