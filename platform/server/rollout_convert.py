"""Converts rollouts to and from wire messages."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.platform.domain.collection import UNCOLLECTED_SHOWN, CollectionStatus
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.mechanism import choose_aggregation, mechanism_of, promise_of
from alcove.platform.domain.own_metrics import metric_of
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import (
    AnalysisRecord,
    GuardrailRecord,
    KeptAnalysis,
    PlanAction,
    RolloutPlan,
    Stage,
    StageDecisionKind,
)
from alcove.platform.domain.rollouts.search import RolloutNeed, RolloutOrder
from alcove.platform.server.own_guardrails import own_guardrail_from, own_guardrail_message
from alcove.platform.server.parameter_values import setting_messages
from alcove.platform.server.wire import to_message
from alcove.platform.services.rollouts.engine import RolloutSpec
from alcove.platform.stats import GuardKind, GuardMetric, Mechanism
from alcove.platform.store.audit import AuditEntry
from alcove.registry.policy import Aggregation

__all__ = [
    "collection_message",
    "ending_message",
    "kept_message",
    "metric_number",
    "need_from",
    "order_from",
    "plan_from",
    "rollout_message",
    "states_from",
    "update_spec",
]

_STATES: Final = {state: pb.RolloutState.Value(f"ROLLOUT_STATE_{state.name}") for state in RolloutState}
_ACTIONS: Final = {action: pb.Action.Value(f"ACTION_{action.name}") for action in PlanAction}
_METRICS: Final = {metric: pb.GuardMetric.Value(f"GUARD_METRIC_{metric.name}") for metric in GuardMetric}
_KINDS: Final = {kind: pb.GuardKind.Value(f"GUARD_KIND_{kind.name}") for kind in GuardKind}
_DECISIONS: Final = {kind: pb.StageDecision.Value(f"STAGE_DECISION_{kind.name}") for kind in StageDecisionKind}
_MECHANISMS: Final = {
    Mechanism.RANDOMIZED_RESPONSE: pb.MECHANISM_RANDOMIZED_RESPONSE,
    Mechanism.PRIO3: pb.MECHANISM_PRIO3,
}
_ACTIONS_FROM: Final = {int(number): action for action, number in _ACTIONS.items()}
_STATES_FROM: Final = {int(number): state for state, number in _STATES.items()}
_ORDERS_FROM: Final[dict[int, RolloutOrder]] = {pb.ROLLOUT_ORDER_UNSPECIFIED: RolloutOrder.OLDEST} | {
    int(pb.RolloutOrder.Value(f"ROLLOUT_ORDER_{order.name}")): order for order in RolloutOrder
}
_NEEDS_FROM: Final[dict[int, RolloutNeed | None]] = {pb.ROLLOUT_NEED_UNSPECIFIED: None} | {
    int(pb.RolloutNeed.Value(f"ROLLOUT_NEED_{need.name}")): need for need in RolloutNeed
}
_METRICS_FROM: Final = {int(number): metric for metric, number in _METRICS.items()}


def rollout_message(record: RolloutRecord) -> pb.Rollout:
    """Return the message of a rollout, without what became of its windows."""
    return to_message(
        pb.Rollout,
        record,
        state=_STATES[record.state],
        etag=str(record.revision),
        plan=_plan_message(record.plan),
        promise=promise_of(record.plan.epsilon, record.plan.aggregation),
        proposal=None if record.proposal is None else pb.Proposal(**vars(record.proposal)),
        analysis=None if record.analysis is None else _analysis_message(record.analysis),
        collection=None,
        ending=None,
        values=setting_messages(pb.Setting, record.values),
    )


def ending_message(entry: AuditEntry) -> pb.Ending:
    """Return the message of how a rollout ended, as the audit log has it."""
    return pb.Ending(principal=entry.principal, reason=str(entry.details.get("reason", "")), ended_at_s=entry.at_s)


def kept_message(kept: KeptAnalysis) -> pb.KeptAnalysis:
    """Return the message of an analysis that is kept."""
    analysis = _analysis_message(kept.analysis)
    return pb.KeptAnalysis(stage=kept.stage, share_basis_points=kept.share_basis_points, analysis=analysis)


def states_from(numbers: Iterable[int]) -> tuple[RolloutState, ...]:
    """Return the states that a request names.

    Raises:
        InvalidFieldError: one is unspecified or unknown.
    """
    names = " | ".join(f"ROLLOUT_STATE_{state.name}" for state in RolloutState)
    for number in (numbers := tuple(numbers)):
        if number not in _STATES_FROM:
            raise InvalidFieldError("states", names, number)
    return tuple(_STATES_FROM[number] for number in numbers)


def order_from(number: int) -> RolloutOrder:
    """Return the order that a request names.

    Raises:
        InvalidFieldError: it is unknown.
    """
    if number not in _ORDERS_FROM:
        raise InvalidFieldError("order", " | ".join(f"ROLLOUT_ORDER_{known.name}" for known in RolloutOrder), number)
    return _ORDERS_FROM[number]


def need_from(number: int) -> RolloutNeed | None:
    """Return the need that a request names; None: any.

    Raises:
        InvalidFieldError: it is unknown.
    """
    if number not in _NEEDS_FROM:
        raise InvalidFieldError("need", " | ".join(f"ROLLOUT_NEED_{known.name}" for known in RolloutNeed), number)
    return _NEEDS_FROM[number]


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


def plan_from(message: pb.Plan, aggregators: Aggregation | None) -> RolloutPlan:
    """Return the plan that a request means, defaults in the place of what it leaves open; nothing else is checked yet.

    Args:
        message: as received.
        aggregators: the server's.

    Raises:
        InvalidFieldError: an action, a metric or the mechanism is unknown.
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    mechanisms: dict[int, Mechanism | None] = {int(number): known for known, number in _MECHANISMS.items()}
    mechanisms[pb.MECHANISM_UNSPECIFIED] = None
    if message.mechanism not in mechanisms:
        names = " | ".join(f"MECHANISM_{known.name}" for known in _MECHANISMS)
        raise InvalidFieldError("plan.mechanism", names, message.mechanism)
    return RolloutPlan(
        stages=tuple(Stage(each.share_basis_points, each.minimum_s, each.minimum_cohort) for each in message.stages),
        guardrails=tuple(map(_guardrail_from, message.guardrails)),
        on_harm=_action_from("plan.on_harm", message.on_harm, PlanAction.HALT),
        on_timeout=_action_from("plan.on_timeout", message.on_timeout, PlanAction.HOLD),
        timeout_s=message.timeout_s,
        auto_advance_reason=message.auto_advance_reason,
        epsilon=message.epsilon,
        latency_edges_ms=tuple(message.latency_edges_ms),
        window_s=message.window_s,
        aggregation=choose_aggregation(mechanisms[message.mechanism], aggregators),
        expected_devices=message.expected_devices,
        horizon_windows=message.horizon_windows,
        is_open_ended=message.is_open_ended,
        signature_override_reason=message.signature_override_reason,
        own_guardrails=tuple(map(own_guardrail_from, message.own_guardrails)),
    )


def metric_number(metric: str) -> int:
    """Return the number of a guardrail's metric on the wire."""
    return int(_METRICS[GuardMetric(metric)])


def update_spec(spec: RolloutSpec, request: pb.UpdateRolloutRequest, aggregators: Aggregation | None) -> RolloutSpec:
    """Return a rollout with the fields that the request's mask names.

    Raises:
        InvalidFieldError: the mask is empty or names something else.
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    paths = list(request.update_mask.paths)
    fields = {field.name for field in pb.Plan.DESCRIPTOR.fields}
    known = ["audience", "plan", *(f"plan.{name}" for name in sorted(fields))]
    if not paths:
        raise InvalidFieldError("update_mask", f"at least one of {', '.join(known)}", "")
    plan, wanted = spec.plan, plan_from(request.plan, aggregators)
    for path in paths:
        if path not in known:
            raise InvalidFieldError("update_mask", f"some of {', '.join(known)}", path)
        if path == "plan":
            plan = wanted
        elif path.startswith("plan."):
            name = "aggregation" if path == "plan.mechanism" else path.removeprefix("plan.")
            plan = replace(plan, **{name: getattr(wanted, name)})
    return replace(spec, plan=plan, audience=request.audience if "audience" in paths else spec.audience)


def _plan_message(plan: RolloutPlan) -> pb.Plan:
    return to_message(
        pb.Plan,
        plan,
        stages=[pb.Stage(**vars(stage)) for stage in plan.stages],
        questions=[
            pb.Question(metrics=question.metrics, share_basis_points=question.share_basis_points)
            for question in plan.questions
        ],
        guardrails=[
            pb.Guardrail(
                metric=_METRICS[GuardMetric(each.metric)],
                margin=each.margin,
                quantile=each.quantile or 0.0,
                edge_ms=each.edge_ms or 0.0,
            )
            for each in plan.guardrails
        ],
        own_guardrails=[own_guardrail_message(pb.OwnGuardrail, each) for each in plan.own_guardrails],
        on_harm=_ACTIONS[plan.on_harm],
        on_timeout=_ACTIONS[plan.on_timeout],
        mechanism=_MECHANISMS[mechanism_of(plan.aggregation)],
    )


def _analysis_message(found: AnalysisRecord) -> pb.StageAnalysis:
    return pb.StageAnalysis(
        analyzed_at_s=found.analyzed_at_s,
        decision=_DECISIONS[found.decision],
        code=found.code,
        reason=found.reason,
        report_count=found.reports,
        devices=found.devices,
        verdicts=[
            pb.GuardVerdict(
                **{
                    **vars(verdict),
                    "metric": _METRICS[GuardMetric(verdict.metric)],
                    "kind": _KINDS[GuardKind(verdict.kind)],
                }
            )
            for verdict in found.verdicts
            if metric_of(verdict.metric) is None
        ],
        own_verdicts=[
            pb.OwnVerdict(**{**vars(verdict), "metric": metric, "kind": _KINDS[GuardKind(verdict.kind)]})
            for verdict in found.verdicts
            if (metric := metric_of(verdict.metric)) is not None
        ],
        stage_count=found.stages,
        pooled_report_count=found.pooled_reports,
        look_count=found.looks,
        next_look_at_s=found.next_look_at_s,
        horizon_at_s=found.horizon_at_s,
    )


def _guardrail_from(message: pb.Guardrail) -> GuardrailRecord:
    metric = _METRICS_FROM.get(message.metric)
    if metric is None:
        names = " | ".join(f"GUARD_METRIC_{known.name}" for known in GuardMetric)
        raise InvalidFieldError("plan.guardrails.metric", names, message.metric)
    return GuardrailRecord(metric, message.margin, message.quantile or None, message.edge_ms or None)


def _action_from(field: str, number: int, default: PlanAction) -> PlanAction:
    if number == pb.ACTION_UNSPECIFIED:
        return default
    if number not in _ACTIONS_FROM:
        raise InvalidFieldError(field, " | ".join(f"ACTION_{known.name}" for known in PlanAction), number)
    return _ACTIONS_FROM[number]
