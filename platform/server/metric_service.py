"""Implements MetricService: the metrics that teams define for their features."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from typing import Any

from alcove.api.metric.v1 import metric_pb2 as pb
from alcove.api.metric.v1 import metric_pb2_grpc as rpc
from alcove.platform.domain.errors import InvalidFieldError, ResourceNotFoundError
from alcove.platform.domain.field_validation import validate_field, validate_page
from alcove.platform.domain.metric_definitions import MetricDefinition, MetricDeprecation
from alcove.platform.domain.permissions import require_owner
from alcove.platform.domain.principal import current_principal
from alcove.platform.services import metric_definitions
from alcove.platform.services.mutations import Mutations
from alcove.platform.store.metric_definitions import find_metric_deprecation, list_metrics, metric_versions
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.registry.canonical import FeatureName
from alcove.registry.policy.metric import MetricKind, MetricName

__all__ = ["MetricService"]

_KINDS = {
    pb.METRIC_KIND_COUNT: MetricKind.COUNT,
    pb.METRIC_KIND_SHARE: MetricKind.SHARE,
    pb.METRIC_KIND_VALUE: MetricKind.VALUE,
    pb.METRIC_KIND_PREFERENCE: MetricKind.PREFERENCE,
}


class MetricService(rpc.MetricServiceServicer):
    """The metrics that teams define for their features."""

    def __init__(self, mutations: Mutations) -> None:
        self._mutations = mutations

    async def CreateMetric(self, request: pb.CreateMetricRequest, context: Any) -> pb.CreateMetricResponse:
        """Create a metric, or its next version."""
        asked = _definition_from(request)
        await self._require_owner(asked.feature, "create metrics")

        async def work(uow: UnitOfWork) -> pb.CreateMetricResponse:
            made = await metric_definitions.create_metric(uow, asked)
            return pb.CreateMetricResponse(metric=_message(made, None))

        return await self._mutations.run(request, pb.CreateMetricResponse, work)

    async def DeprecateMetric(self, request: pb.DeprecateMetricRequest, context: Any) -> pb.DeprecateMetricResponse:
        """Let no plan name a metric from now on."""
        feature = validate_field("feature", FeatureName, request.feature)
        name = validate_field("name", MetricName, request.name)
        await self._require_owner(feature, "deprecate metrics")

        async def work(uow: UnitOfWork) -> pb.DeprecateMetricResponse:
            found = await metric_definitions.deprecate_metric(
                uow, feature=feature, name=name, reason=request.reason, successor=request.successor
            )
            return pb.DeprecateMetricResponse(metric=_message(*found))

        return await self._mutations.run(request, pb.DeprecateMetricResponse, work)

    async def GetMetric(self, request: pb.GetMetricRequest, context: Any) -> pb.GetMetricResponse:
        """Return all versions of a metric."""
        feature = validate_field("feature", FeatureName, request.feature)
        name = validate_field("name", MetricName, request.name)
        async with self._mutations.store.read() as session:
            versions = await metric_versions(session, feature, name)
            deprecation = await find_metric_deprecation(session, feature, name)
        if not versions:
            raise ResourceNotFoundError("metric", f"{feature}/{name}")
        return pb.GetMetricResponse(versions=[_message(one, deprecation) for one in reversed(versions)])

    async def ListMetrics(self, request: pb.ListMetricsRequest, context: Any) -> pb.ListMetricsResponse:
        """List the newest version of each metric."""
        page = validate_page(request.page_size, request.page_token)
        async with self._mutations.store.read() as session:
            found = await list_metrics(session, page, feature=request.feature or None)
        token = str(found[-1][0].sequence) if len(found) == page.size else ""
        return pb.ListMetricsResponse(metrics=[_message(*one) for one in found], next_page_token=token)

    async def _require_owner(self, feature: str, action: str) -> None:
        """Let an operator, or a member of the feature's team, pass or not.

        Raises:
            ResourceNotFoundError: no team owns the feature.
            PermissionDeniedError: another team does.
        """
        team = await asyncio.to_thread(self._mutations.team_of, feature)
        if team is None:
            raise ResourceNotFoundError("feature that a team owns", feature)
        require_owner(current_principal(), team, action)


def _definition_from(request: pb.CreateMetricRequest) -> MetricDefinition:
    """Return what a request asks for.

    Raises:
        InvalidFieldError: the feature or the name is malformed, the kind is none, or which direction is better is not
            said.
    """
    if request.kind not in _KINDS:
        raise InvalidFieldError("kind", " | ".join(MetricKind), request.kind)
    if not request.HasField("more_is_better"):
        raise InvalidFieldError("more_is_better", "true or false: what decides or guards has to know", None)
    return MetricDefinition(
        sequence=0,
        feature=validate_field("feature", FeatureName, request.feature),
        name=validate_field("name", MetricName, request.name),
        version=0,
        kind=_KINDS[request.kind],
        edges=tuple(request.edges),
        cap=request.cap,
        more_is_better=request.more_is_better,
        owner=request.owner,
        description=request.description,
    )


def _message(definition: MetricDefinition, deprecation: MetricDeprecation | None) -> pb.Metric:
    message = pb.Metric(
        feature=definition.feature,
        name=definition.name,
        version=definition.version,
        kind=pb.MetricKind.Value(f"METRIC_KIND_{definition.kind.upper()}"),
        edges=definition.edges,
        cap=definition.cap,
        more_is_better=definition.more_is_better,
        owner=definition.owner,
        description=definition.description,
        created_by=definition.created_by,
        created_at_s=definition.created_at_s,
        bin_values=definition.bin_values,
    )
    if deprecation is not None:
        message.deprecated_at_s = deprecation.deprecated_at_s
        message.deprecated_by = deprecation.deprecated_by
        message.deprecation_reason = deprecation.reason
        message.successor = deprecation.successor
    return message
