"""Stores the default versions of apps."""

from alcove.platform.domain.records import Default
from alcove.platform.store.parameter_values import values_from_text, values_to_text
from alcove.platform.store.tables import DefaultRow
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["default_of", "defaults_of_app", "remove_default", "set_default"]


async def defaults_of_app(session: AsyncSession, app: str) -> list[Default]:
    """Return the default versions of an app, by feature name."""
    rows = await session.scalars(select(DefaultRow).where(DefaultRow.app == app).order_by(DefaultRow.feature))
    return [_default(row) for row in rows]


async def default_of(session: AsyncSession, app: str, feature: str) -> Default | None:
    """Return the default version of a feature in an app, or None."""
    row = await session.get(DefaultRow, (app, feature))
    return None if row is None else _default(row)


async def set_default(session: AsyncSession, default: Default) -> None:
    """Make a version the default of its feature in its app."""
    await session.merge(
        DefaultRow(
            app=default.app,
            feature=default.feature,
            version=default.version,
            manifest_sha256=default.manifest_sha256,
            parameter_values=values_to_text(default.values),
        )
    )
    await session.flush()


async def remove_default(session: AsyncSession, app: str, feature: str) -> None:
    """Leave a feature without a default version in an app."""
    await session.execute(delete(DefaultRow).where(DefaultRow.app == app, DefaultRow.feature == feature))


def _default(row: DefaultRow) -> Default:
    return Default(row.app, row.feature, row.version, row.manifest_sha256, values_from_text(row.parameter_values))
