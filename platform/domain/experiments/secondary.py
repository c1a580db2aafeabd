"""Reads the secondary metrics of an experiment: named beforehand, compared beside the one that decides.  Pure.

Their p-values are always valid until the last planned analysis; that one compares them by a test that is read once, and
its answer is kept with it.  Nothing of it enters a decision.
"""

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan, MetricRecord, SecondaryRecord
from alcove.platform.domain.experiments.analysis import ALPHA, planned_reports_of_question, read_estimates
from alcove.platform.domain.experiments.questions import OUTCOMES, questions_of, reports_by_question
from alcove.platform.domain.experiments.task import outcome_groups
from alcove.platform.domain.latency import validate_edge
from alcove.platform.domain.own_metrics import OwnMetric
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import (
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
        InvalidFieldError: too many metrics, one of them twice, one that decides, or one that no question asks for.
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


def compare_secondary(record: ExperimentRecord, reports: Reports) -> tuple[SecondaryRecord, ...]:
    """Return each arm against the control in each secondary metric, by always-valid p-values.

    A metric is left out as long as nobody read the reports of its question.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    return _compare(record, reports, lambda name, _: AlwaysValid(planned_reports_of_question(record, name)))


def analyze_secondary_at_horizon(record: ExperimentRecord, reports: Reports) -> tuple[SecondaryRecord, ...]:
    """Return the same by a test that holds at the last planned analysis alone.

    When that is, the reports of the question that decides say; the others are read once, with what they have then.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    return _compare(record, reports, lambda _, collected: FixedHorizon(max(1, collected)))


def _compare(
    record: ExperimentRecord, reports: Reports, test_of: Callable[[str, int], SequentialTest]
) -> tuple[SecondaryRecord, ...]:
    answers = reports_by_question(record.plan, reports)
    aggregates = {name: aggregate_of(each) for name, each in answers.items()}
    places, estimates, tests = [], [], []
    for place, metric in enumerate(record.plan.secondary):
        name = OUTCOMES if metric.own is None else metric.own.name
        if name not in answers:
            continue
        places.append(place)
        tests.append(test_of(name, answers[name].reports))
        estimates.append(
            read_estimates(record, aggregates[name], answers[name].per_device, _primary_of(record, metric))
        )
    found = []
    for each in secondary_differences(estimates, tests, alpha=ALPHA):
        pair, place = each.difference, places[each.metric]
        low, high = pair.interval or (None, None)
        found.append(SecondaryRecord(place, pair.arm, pair.versus, pair.value, low, high, each.p, each.adjusted_p))
    return tuple(found)


def _primary_of(record: ExperimentRecord, metric: MetricRecord) -> Primary:
    """Return the metric as statistics read it: of the outcomes that stand for their groups in the counts.

    A ratio without a denominator is a share of all that is counted.

    Raises:
        InvalidFieldError: it is none, or no question of the experiment asks for it.
    """
    if metric.kind not in tuple(PrimaryKind):
        raise InvalidFieldError("secondary.kind", " | ".join(PrimaryKind), metric.kind)
    kind = PrimaryKind(metric.kind)
    questions = questions_of(record.plan)
    if metric.own is not None:
        return _own_primary_of(metric, metric.own, questions)
    if OUTCOMES not in questions:
        bound = "metrics that the experiment asks for; outcomes are asked where a guardrail reads them, such as error"
        raise InvalidFieldError("secondary", f"{bound} (--guard error:1%)", metric.kind)
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


def _own_primary_of(metric: MetricRecord, own: OwnMetric, questions: Collection[str]) -> Primary:
    if own.name not in questions:
        bound = "a metric that the experiment asks for; ask a part of the devices, in own_questions"
        raise InvalidFieldError("secondary.metric", f"{bound} (--question metric:{own.name}:20%)", own.name)
    try:
        return Primary(
            PrimaryKind(metric.kind), is_less_better=metric.less_is_better, own=own.bin_metric
        )  # fmt: skip
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
        plan.primary,
        plan.quantile,
        plan.numerator,
        plan.denominator,
        plan.less_is_better,
        plan.edge_ms,
        plan.own_primary,
    )
