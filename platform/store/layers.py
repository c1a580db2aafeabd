"""Stores the layers of an app, and the share of its devices that is held out of every experiment."""

from alcove.platform.domain.errors import LayerExistsError, ResourceNotFoundError
from alcove.platform.domain.records import HoldoutRecord, LayerRecord
from alcove.platform.store.tables import HoldoutRow, LayerRow
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["add_layer", "find_holdout", "get_layer", "layers_of_app", "save_holdout"]


async def add_layer(session: AsyncSession, record: LayerRecord) -> None:
    """Write a new layer.

    Raises:
        LayerExistsError: the app has one of this name.
    """
    if await session.get(LayerRow, (record.app, record.name)) is not None:
        raise LayerExistsError(record.app, record.name)
    session.add(LayerRow(**vars(record)))
    await session.flush()


async def get_layer(session: AsyncSession, app: str, name: str) -> LayerRecord:
    """Return a layer.

    Raises:
        ResourceNotFoundError: the app has none of this name.
    """
    row = await session.get(LayerRow, (app, name))
    if row is None:
        raise ResourceNotFoundError("layer", f"{app}/{name}")
    return _layer(row)


async def layers_of_app(session: AsyncSession, app: str) -> list[LayerRecord]:
    """Return the layers of an app by name."""
    rows = await session.scalars(select(LayerRow).where(LayerRow.app == app).order_by(LayerRow.name))
    return [_layer(row) for row in rows]


async def find_holdout(session: AsyncSession, app: str) -> HoldoutRecord | None:
    """Return the holdout of an app; None where none was ever set."""
    row = await session.get(HoldoutRow, app)
    if row is None:
        return None
    return HoldoutRecord(row.app, row.salt, row.share_basis_points, row.revision, row.policy_serial)


async def save_holdout(session: AsyncSession, record: HoldoutRecord) -> None:
    """Write the holdout of an app."""
    await session.merge(HoldoutRow(**vars(record)))
    await session.flush()


def _layer(row: LayerRow) -> LayerRecord:
    return LayerRecord(row.app, row.name, row.salt, row.created_at_s)
