"""Converts experiments and their results to and from wire messages."""

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import zip_longest

from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.domain import limits
from alcove.platform.domain.collection import UNCOLLECTED_SHOWN, CollectionStatus
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import BanditRecord, ExperimentPlan, InterimAnalysis, MetricRecord
from alcove.platform.domain.experiments.analysis import ExperimentResults
from alcove.platform.domain.experiments.search import ExperimentOrder
from alcove.platform.domain.mechanism import choose_aggregation, mechanism_of, promise_of
from alcove.platform.domain.records import ExperimentRecord, ExperimentState, SegmentRecord, StoredDecision
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.server.experiment_views import secondary_messages
from alcove.platform.server.own_guardrails import (
    own_guardrail_from,
    own_guardrail_message,
    own_metric_from,
    own_question_from,
    own_question_message,
)
from alcove.platform.server.parameter_values import setting_messages, values_from
from alcove.platform.server.wire import to_message
from alcove.platform.services.experiments.engine import ArmSpec, ExperimentSpec
from alcove.platform.stats import (
    Adjustment,
    ArmEstimate,
    DecisionKind,
    Difference,
    GuardKind,
    GuardMetric,
    Interval,
    Mechanism,
    PrimaryKind,
    SampleRatio,
)
from alcove.platform.stats.limits import SAMPLE_RATIO_ALPHA
from alcove.registry.policy import Aggregation, Outcome
from alcove.registry.policy.metric import MetricKind

__all__ = [
    "collection_message",
    "experiment_message",
    "experiment_spec",
    "order_from",
    "results_message",
    "states_from",
    "update_spec",
]

_EPSILON_DEFAULTS = {Mechanism.RANDOMIZED_RESPONSE: "2", Mechanism.PRIO3: "1"}

_STATES = {state: pb.ExperimentState.Value(f"EXPERIMENT_STATE_{state.name}") for state in ExperimentState}
_STATES_FROM: dict[int, ExperimentState] = {number: state for state, number in _STATES.items()}
_ORDERS_FROM: dict[int, ExperimentOrder] = {
    pb.ExperimentOrder.Value(f"EXPERIMENT_ORDER_{order.name}"): order for order in ExperimentOrder
}
_ORDERS_FROM[pb.EXPERIMENT_ORDER_UNSPECIFIED] = ExperimentOrder.OLDEST
_KINDS = {kind: pb.DecisionKind.Value(f"DECISION_KIND_{kind.name}") for kind in DecisionKind}
_PRIMARIES = {kind: pb.PrimaryKind.Value(f"PRIMARY_KIND_{kind.name}") for kind in PrimaryKind}
_OUTCOMES = {outcome.name.lower(): pb.Outcome.Value(f"OUTCOME_{outcome.name}") for outcome in Outcome}
_MECHANISMS = {
    Mechanism.RANDOMIZED_RESPONSE: pb.MECHANISM_RANDOMIZED_RESPONSE,
    Mechanism.PRIO3: pb.MECHANISM_PRIO3,
}
_METRICS = {metric: pb.GuardMetric.Value(f"GUARD_METRIC_{metric.name}") for metric in GuardMetric}
_VERDICTS = {kind: pb.GuardKind.Value(f"GUARD_KIND_{kind.name}") for kind in GuardKind}
_PLAN_FIELDS = (  # the others are the server's
    "mde",
    "base_rate",
    "expected_devices",
    "interim_analyses",
    "horizon_reports",
    "denominator_share",
    "base_distribution",
)
_PRIMARY_FIELDS = ("primary", "quantile", "numerator", "denominator", "less_is_better", "edge_ms", "own_primary")
_QUANTILE_DEFAULT = 0.95


def experiment_spec(request: pb.CreateExperimentRequest, aggregators: Aggregation | None) -> ExperimentSpec:
    """Return what a request asks for, defaults filled in.

    Args:
        request: as received.
        aggregators: the server's.

    Raises:
        InvalidFieldError: a metric or the mechanism is unknown.
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    plan = _plan_from(request, aggregators)
    return ExperimentSpec(
        app=request.app,
        feature=request.feature,
        arms=tuple(
            ArmSpec(arm.name, arm.version, arm.share_basis_points, values_from(arm.values)) for arm in request.arms
        ),
        epsilon=request.epsilon or _EPSILON_DEFAULTS[mechanism_of(plan.aggregation)],
        latency_edges_ms=tuple(request.latency_edges_ms),
        window_s=request.window_s or limits.WINDOW_S_DEFAULT,
        minimum_cohort=request.minimum_cohort or limits.MINIMUM_COHORT_DEFAULT,
        plan=plan,
        audience=request.audience,
        segment=_segment_from(request),
    )


def _segment_from(request: pb.CreateExperimentRequest) -> SegmentRecord | None:
    if not request.HasField("segment"):
        return None
    return SegmentRecord(request.segment.layer, request.segment.first, request.segment.count)


def update_spec(
    spec: ExperimentSpec, request: pb.UpdateExperimentRequest, aggregators: Aggregation | None
) -> ExperimentSpec:
    """Return an experiment with the fields that the request's mask names.

    Raises:
        InvalidFieldError: the mask is empty or names something else, or a metric or the mechanism is unknown.
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    terms = ("arms", "epsilon", "latency_edges_ms", "window_s", "minimum_cohort", "audience", "segment")
    known = [*terms, "primary", "guardrails", "pre_edges", "mechanism", "secondary", "own_guardrails", "own_questions"]
    known += ["bandit", "dimension", "plan"]
    known += [f"plan.{name}" for name in _PLAN_FIELDS]
    paths = list(request.update_mask.paths)
    if not paths:
        raise InvalidFieldError("update_mask", f"at least one of {', '.join(known)}", "")
    terms_of = pb.CreateExperimentRequest.DESCRIPTOR.fields_by_name
    asked = pb.CreateExperimentRequest(
        **{field.name: value for field, value in request.ListFields() if field.name in terms_of}
    )
    asked.app, asked.feature = spec.app, spec.feature
    wanted = experiment_spec(asked, aggregators)
    plan = spec.plan
    for path in paths:
        if path not in known:
            raise InvalidFieldError("update_mask", f"some of {', '.join(known)}", path)
        groups = {"primary": _PRIMARY_FIELDS, "plan": _PLAN_FIELDS, "mechanism": ("aggregation",)}
        names = groups.get(path, (path.removeprefix("plan."),))
        if path in terms:
            spec = replace(spec, **{path: getattr(wanted, path)})
        else:
            plan = replace(plan, **{name: getattr(wanted.plan, name) for name in names})
    return replace(spec, plan=plan)


def states_from(numbers: Iterable[int]) -> tuple[ExperimentState, ...]:
    """Return the states that a request names.

    Raises:
        InvalidFieldError: one is unspecified or unknown.
    """
    names = " | ".join(f"EXPERIMENT_STATE_{state.name}" for state in ExperimentState)
    for number in (numbers := tuple(numbers)):
        if number not in _STATES_FROM:
            raise InvalidFieldError("states", names, number)
    return tuple(_STATES_FROM[number] for number in numbers)


def order_from(number: int) -> ExperimentOrder:
    """Return the order that a request names.

    Raises:
        InvalidFieldError: it is unknown.
    """
    if number not in _ORDERS_FROM:
        names = " | ".join(f"EXPERIMENT_ORDER_{known.name}" for known in ExperimentOrder)
        raise InvalidFieldError("order", names, number)
    return _ORDERS_FROM[number]


def experiment_message(record: ExperimentRecord) -> pb.Experiment:
    """Return the message of an experiment."""
    plan = record.plan
    return to_message(
        pb.Experiment,
        record,
        arms=[to_message(pb.Arm, arm, values=setting_messages(pb.Setting, arm.values)) for arm in record.arms],
        state=_STATES[record.state],
        decision=None if record.decision is None else _decision(record.decision),
        etag=str(record.revision),
        primary=_metric_message(
            MetricRecord(
                plan.primary,
                plan.quantile,
                plan.numerator,
                plan.denominator,
                plan.less_is_better,
                plan.edge_ms,
                plan.own_primary,
            )
        ),
        guardrails=[
            pb.Guardrail(
                metric=_METRICS[GuardMetric(each.metric)],
                margin=each.margin,
                quantile=each.quantile or 0.0,
                edge_ms=each.edge_ms or 0.0,
            )
            for each in plan.guardrails
        ],
        plan=to_message(pb.Plan, plan),
        segment=None if record.segment is None else pb.Segment(**vars(record.segment)),
        interim_analyses=map(_interim_analysis, record.interim_analyses),
        pre_edges=plan.pre_edges,
        mechanism=_MECHANISMS[mechanism_of(plan.aggregation)],
        secondary=[_metric_message(metric) for metric in plan.secondary],
        own_guardrails=[own_guardrail_message(pb.OwnGuardrail, each) for each in plan.own_guardrails],
        own_questions=map(own_question_message, plan.own_questions),
        bandit=None if plan.bandit is None else to_message(pb.Bandit, plan.bandit),
        dimension=plan.dimension,
    )


def results_message(record: ExperimentRecord, results: ExperimentResults) -> pb.Results:
    """Return the message of an experiment's results."""
    comparison = results.comparison
    return pb.Results(
        report_count=comparison.reports,
        window_count=results.reports.windows,
        cell_counts=results.reports.counts,
        arms=[
            _arm(record, arm.name, arm.version, estimate)
            for arm, estimate in zip(record.arms, comparison.arms, strict=True)
        ],
        differences=[
            pb.ArmDifference(
                arm=pair.arm,
                accepted=_estimate(pair.value, pair.interval),
                lift=_estimate(pair.lift, pair.lift_interval),
            )
            for pair in comparison.differences
        ],
        decision=_decision(results.decision),
        alpha=comparison.alpha,
        primary=[
            pb.PrimaryDifference(
                arm=pair.arm,
                difference=_estimate(pair.value, pair.interval),
                lift=_estimate(pair.lift, pair.lift_interval),
                adjustment=_adjustment(before, adjustment),
            )
            for pair, before, adjustment in list(
                zip_longest(comparison.primary_pairs, comparison.pairs, comparison.adjustments)
            )[: len(record.arms) - 1]
        ],
        verdicts=[
            pb.GuardVerdict(
                arm=arm,
                guardrail=place,
                kind=_VERDICTS[verdict.kind],
                difference=pb.Estimate(value=verdict.difference, low=verdict.low, high=verdict.high),
                reason=verdict.reason,
            )
            for arm, of_arm in enumerate(results.verdicts, start=1)
            for place, verdict in enumerate(of_arm)
        ],
        pairs=[
            pb.PairDifference(
                arm=pair.arm,
                versus=pair.versus,
                difference=_estimate(pair.value, pair.interval),
                lift=_estimate(pair.lift, pair.lift_interval),
                p_value=p,
                noise_percent=pair.noise_percent,
            )
            for pair, p in zip(comparison.primary_pairs, comparison.p_values, strict=True)
        ],
        next_analysis_reports=results.next_analysis_reports or 0,
        promise=promise_of(record.epsilon, record.plan.aggregation),
        sample_ratio=_sample_ratio(comparison.sample_ratio),
    )


def _sample_ratio(found: SampleRatio) -> pb.SampleRatio:
    shares = zip(found.expected, found.observed, found.intervals, strict=True)
    return pb.SampleRatio(
        arms=[
            pb.ArmRatio(expected=expected, observed=_estimate(observed, interval), is_mismatch=arm in found.mismatched)
            for arm, (expected, observed, interval) in enumerate(shares)
        ],
        alpha=SAMPLE_RATIO_ALPHA,
    )


def collection_message(found: CollectionStatus) -> pb.Collection:
    """Return the message of what became of a task's windows."""
    return pb.Collection(
        collected_count=found.collected,
        waiting_count=found.waiting,
        missing_count=found.missing,
        uncollected=[pb.UncollectedWindow(**vars(window)) for window in found.uncollected[-UNCOLLECTED_SHOWN:]],
        next_at_s=found.next_at_s or 0,
        problem=found.problem,
    )


def _plan_from(request: pb.CreateExperimentRequest, aggregators: Aggregation | None) -> ExperimentPlan:
    primary = _metric_from("primary", request.primary)
    mechanisms: dict[int, Mechanism | None] = {int(number): known for known, number in _MECHANISMS.items()}
    mechanisms[pb.MECHANISM_UNSPECIFIED] = None
    if request.mechanism not in mechanisms:
        names = " | ".join(f"MECHANISM_{known.name}" for known in _MECHANISMS)
        raise InvalidFieldError("mechanism", names, request.mechanism)
    return ExperimentPlan(
        primary=primary.kind,
        quantile=primary.quantile,
        numerator=primary.numerator,
        denominator=primary.denominator,
        less_is_better=primary.less_is_better,
        edge_ms=primary.edge_ms,
        own_primary=primary.own,
        guardrails=tuple(map(_guardrail_from, request.guardrails)),
        mde=request.plan.mde,
        base_rate=request.plan.base_rate,
        expected_devices=request.plan.expected_devices,
        interim_analyses=request.plan.interim_analyses,
        horizon_reports=request.plan.horizon_reports,
        denominator_share=request.plan.denominator_share,
        base_distribution=tuple(request.plan.base_distribution),
        pre_edges=tuple(request.pre_edges),
        aggregation=choose_aggregation(mechanisms[request.mechanism], aggregators),
        secondary=tuple(_metric_from("secondary", metric) for metric in request.secondary),
        own_guardrails=tuple(map(own_guardrail_from, request.own_guardrails)),
        own_questions=tuple(map(own_question_from, request.own_questions)),
        bandit=_bandit_from(request),
        dimension=request.dimension,
    )


def _bandit_from(request: pb.CreateExperimentRequest) -> BanditRecord | None:
    if not request.HasField("bandit"):
        return None
    asked = request.bandit
    return BanditRecord(
        asked.min_share_basis_points or limits.BANDIT_MIN_SHARE_DEFAULT,
        asked.max_step_basis_points or limits.BANDIT_MAX_STEP_DEFAULT,
    )


def _metric_from(name: str, message: pb.Primary) -> MetricRecord:
    """Return a metric as asked for; `name` is that of the field."""
    kinds = {number: kind for kind, number in _PRIMARIES.items()} | {pb.PRIMARY_KIND_UNSPECIFIED: PrimaryKind.ACCEPTED}
    kind = kinds.get(message.kind)
    if kind is None:
        raise InvalidFieldError(
            f"{name}.kind", " | ".join(f"PRIMARY_KIND_{known.name}" for known in PrimaryKind), message.kind
        )
    own = None
    if kind is PrimaryKind.METRIC:
        own = own_metric_from(f"{name}.metric", message.metric, message.metric_version)
    for field in () if own is not None else ("metric", "metric_version"):
        if getattr(message, field):
            raise InvalidFieldError(f"{name}.{field}", f"absent for {kind}", getattr(message, field))
    return MetricRecord(
        kind,
        message.quantile or None,
        _outcomes_from(f"{name}.numerator", message.numerator),
        _outcomes_from(f"{name}.denominator", message.denominator),
        message.less_is_better,
        message.edge_ms or None,
        own,
    )


def _metric_message(metric: MetricRecord) -> pb.Primary:
    return pb.Primary(
        kind=_PRIMARIES[PrimaryKind(metric.kind)],
        quantile=metric.quantile or 0.0,
        numerator=[_OUTCOMES[name] for name in metric.numerator],
        denominator=[_OUTCOMES[name] for name in metric.denominator],
        less_is_better=metric.less_is_better,
        edge_ms=metric.edge_ms or 0.0,
        metric="" if metric.own is None else metric.own.name,
        metric_version=0 if metric.own is None else metric.own.version,
        is_preference=metric.own is not None and metric.own.kind is MetricKind.PREFERENCE,
    )


def _outcomes_from(name: str, numbers: Collection[int]) -> tuple[str, ...]:
    known: dict[int, str] = {number: outcome for outcome, number in _OUTCOMES.items()}
    for number in numbers:
        if number not in known:
            names = " | ".join(f"OUTCOME_{outcome.name}" for outcome in Outcome)
            raise InvalidFieldError(name, names, number)
    return tuple(known[number] for number in numbers)


def _guardrail_from(message: pb.Guardrail) -> GuardrailRecord:
    metric = {number: metric for metric, number in _METRICS.items()}.get(message.metric)
    if metric is None:
        names = " | ".join(f"GUARD_METRIC_{known.name}" for known in GuardMetric)
        raise InvalidFieldError("guardrails.metric", names, message.metric)
    default = _QUANTILE_DEFAULT if metric is GuardMetric.LATENCY and not message.edge_ms else None
    return GuardrailRecord(metric, message.margin, message.quantile or default, message.edge_ms or None)


def _arm(record: ExperimentRecord, name: str, version: str, estimate: ArmEstimate) -> pb.ArmResult:
    has_own = record.plan.own_primary is not None
    return pb.ArmResult(
        name=name,
        version=version,
        devices=estimate.devices,
        share=_estimate(estimate.share, estimate.share_interval),
        accepted=_estimate(estimate.accepted, estimate.accepted_interval),
        latency_ms=_estimate(estimate.latency_ms, estimate.latency_interval),
        median_latency_ms=_estimate(estimate.median_latency_ms, estimate.median_latency_interval),
        own_metric=_estimate(estimate.own_mean, estimate.own_interval) if has_own else None,
    )


def _adjustment(before: Difference, adjustment: Adjustment | None) -> pb.Adjustment | None:
    if adjustment is None:
        return None
    return pb.Adjustment(
        unadjusted=_estimate(before.value, before.interval),
        theta=adjustment.theta,
        variance_reduction_percent=adjustment.variance_reduction_percent,
    )


def _estimate(value: float | None, interval: Interval | None) -> pb.Estimate:
    ends = interval or (None, None)
    low, high = (end if end is None or math.isfinite(end) else None for end in ends)
    return pb.Estimate(value=value, low=low, high=high)


def _interim_analysis(analysis: InterimAnalysis) -> pb.InterimAnalysis:
    return pb.InterimAnalysis(
        report_count=analysis.reports,
        fraction=analysis.fraction,
        boundary=analysis.boundary,
        analyzed_at_s=analysis.analyzed_at_s,
        decision=_decision(analysis.decision),
        pairs=[
            to_message(pb.PairDifference, pair, difference=to_message(pb.Estimate, pair), lift=None, noise_percent=None)
            for pair in analysis.pairs
        ],
        secondary=secondary_messages(analysis.secondary),
    )


def _decision(decision: StoredDecision) -> pb.Decision:
    return pb.Decision(
        kind=_KINDS[DecisionKind(decision.kind)], winner=decision.winner, code=decision.code, reason=decision.reason
    )
