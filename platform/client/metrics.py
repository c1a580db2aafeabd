"""Makes the calls about teams' own metrics.  Mixed into `PlatformClient`."""

from collections.abc import Sequence
from typing import Annotated, Literal

from alcove.api.metric.v1 import metric_pb2 as pb
from alcove.api.metric.v1.metric_pb2_grpc import MetricServiceStub
from alcove.platform.client.calls import Caller, new_id
from alcove.platform.client.models import Value, value_of, without_prefix

__all__ = ["Metric", "MetricCalls", "MetricKindName"]

MetricKindName = Literal["count", "share", "value", "preference"]


class Metric(Value):
    """One version of a metric; `cap`, `edges` and `bin_values` in its own unit."""

    feature: str
    name: str
    version: int
    kind: Annotated[MetricKindName, without_prefix("METRIC_KIND_")]
    edges: tuple[float, ...] = ()
    cap: float
    more_is_better: bool
    owner: str
    description: str
    created_by: str
    created_at_s: int
    bin_values: tuple[float, ...]
    deprecated_at_s: int
    deprecated_by: str
    deprecation_reason: str
    successor: str


class MetricCalls:
    """Calls about metrics."""

    _metric: MetricServiceStub
    _call: Caller

    def create_metric(
        self,
        feature: str,
        name: str,
        kind: MetricKindName,
        *,
        owner: str,
        description: str,
        more_is_better: bool,
        edges: Sequence[float] = (),
        cap: float = 0.0,
        validate_only: bool = False,
        request_id: str | None = None,
    ) -> Metric:
        """Create a metric, or its next version where the definition differs; a `cap` of 0 follows from the edges."""
        request = pb.CreateMetricRequest(
            request_id=request_id or new_id(),
            feature=feature,
            name=name,
            kind=pb.MetricKind.Value(f"METRIC_KIND_{kind.upper()}"),
            edges=edges,
            cap=cap,
            more_is_better=more_is_better,
            owner=owner,
            description=description,
            validate_only=validate_only,
        )
        return value_of(Metric, self._call(self._metric.CreateMetric, request).metric)

    def deprecate_metric(
        self, feature: str, name: str, *, reason: str, successor: str = "", request_id: str | None = None
    ) -> Metric:
        """Let no plan name a metric from now on; return its newest version."""
        request = pb.DeprecateMetricRequest(
            request_id=request_id or new_id(), feature=feature, name=name, reason=reason, successor=successor
        )
        return value_of(Metric, self._call(self._metric.DeprecateMetric, request).metric)

    def metric(self, feature: str, name: str) -> list[Metric]:
        """Return all versions of a metric, newest first."""
        answer = self._call(self._metric.GetMetric, pb.GetMetricRequest(feature=feature, name=name))
        return [value_of(Metric, one) for one in answer.versions]

    def metrics(self, feature: str = "") -> list[Metric]:
        """Return the newest version of each metric, of one feature or of all."""
        metrics: list[Metric] = []
        token = ""
        while True:
            request = pb.ListMetricsRequest(feature=feature, page_token=token)
            answer: pb.ListMetricsResponse = self._call(self._metric.ListMetrics, request)
            metrics += [value_of(Metric, one) for one in answer.metrics]
            token = answer.next_page_token
            if not token:
                return metrics
