"""Which apps have, or ever had, a version on their devices?"""

from alcove.platform.core.records import VersionRecord
from alcove.platform.store.tables import DefaultRow, ExperimentRow, RolloutRow
from sqlalchemy import select, union
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["apps_using"]


async def apps_using(session: AsyncSession, version: VersionRecord) -> list[str]:
    """Return the apps that have a version as a default, or had it in a rollout or an experiment, by name.

    Every default came from a rollout or an experiment, so the three together miss no app that ever used the version.
    A draft counts too: too many apps do no harm.
    """
    digest, feature = version.manifest_sha256, version.feature
    query = union(
        select(DefaultRow.app).where(DefaultRow.feature == feature, DefaultRow.manifest_sha256 == digest),
        select(RolloutRow.app).where(RolloutRow.feature == feature, RolloutRow.manifest_sha256 == digest),
        # `arms` is JSON that holds the digests; a digest occurs in nothing else.
        select(ExperimentRow.app).where(ExperimentRow.feature == feature, ExperimentRow.arms.contains(digest)),
    )
    return sorted(await session.scalars(query))
