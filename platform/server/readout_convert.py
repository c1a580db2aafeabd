"""Converts read-outs of a holdout to and from wire messages."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.policy.v1 import policy_pb2 as pb
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import validate_field
from alcove.platform.domain.mechanism import choose_aggregation, default_epsilon, mechanism_of, promise_of
from alcove.platform.domain.own_metrics import OwnMetric, metric_of
from alcove.platform.domain.readout_records import (
    ReadoutMetric,
    ReadoutPlan,
    ReadoutRecord,
    ReadoutResult,
    ReadoutState,
)
from alcove.platform.domain.readouts.analysis import metric_name
from alcove.platform.domain.readouts.task import schedule_of, task_of
from alcove.platform.server.wire import to_message
from alcove.platform.services.readouts.engine import ReadoutSpec
from alcove.platform.stats import Mechanism
from alcove.registry.policy import Aggregation
from alcove.registry.policy.metric import MetricName

__all__ = ["measured_plan", "readout_message", "readout_spec"]

_STATES = {state: pb.ReadoutState.Value(f"READOUT_STATE_{state.name}") for state in ReadoutState}
_MECHANISMS = {
    Mechanism.RANDOMIZED_RESPONSE: experiment_pb2.MECHANISM_RANDOMIZED_RESPONSE,
    Mechanism.PRIO3: experiment_pb2.MECHANISM_PRIO3,
}
_BUILT_IN = tuple(str(metric) for metric in ReadoutMetric if metric is not ReadoutMetric.OWN)


def readout_spec(request: pb.StartReadoutRequest, aggregators: Aggregation | None) -> ReadoutSpec:
    """Return what a request asks for.

    Raises:
        InvalidFieldError: the metric or the mechanism is unknown.
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    return ReadoutSpec(
        app=request.app,
        features=tuple(request.features),
        plan=measured_plan(request, request.metric_version, aggregators),
        until_s=request.until_s,
    )


class _Measurement(Protocol):
    """A request that says what is measured."""

    metric: str
    edge_ms: float
    epsilon: str
    window_s: int
    months: int

    @property
    def mechanism(self) -> "experiment_pb2.Mechanism.ValueType":
        """How reports become sums."""
        ...

    @property
    def latency_edges_ms(self) -> Sequence[float]:
        """Inner edges of the latency bins."""
        ...


def measured_plan(request: _Measurement, metric_version: int, aggregators: Aggregation | None) -> ReadoutPlan:
    """Return what a request measures, defaults filled in but for those of `fill_plan`.

    Args:
        request: to start a read-out, or to plan one.
        metric_version: of the own metric; 0: the newest.
        aggregators: the server's.

    Raises:
        InvalidFieldError: the metric or the mechanism is unknown.
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    asked = {number: mechanism for mechanism, number in _MECHANISMS.items()}
    if request.mechanism and request.mechanism not in asked:
        raise InvalidFieldError("mechanism", "RANDOMIZED_RESPONSE or PRIO3", request.mechanism)
    aggregation = choose_aggregation(asked.get(request.mechanism), aggregators)
    name = request.metric or str(ReadoutMetric.ACCEPTED)
    own = metric_of(name)
    if own is None and name not in _BUILT_IN:
        raise InvalidFieldError("metric", f"{', '.join(_BUILT_IN)} or metric:NAME", name)
    if own is None and metric_version:
        raise InvalidFieldError("metric_version", f"0 for {name}", metric_version)
    return ReadoutPlan(
        metric=ReadoutMetric.OWN if own is not None else ReadoutMetric(name),
        edge_ms=request.edge_ms,
        own=None if own is None else OwnMetric(validate_field("metric", MetricName, own), metric_version),
        latency_edges_ms=tuple(request.latency_edges_ms),
        epsilon=request.epsilon or default_epsilon(aggregation),
        window_s=request.window_s,
        months=request.months,
        aggregation=aggregation,
    )


def readout_message(record: ReadoutRecord) -> pb.Readout:
    """Return the message of a read-out."""
    plan = record.plan
    schedule = schedule_of(plan, record.until_s)
    return to_message(
        pb.Readout,
        record,
        kept=[pb.KeptVersion(feature=kept.feature, version=kept.version) for kept in record.kept],
        metric=metric_name(plan),
        edge_ms=plan.edge_ms,
        metric_version=0 if plan.own is None else plan.own.version,
        latency_edges_ms=plan.latency_edges_ms,
        epsilon=plan.epsilon,
        mechanism=_MECHANISMS[mechanism_of(plan.aggregation)],
        window_s=plan.window_s,
        months=plan.months,
        state=_STATES[record.state],
        measured_from_s=schedule.first_window_start_s,
        measured_until_s=schedule.end_s,
        result=None if record.result is None else _result(record.result),
        etag=str(record.revision),
        promise=promise_of(plan.epsilon, plan.aggregation),
        task_id=task_of(record).task_id,
        summary=_summary(record),
    )


def _result(result: ReadoutResult) -> pb.ReadoutResult:
    return pb.ReadoutResult(
        code=result.code,
        summary=result.summary,
        held_out=result.held_out,
        difference=experiment_pb2.Estimate(value=result.difference, low=result.low, high=result.high),
        p_value=result.p_value,
        lift=experiment_pb2.Estimate(value=result.lift, low=result.lift_low, high=result.lift_high),
        noise_percent=result.noise_percent,
        report_count=result.reports,
        months=result.months,
        analyzed_at_s=result.analyzed_at_s,
    )


def _summary(record: ReadoutRecord) -> str:
    if record.result is not None:
        return record.result.summary
    if record.state is ReadoutState.STOPPED:
        return f"It was stopped without a result: {record.end_reason}."
    schedule = schedule_of(record.plan, record.until_s)
    start, end, last = (
        f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M} UTC"
        for time_s in (schedule.first_window_start_s, schedule.end_s, record.until_s)
    )
    return (
        f"There is no result yet: {record.feature} is measured from {start} to {end}, and analyzed once, at {last};"
        " nothing before that decides."
    )
