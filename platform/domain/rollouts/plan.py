"""Validates a rollout's plan when it is written: what could not work later is refused, naming the field."""

import itertools
import math
from dataclasses import replace

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import fields_named, validate_epsilon
from alcove.platform.domain.latency import validate_edge, validate_resolution
from alcove.platform.domain.mechanism import default_epsilon, largest_epsilon
from alcove.platform.domain.own_metrics import validate_own_guardrails
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import GuardrailRecord, PlanAction, RolloutPlan, Stage
from alcove.platform.domain.rollouts.questions import choose_questions
from alcove.platform.domain.rollouts.task import tasks_of
from alcove.platform.stats import GuardMetric
from alcove.registry.limits import POLICY_BUCKETS, WINDOW_MIN_S

__all__ = ["DEFAULT_QUANTILE", "validate_plan", "validate_update"]

DEFAULT_QUANTILE = 0.95  # of latency: what most people notice is the slow answers
_ON_HARM = (PlanAction.PAUSE, PlanAction.ROLL_BACK, PlanAction.HALT)
_ON_TIMEOUT = (PlanAction.HOLD, PlanAction.PAUSE, PlanAction.ROLL_BACK)


def validate_plan(plan: RolloutPlan) -> RolloutPlan:
    """Return the plan with its defaults in place, and the questions that its devices are asked.

    Raises:
        InvalidFieldError: a field is out of its bounds, or fields contradict each other.
    """
    _validate_stages(plan.stages)
    if plan.guardrails and not plan.stages:
        raise InvalidFieldError(
            "plan.guardrails", "none without stages, where nothing is watched", len(plan.guardrails)
        )
    if len(plan.guardrails) > limits.GUARDRAILS_MAX:
        raise InvalidFieldError("plan.guardrails", f"at most {limits.GUARDRAILS_MAX}", len(plan.guardrails))
    guardrails = tuple(_guardrail(plan, guardrail) for guardrail in plan.guardrails)
    _validate_own(plan)
    if plan.on_harm not in _ON_HARM:
        raise InvalidFieldError("plan.on_harm", " | ".join(_ON_HARM), plan.on_harm)
    if plan.on_timeout not in _ON_TIMEOUT:
        raise InvalidFieldError("plan.on_timeout", " | ".join(_ON_TIMEOUT), plan.on_timeout)
    if not 0 <= plan.timeout_s <= limits.STAGE_MAX_S:
        raise InvalidFieldError("plan.timeout_s", f"0 to {limits.STAGE_MAX_S}", plan.timeout_s)
    if len(plan.signature_override_reason) > limits.REASON_LENGTH:
        bound = f"at most {limits.REASON_LENGTH} characters"
        raise InvalidFieldError("plan.signature_override_reason", bound, len(plan.signature_override_reason))
    if len(plan.auto_advance_reason) > limits.REASON_LENGTH:
        raise InvalidFieldError(
            "plan.auto_advance_reason", f"at most {limits.REASON_LENGTH} characters", len(plan.auto_advance_reason)
        )
    if plan.auto_advance_reason and not plan.watched:
        raise InvalidFieldError(
            "plan.auto_advance_reason",
            "guardrails, without which no stage is ever found safe",
            plan.auto_advance_reason,
        )
    stages = tuple(
        replace(stage, minimum_cohort=stage.minimum_cohort or limits.MINIMUM_COHORT_DEFAULT) for stage in plan.stages
    )
    window_s = plan.window_s or limits.WINDOW_S_DEFAULT
    if window_s < WINDOW_MIN_S:
        raise InvalidFieldError("plan.window_s", f"at least {WINDOW_MIN_S}, an hour", window_s)
    if plan.latency_edges_ms and not any(guardrail.metric == GuardMetric.LATENCY for guardrail in guardrails):
        raise InvalidFieldError(
            "plan.latency_edges_ms",
            "none without a guardrail of latency: each bin would make the noise of the others larger",
            plan.latency_edges_ms,
        )
    epsilon = plan.epsilon or default_epsilon(plan.aggregation)
    plan = replace(plan, stages=stages, guardrails=guardrails, window_s=window_s, epsilon=epsilon)
    validate_epsilon("plan.epsilon", plan.epsilon, largest_epsilon(plan.aggregation, is_guardrail=True))
    _validate_horizon(plan)
    with fields_named("plan"):
        tasks_of("ro-0", plan, 0)
        return plan if plan.questions else replace(plan, questions=choose_questions(plan))


def validate_update(before: RolloutRecord, plan: RolloutPlan) -> None:
    """Refuse to change, in a rollout that has begun, what its present comparison was planned with.

    Raises:
        InvalidFieldError: a stage that was reached, a guardrail or a term of the reports would change.
    """
    if before.state is RolloutState.DRAFT:
        return
    reached = before.plan.stages[: before.stage]
    if plan.stages[: before.stage] != reached or bool(plan.stages) != bool(before.plan.stages):
        raise InvalidFieldError("plan.stages", f"the {before.stage} stages that were reached, unchanged", plan.stages)
    terms = ("guardrails", "own_guardrails", "epsilon", "latency_edges_ms", "window_s", "aggregation", "questions")
    for name in terms:
        if getattr(plan, name) != getattr(before.plan, name):
            field = "mechanism" if name == "aggregation" else name
            bound = "unchanged once the rollout has begun: its reports are compared by it"
            raise InvalidFieldError(f"plan.{field}", bound, getattr(plan, name))


def _validate_horizon(plan: RolloutPlan) -> None:
    if not 0 <= plan.expected_devices <= limits.EXPECTED_DEVICES_MAX:
        raise InvalidFieldError("plan.expected_devices", f"0 to {limits.EXPECTED_DEVICES_MAX}", plan.expected_devices)
    most = limits.STAGE_MAX_S // plan.window_s
    if not 0 <= plan.horizon_windows <= most:
        bound = f"0 to {most}, the windows of {limits.STAGE_MAX_S} s"
        raise InvalidFieldError("plan.horizon_windows", bound, plan.horizon_windows)
    if plan.is_open_ended and plan.horizon_windows:
        bound = "0 for a rollout whose stages may be found safe at any time"
        raise InvalidFieldError("plan.horizon_windows", bound, plan.horizon_windows)


def _validate_own(plan: RolloutPlan) -> None:
    field = "plan.own_guardrails"
    if plan.own_guardrails and not plan.stages:
        raise InvalidFieldError(field, "none without stages, where nothing is watched", len(plan.own_guardrails))
    validate_own_guardrails(field, plan.own_guardrails, most=limits.QUESTIONS_MAX - bool(plan.guardrails))


def _validate_stages(stages: tuple[Stage, ...]) -> None:
    if len(stages) > limits.STAGES_MAX:
        raise InvalidFieldError("plan.stages", f"at most {limits.STAGES_MAX}", len(stages))
    lowest, highest = limits.MINIMUM_COHORT
    for stage in stages:
        if not 1 <= stage.share_basis_points <= POLICY_BUCKETS:
            raise InvalidFieldError(
                "plan.stages.share_basis_points", f"1 to {POLICY_BUCKETS}", stage.share_basis_points
            )
        if not 0 <= stage.minimum_s <= limits.STAGE_MAX_S:
            raise InvalidFieldError("plan.stages.minimum_s", f"0 to {limits.STAGE_MAX_S}", stage.minimum_s)
        if stage.minimum_cohort and not lowest <= stage.minimum_cohort <= highest:
            raise InvalidFieldError("plan.stages.minimum_cohort", f"{lowest} to {highest}", stage.minimum_cohort)
    for one, other in itertools.pairwise(stages):
        if other.share_basis_points <= one.share_basis_points:
            bound = f"more than {one.share_basis_points}, the share of the stage before"
            raise InvalidFieldError("plan.stages.share_basis_points", bound, other.share_basis_points)


def _guardrail(plan: RolloutPlan, guardrail: GuardrailRecord) -> GuardrailRecord:
    names = " | ".join(GuardMetric)
    if guardrail.metric not in tuple(GuardMetric):
        raise InvalidFieldError("plan.guardrails.metric", names, guardrail.metric)
    is_latency = guardrail.metric == GuardMetric.LATENCY
    is_in_ms = is_latency and not guardrail.edge_ms
    bound = limits.LATENCY_MARGIN_MAX_MS if is_in_ms else 1.0
    if not (math.isfinite(guardrail.margin) and 0 <= guardrail.margin < bound):
        raise InvalidFieldError("plan.guardrails.margin", f"in [0, {bound:g})", guardrail.margin)
    if not is_latency:
        for name, value in (("quantile", guardrail.quantile), ("edge_ms", guardrail.edge_ms)):
            if value:
                raise InvalidFieldError(f"plan.guardrails.{name}", f"none for {guardrail.metric}", value)
        return replace(guardrail, quantile=None, edge_ms=None)
    if not plan.latency_edges_ms:
        raise InvalidFieldError("plan.latency_edges_ms", "at least one, for the guardrail of latency", ())
    if guardrail.edge_ms:
        if guardrail.quantile:
            raise InvalidFieldError("plan.guardrails.quantile", "none beside edge_ms", guardrail.quantile)
        validate_edge("plan.guardrails.edge_ms", guardrail.edge_ms, plan.latency_edges_ms)
        return replace(guardrail, quantile=None)
    quantile = guardrail.quantile or DEFAULT_QUANTILE
    if not 0 < quantile < 1:
        raise InvalidFieldError("plan.guardrails.quantile", "in (0, 1)", quantile)
    validate_resolution("plan.guardrails.margin", guardrail.margin, "plan.latency_edges_ms", plan.latency_edges_ms)
    return replace(guardrail, quantile=quantile, edge_ms=None)
