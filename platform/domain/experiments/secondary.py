"""Reads the secondary metrics of an experiment: named beforehand, compared beside the one that decides.  Pure.

Their p-values are always valid until the last planned analysis; that one compares them by a test that is read once, and
its answer is kept with it.  Nothing of it enters a decision.
"""

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan, MetricRecord, SecondaryRecord
from alcove.platform.domain.experiments.analysis import ALPHA, planned_reports_of, read_estimates
from alcove.platform.domain.experiments.task import outcome_count
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    ArgumentError,
    FixedHorizon,
    Primary,
    PrimaryKind,
    SequentialTest,
    secondary_differences,
)
from alcove.registry.policy import Outcome

__all__ = ["analyze_secondary_at_horizon", "compare_secondary", "validate_secondary"]


def validate_secondary(record: ExperimentRecord) -> None:
    """Raise for secondary metrics that the experiment's reports cannot answer.

    Raises:
        InvalidFieldError: too many metrics, one of them twice, one that decides, or one of cells that are not counted.
    """
    metrics = record.plan.secondary
    if len(metrics) > limits.SECONDARY_MAX:
        raise InvalidFieldError("secondary", f"at most {limits.SECONDARY_MAX}", len(metrics))
    if len(set(metrics)) != len(metrics):
        raise InvalidFieldError("secondary", "each metric once", [each.kind for each in metrics])
    if _decides(record.plan) in metrics:
        raise InvalidFieldError("secondary", "other metrics than that which decides", record.plan.primary)
    for metric in metrics:
        primary = _primary_of(record, metric)
        if primary.is_latency and not record.latency_edges_ms:
            raise InvalidFieldError("latency_edges_ms", f"at least one edge for the secondary {metric.kind}", ())


def compare_secondary(
    record: ExperimentRecord, aggregate: Aggregate, reports_per_device: int
) -> tuple[SecondaryRecord, ...]:
    """Return each arm against the control in each secondary metric, by always-valid p-values.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    return _compare(record, aggregate, reports_per_device, AlwaysValid(planned_reports_of(record)))


def analyze_secondary_at_horizon(
    record: ExperimentRecord, aggregate: Aggregate, reports_per_device: int
) -> tuple[SecondaryRecord, ...]:
    """Return the same by a test that holds at the last planned analysis alone.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    return _compare(record, aggregate, reports_per_device, FixedHorizon(record.plan.planned_reports))


def _compare(
    record: ExperimentRecord, aggregate: Aggregate, reports_per_device: int, test: SequentialTest
) -> tuple[SecondaryRecord, ...]:
    estimates = [
        read_estimates(record, aggregate, reports_per_device, _primary_of(record, metric))
        for metric in record.plan.secondary
    ]
    found = []
    for each in secondary_differences(estimates, test, alpha=ALPHA):
        pair = each.difference
        low, high = pair.interval or (None, None)
        found.append(
            SecondaryRecord(each.metric, pair.arm, pair.versus, pair.value, low, high, each.p, each.adjusted_p)
        )
    return tuple(found)


def _primary_of(record: ExperimentRecord, metric: MetricRecord) -> Primary:
    """Return the metric as statistics read it; a ratio without a denominator is a share of all that is counted."""
    if metric.kind not in tuple(PrimaryKind):
        raise InvalidFieldError("secondary.kind", " | ".join(PrimaryKind), metric.kind)
    counted = tuple(Outcome)[: outcome_count(record)]
    known = {outcome.name.lower(): outcome for outcome in counted}
    for each in (*metric.numerator, *metric.denominator):
        if each not in known:
            raise InvalidFieldError("secondary", f"outcomes that reports count: {', '.join(known)}", each)
    kind = PrimaryKind(metric.kind)
    denominator = tuple(known[each] for each in metric.denominator)
    if kind is PrimaryKind.RATIO and not denominator:
        denominator = counted
    numerator = tuple(known[each] for each in metric.numerator)
    try:
        return Primary(kind, metric.quantile, numerator, denominator, metric.less_is_better)
    except ArgumentError as error:
        raise InvalidFieldError(f"secondary.{error.name}", error.bound, error.value) from None


def _decides(plan: ExperimentPlan) -> MetricRecord:
    return MetricRecord(plan.primary, plan.quantile, plan.numerator, plan.denominator, plan.less_is_better)
