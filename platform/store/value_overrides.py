"""Stores the values that operators have set over every rollout and experiment of a feature in an app."""

from alcove.platform.domain.value_overrides import ValueOverride
from alcove.platform.store.parameter_values import values_from_text, values_to_text
from alcove.platform.store.tables import ValueOverrideRow
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["overrides_of_feature", "save_override", "standing_overrides"]


async def standing_overrides(session: AsyncSession, app: str = "") -> list[ValueOverride]:
    """Return the overrides that stand in an app, or in all where none is named, by app and feature."""
    query = select(ValueOverrideRow).where(ValueOverrideRow.end_serial.is_(None))
    query = query.where(ValueOverrideRow.app == app) if app else query
    rows = await session.scalars(query.order_by(ValueOverrideRow.app, ValueOverrideRow.feature))
    return [_override(row) for row in rows]


async def overrides_of_feature(session: AsyncSession, app: str, feature: str) -> list[ValueOverride]:
    """Return every override that a feature of an app ever had, in the order of policies."""
    query = select(ValueOverrideRow).where(ValueOverrideRow.app == app, ValueOverrideRow.feature == feature)
    return [_override(row) for row in await session.scalars(query.order_by(ValueOverrideRow.first_serial))]


async def save_override(session: AsyncSession, override: ValueOverride) -> None:
    """Write an override, also one that begins in the same policy as another one of the feature did."""
    await session.merge(
        ValueOverrideRow(
            app=override.app,
            feature=override.feature,
            parameter_values=values_to_text(override.values),
            reason=override.reason,
            set_by=override.set_by,
            set_at_s=override.set_at_s,
            first_serial=override.first_serial,
            end_serial=override.end_serial,
        )
    )
    await session.flush()


def _override(row: ValueOverrideRow) -> ValueOverride:
    values = values_from_text(row.parameter_values)
    times = (row.set_at_s, row.first_serial, row.end_serial)
    return ValueOverride(row.app, row.feature, values, row.reason, row.set_by, *times)
