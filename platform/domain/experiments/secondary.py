"""Reads the secondary metrics of an experiment: named beforehand, compared beside the one that decides.  Pure.

Their p-values are always valid until the last planned analysis; that one compares them by a test that is read once, and
its answer is kept with it.  Nothing of it enters a decision.
"""

from collections.abc import Collection
from typing import Final, TypeAlias

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan, MetricRecord, SecondaryRecord
from alcove.platform.domain.experiments.analysis import ALPHA, planned_reports_of, read_estimates
from alcove.platform.domain.experiments.task import outcome_groups
from alcove.platform.domain.latency import validate_edge
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
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY

__all__ = ["analyze_secondary_at_horizon", "compare_secondary", "validate_secondary"]

Groups: TypeAlias = tuple[tuple[Outcome, ...], ...]
_ANSWERS: Final = ("refused", "accepted")


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
        if primary.edge_ms is not None:
            validate_edge("secondary.edge_ms", primary.edge_ms, record.latency_edges_ms)


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
    """Return the metric as statistics read it: of the outcomes that stand for their groups in the counts.

    A ratio without a denominator is a share of all that is counted.
    """
    if metric.kind not in tuple(PrimaryKind):
        raise InvalidFieldError("secondary.kind", " | ".join(PrimaryKind), metric.kind)
    kind = PrimaryKind(metric.kind)
    groups = outcome_groups(record)
    above, below = metric.numerator, metric.denominator
    if kind is PrimaryKind.ACCEPTED:
        kind, above, below = PrimaryKind.RATIO, ("accepted",), _ANSWERS
    if kind is not PrimaryKind.RATIO and not any(map(OUTCOMES_WITH_LATENCY.issuperset, groups)):
        raise InvalidFieldError("secondary", "of outcomes whose latency reports tell", metric.kind)
    try:
        return Primary(
            kind,
            metric.quantile,
            _groups_of(groups, "numerator", above),
            _groups_of(groups, "denominator", below)
            or tuple(group[0] for group in groups if kind is PrimaryKind.RATIO),
            metric.less_is_better,
            metric.edge_ms,
        )
    except ArgumentError as error:
        raise InvalidFieldError(f"secondary.{error.name}", error.bound, error.value) from None


def _groups_of(groups: Groups, field: str, names: Collection[str]) -> tuple[Outcome, ...]:
    """Return the first outcome of each group that some outcomes fill.

    Raises:
        InvalidFieldError: reports do not tell these outcomes from others.
    """
    spelled = [[outcome.name.lower() for outcome in group] for group in groups]
    asked = set(names)
    filled = [group[0] for group, own in zip(groups, spelled, strict=True) if asked.issuperset(own)]
    covered = {name for own in spelled if asked.issuperset(own) for name in own}
    if asked - covered:
        apart = "; ".join(" or ".join(own) for own in spelled)
        raise InvalidFieldError(f"secondary.{field}", f"of outcomes that reports tell apart: {apart}", names)
    return tuple(filled)


def _decides(plan: ExperimentPlan) -> MetricRecord:
    return MetricRecord(
        plan.primary, plan.quantile, plan.numerator, plan.denominator, plan.less_is_better, plan.edge_ms
    )
