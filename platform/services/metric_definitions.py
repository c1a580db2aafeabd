"""Writes teams' own metrics: a changed definition is a new version, and what is to be used no more is deprecated."""

from dataclasses import replace

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError, MetricDeprecatedError
from alcove.platform.domain.field_validation import validate_field, validate_reason
from alcove.platform.domain.metric_definitions import MetricDefinition, MetricDeprecation, validate_metric
from alcove.platform.store.metric_definitions import (
    add_metric,
    add_metric_deprecation,
    count_metrics,
    find_metric_deprecation,
    get_metric,
    metric_versions,
)
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.limits import METRIC_VERSIONS_MAX
from alcove.registry.policy.metric import MetricName
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["create_metric", "deprecate_metric", "usable_metric"]


async def create_metric(uow: UnitOfWork, asked: MetricDefinition) -> MetricDefinition:
    """Write a metric, or the next version of one; a definition that changes nothing returns the newest as it is.

    Raises:
        InvalidFieldError: a field is out of its bounds, the kind is another than before, or there are as many metrics
            or versions as there may be.
        MetricDeprecatedError: the metric is to be used no more.
    """
    asked = validate_metric(asked)
    before = await metric_versions(uow.session, asked.feature, asked.name)
    await _validate_not_deprecated(uow.session, asked.feature, asked.name)
    if before and asked.says_the_same_as(before[-1]):
        return before[-1]
    if before and asked.kind is not before[-1].kind:
        bound = f"{before[-1].kind}, as before: apps record it so; another kind is another metric"
        raise InvalidFieldError("kind", bound, asked.kind)
    if not before and (count := await count_metrics(uow.session, asked.feature)) >= limits.METRICS_MAX:
        bound = f"at most {limits.METRICS_MAX} metrics of feature {asked.feature!r}"
        raise InvalidFieldError("name", bound, count + 1)
    if len(before) >= METRIC_VERSIONS_MAX:
        raise InvalidFieldError("name", f"at most {METRIC_VERSIONS_MAX} versions of a metric", len(before) + 1)
    version = len(before) + 1
    made = await add_metric(
        uow.session, replace(asked, version=version, created_by=uow.principal, created_at_s=uow.now_s)
    )
    await uow.audit(
        "create metric",
        f"{made.feature}/{made.name}",
        version=version,
        kind=str(made.kind),
        edges=list(made.edges),
        cap=made.cap,
        more_is_better=made.more_is_better,
        owner=made.owner,
        description=made.description,
    )
    return made


async def deprecate_metric(
    uow: UnitOfWork, *, feature: str, name: str, reason: str, successor: str
) -> tuple[MetricDefinition, MetricDeprecation]:
    """Let no plan name a metric from now on; what runs with it goes on.

    Deprecating it again changes nothing and returns how it was deprecated first.

    Raises:
        InvalidFieldError: the reason is empty or too long, or the metric would be its own successor.
        ResourceNotFoundError: there is no such metric, or no such successor.
        MetricDeprecatedError: the successor is deprecated itself.
    """
    reason = validate_reason("reason", reason)
    name = validate_field("name", MetricName, name)
    successor = validate_field("successor", MetricName, successor) if successor else ""
    if successor == name:
        raise InvalidFieldError("successor", "another metric", successor)
    newest = await get_metric(uow.session, feature, name)
    if successor:
        await usable_metric(uow.session, feature, successor)
    before = await find_metric_deprecation(uow.session, feature, name)
    if before is not None:
        return newest, before
    made = MetricDeprecation(feature, name, successor, reason, uow.principal, uow.now_s)
    await add_metric_deprecation(uow.session, made)
    await uow.audit("deprecate metric", f"{feature}/{name}", successor=successor or None, reason=reason)
    return newest, made


async def usable_metric(session: AsyncSession, feature: str, name: str, version: int = 0) -> MetricDefinition:
    """Return a version of a metric that a plan may name; 0: the newest.

    Raises:
        ResourceNotFoundError: there is none.
        MetricDeprecatedError: it is to be used no more.
    """
    found = await get_metric(session, feature, name, version)
    await _validate_not_deprecated(session, feature, name)
    return found


async def _validate_not_deprecated(session: AsyncSession, feature: str, name: str) -> None:
    deprecation = await find_metric_deprecation(session, feature, name)
    if deprecation is not None:
        raise MetricDeprecatedError(feature, name, deprecation.successor, deprecation.reason)
