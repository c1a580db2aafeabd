"""Which versions are published, by which team, and which one is an app's default?"""

import json

from alcove.platform.core.errors import NotFoundError
from alcove.platform.core.records import Default, Page, VariantRecord, VersionRecord
from alcove.platform.store.dialects import insert
from alcove.platform.store.tables import DefaultRow, FeatureRow, VersionRow
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "add_version",
    "defaults_of_app",
    "find_default",
    "find_version",
    "get_version",
    "list_versions",
    "remove_default",
    "set_default",
]


async def add_version(
    session: AsyncSession,
    *,
    feature: str,
    version: str,
    team: str,
    manifest_sha256: str,
    manifest: bytes,
    published_at_s: int,
) -> VersionRecord:
    """Write a version, and its feature when it is the first one; return it with its sequence number."""
    await session.execute(insert(session, FeatureRow).values(name=feature, team=team).on_conflict_do_nothing())
    row = VersionRow(
        feature=feature,
        version=version,
        manifest_sha256=manifest_sha256,
        manifest=manifest,
        published_at_s=published_at_s,
    )
    session.add(row)
    await session.flush()
    return _record(row, team)


async def find_version(session: AsyncSession, feature: str, version: str) -> VersionRecord | None:
    """Return the version, or None."""
    query = (
        select(VersionRow, FeatureRow.team)
        .join(FeatureRow, FeatureRow.name == VersionRow.feature)
        .where(VersionRow.feature == feature, VersionRow.version == version)
    )
    found = (await session.execute(query)).one_or_none()
    return None if found is None else _record(found[0], found[1])


async def get_version(session: AsyncSession, feature: str, version: str) -> VersionRecord:
    """Return the version.

    Raises:
        NotFoundError: it was never published.
    """
    record = await find_version(session, feature, version)
    if record is None:
        raise NotFoundError("version", f"{feature} {version}")
    return record


async def list_versions(session: AsyncSession, page: Page, feature: str | None = None) -> list[VersionRecord]:
    """Return versions in order of publication."""
    query = (
        select(VersionRow, FeatureRow.team)
        .join(FeatureRow, FeatureRow.name == VersionRow.feature)
        .where(VersionRow.sequence > page.after)
        .order_by(VersionRow.sequence)
        .limit(page.size)
    )
    if feature is not None:
        query = query.where(VersionRow.feature == feature)
    return [_record(row, team) for row, team in (await session.execute(query)).all()]


async def find_default(session: AsyncSession, app: str, feature: str) -> Default | None:
    """Return the default version of a feature in an app, or None while nothing was decided."""
    row = await session.get(DefaultRow, (app, feature))
    return None if row is None else Default(row.app, row.feature, row.version, row.manifest_sha256)


async def defaults_of_app(session: AsyncSession, app: str) -> list[Default]:
    """Return the default versions of an app, by feature name."""
    rows = await session.scalars(select(DefaultRow).where(DefaultRow.app == app).order_by(DefaultRow.feature))
    return [Default(row.app, row.feature, row.version, row.manifest_sha256) for row in rows]


async def set_default(session: AsyncSession, default: Default) -> None:
    """Make a version the default of its feature in its app."""
    await session.merge(
        DefaultRow(
            app=default.app, feature=default.feature, version=default.version, manifest_sha256=default.manifest_sha256
        )
    )
    await session.flush()


async def remove_default(session: AsyncSession, app: str, feature: str) -> None:
    """Leave a feature without a default version in an app."""
    await session.execute(delete(DefaultRow).where(DefaultRow.app == app, DefaultRow.feature == feature))


def _record(row: VersionRow, team: str) -> VersionRecord:
    variants = json.loads(row.manifest)["variants"]
    return VersionRecord(
        sequence=row.sequence,
        feature=row.feature,
        version=row.version,
        team=team,
        manifest_sha256=row.manifest_sha256,
        manifest=row.manifest,
        variants=tuple(
            VariantRecord(v["name"], v["engine"], v["sha256"], v["size_bytes"], v["memory_ceiling_bytes"])
            for v in variants
        ),
        published_at_s=row.published_at_s,
    )
