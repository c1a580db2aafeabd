"""Stores teams' own metrics: their versions, and which are deprecated.  Rows are only ever added."""

import json

from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.domain.metric_definitions import MetricDefinition, MetricDeprecation
from alcove.platform.domain.records import Page
from alcove.platform.store.metric_tables import MetricDefinitionRow, MetricDeprecationRow
from alcove.registry.policy.metric import MetricKind
from sqlalchemy import distinct, func, select
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = [
    "add_metric",
    "add_metric_deprecation",
    "count_metrics",
    "find_metric_deprecation",
    "get_metric",
    "list_metrics",
    "metric_versions",
]


async def add_metric(session: AsyncSession, definition: MetricDefinition) -> MetricDefinition:
    """Write a version of a metric and return it with its sequence number."""
    fields = {name: value for name, value in vars(definition).items() if name != "sequence"}
    row = MetricDefinitionRow(**fields | {"edges": json.dumps(definition.edges)})
    session.add(row)
    await session.flush()
    return _definition(row)


async def metric_versions(session: AsyncSession, feature: str, name: str) -> list[MetricDefinition]:
    """Return the versions of a metric, oldest first; none where there is no such metric."""
    query = select(MetricDefinitionRow).where(MetricDefinitionRow.feature == feature, MetricDefinitionRow.name == name)
    return [_definition(row) for row in await session.scalars(query.order_by(MetricDefinitionRow.version))]


async def get_metric(session: AsyncSession, feature: str, name: str, version: int = 0) -> MetricDefinition:
    """Return a version of a metric; 0: the newest.

    Raises:
        ResourceNotFoundError: there is none.
    """
    query = select(MetricDefinitionRow).where(MetricDefinitionRow.feature == feature, MetricDefinitionRow.name == name)
    if version:
        query = query.where(MetricDefinitionRow.version == version)
    row = await session.scalar(query.order_by(MetricDefinitionRow.version.desc()).limit(1))
    if row is None:
        raise ResourceNotFoundError("metric", f"{feature}/{name}" + (f" version {version}" if version else ""))
    return _definition(row)


async def count_metrics(session: AsyncSession, feature: str) -> int:
    """Return how many metrics a feature has, deprecated ones too."""
    query = select(func.count(distinct(MetricDefinitionRow.name))).where(MetricDefinitionRow.feature == feature)
    return int((await session.scalar(query)) or 0)


async def list_metrics(
    session: AsyncSession, page: Page, *, feature: str | None = None
) -> list[tuple[MetricDefinition, MetricDeprecation | None]]:
    """Return the newest version of each metric in order of its writing, and whether the metric is deprecated."""
    newest = select(func.max(MetricDefinitionRow.sequence)).group_by(
        MetricDefinitionRow.feature, MetricDefinitionRow.name
    )
    query = select(MetricDefinitionRow).where(
        MetricDefinitionRow.sequence > page.after, MetricDefinitionRow.sequence.in_(newest)
    )
    if feature is not None:
        query = query.where(MetricDefinitionRow.feature == feature)
    found = [
        _definition(row) for row in await session.scalars(query.order_by(MetricDefinitionRow.sequence).limit(page.size))
    ]
    return [(one, await find_metric_deprecation(session, one.feature, one.name)) for one in found]


async def find_metric_deprecation(session: AsyncSession, feature: str, name: str) -> MetricDeprecation | None:
    """Return how a metric was deprecated; None where it was not."""
    row = await session.get(MetricDeprecationRow, (feature, name))
    if row is None:
        return None
    return MetricDeprecation(
        row.feature, row.name, row.successor, row.reason, row.deprecated_by, row.deprecated_at_s
    )  # fmt: skip


async def add_metric_deprecation(session: AsyncSession, deprecation: MetricDeprecation) -> None:
    """Write that a metric is to be used no more."""
    session.add(MetricDeprecationRow(**vars(deprecation)))
    await session.flush()


def _definition(row: MetricDefinitionRow) -> MetricDefinition:
    return MetricDefinition(
        sequence=row.sequence,
        feature=row.feature,
        name=row.name,
        version=row.version,
        kind=MetricKind(row.kind),
        edges=tuple(json.loads(row.edges)),
        cap=row.cap,
        more_is_better=row.more_is_better,
        owner=row.owner,
        description=row.description,
        created_by=row.created_by,
        created_at_s=row.created_at_s,
    )
