"""Converts questions to the planner and its forecasts from and to wire messages."""

from collections.abc import Iterable
from typing import Any, Final

from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.planner.v1 import planner_pb2 as pb
from alcove.platform.domain import limits
from alcove.platform.domain.behavior import Behavior
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiments.base import validate_distribution
from alcove.platform.domain.mechanism import promise_of
from alcove.platform.domain.own_metrics import metric_of
from alcove.platform.domain.planning.choices import Choice
from alcove.platform.domain.planning.experiment import ExperimentForecast, validate_arms
from alcove.platform.domain.planning.rollout import (
    PERIOD_DAYS,
    GuardrailForecast,
    RolloutForecast,
    RolloutQuestion,
    StageForecast,
)
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState
from alcove.platform.domain.rollout_records import RolloutPlan
from alcove.platform.domain.rollouts.plan import validate_plan
from alcove.platform.server.experiment_convert import experiment_spec
from alcove.platform.server.rollout_convert import metric_number
from alcove.registry.canonical import fault_text
from alcove.registry.policy import Aggregation
from pydantic import ValidationError

__all__ = ["experiment_draft", "experiment_forecast_message", "rollout_forecast_message", "rollout_question"]

_DIGEST: Final = "0" * 64
_VERSION: Final = "1.0.0"
_HARM_DAYS: Final = 2


def rollout_question(request: pb.PlanRolloutRequest, asked: RolloutPlan) -> RolloutQuestion:
    """Return what a request asks.

    Args:
        request: as received.
        asked: its plan, with the definitions of the metrics that it names.

    Raises:
        InvalidFieldError: a field is out of its bounds.
    """
    plan = validate_plan(asked)
    if not (plan.stages and plan.watched):
        raise InvalidFieldError("plan.guardrails", "at least one, and a stage, for a forecast", len(plan.guardrails))
    if len(plan.stages) * len(plan.watched) > limits.FORECAST_GUARDRAILS:
        bound = (
            f"at most {limits.FORECAST_GUARDRAILS} guardrails times stages in one forecast: ask for some of the stages"
        )
        raise InvalidFieldError("plan.stages", bound, len(plan.stages) * len(plan.watched))
    if request.harm_days > PERIOD_DAYS:
        raise InvalidFieldError("harm_days", f"0 to {PERIOD_DAYS}", request.harm_days)
    if len(request.differences) > len(plan.watched):
        bound = f"at most {len(plan.watched)}, one for each guardrail"
        raise InvalidFieldError("differences", bound, len(request.differences))
    of_all = [1.0 if each.quantile is None else limits.LATENCY_MARGIN_MAX_MS for each in plan.guardrails]
    highest = of_all + [own.metric.bin_values[-1] for own in plan.own_guardrails]
    for difference, most in zip(request.differences, highest, strict=False):
        if not 0.0 <= difference < most:
            raise InvalidFieldError("differences", f"in [0, {most:g})", difference)
    return RolloutQuestion(
        plan=plan,
        behavior=_behavior_from(request.behavior),
        differences=tuple(request.differences),
        harm_days=request.harm_days or _HARM_DAYS,
        spreads=_spreads_from(request.own_spreads, plan),
    )


def rollout_forecast_message(
    question: RolloutQuestion, forecast: RolloutForecast, choices: tuple[Choice, ...]
) -> pb.PlanRolloutResponse:
    """Return the message of a forecast."""
    return pb.PlanRolloutResponse(
        stages=[_stage_message(stage) for stage in forecast.stages],
        cell_count=forecast.cells,
        horizon_windows=forecast.horizon_windows,
        horizon_days=forecast.horizon_days,
        choices=[pb.RolloutChoice(**_choice_fields(choice)) for choice in choices],
        warnings=forecast.warnings,
        promise=promise_of(question.plan.epsilon, question.plan.aggregation),
    )


def experiment_draft(request: pb.PlanExperimentRequest, aggregators: Aggregation | None) -> ExperimentRecord:
    """Return the draft that a request describes, of arms without versions; metrics that it names are not looked for.

    Raises:
        InvalidFieldError: a field is out of its bounds.
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    spec = experiment_spec(
        experiment_pb2.CreateExperimentRequest(
            epsilon=request.epsilon,
            latency_edges_ms=request.latency_edges_ms,
            window_s=request.window_s,
            minimum_cohort=request.minimum_cohort,
            primary=request.primary if request.HasField("primary") else None,
            guardrails=request.guardrails,
            plan=request.plan if request.HasField("plan") else None,
            pre_edges=request.pre_edges,
            mechanism=request.mechanism,
            own_guardrails=request.own_guardrails,
            own_questions=request.own_questions,
            dimension=request.dimension,
        ),
        aggregators,
    )
    arms = tuple(
        ArmRecord(
            name=f"arm {number}" if number else "control",
            version=_VERSION,
            manifest_sha256=_DIGEST,
            share_basis_points=share,
        )
        for number, share in enumerate(request.arm_shares_basis_points)
    )
    record = ExperimentRecord(
        sequence=0,
        experiment_id="ex-0",
        app="app",
        feature="feature",
        salt=_DIGEST[:32],
        arms=arms,
        state=ExperimentState.DRAFT,
        epsilon=spec.epsilon,
        latency_edges_ms=spec.latency_edges_ms,
        window_s=spec.window_s,
        minimum_cohort=spec.minimum_cohort,
        created_at_s=0,
        started_at_s=None,
        stopped_at_s=None,
        task_id=None,
        decision=None,
        policy_serial=0,
        plan=spec.plan,
    )
    validate_arms(record)
    return record


def experiment_forecast_message(record: ExperimentRecord, forecast: ExperimentForecast) -> pb.PlanExperimentResponse:
    """Return the message of a forecast."""
    return pb.PlanExperimentResponse(
        devices_needed=forecast.devices_needed,
        devices_needed_in_30_days=forecast.devices_needed_in_30_days,
        days_needed=forecast.days_needed,
        detectable_by_day=[pb.DetectableByDay(**vars(each)) for each in forecast.detectable_by_day],
        curve=[pb.PowerPoint(**vars(point)) for point in forecast.curve],
        cell_count=forecast.cells,
        choices=[pb.ExperimentChoice(**_choice_fields(choice)) for choice in forecast.choices],
        warnings=forecast.warnings,
        promise=promise_of(record.epsilon, record.plan.aggregation),
        devices_needed_by_value=forecast.devices_needed_by_value,
    )


def _stage_message(stage: StageForecast) -> pb.StageForecast:
    return pb.StageForecast(**{**vars(stage), "guardrails": [_guardrail_message(each) for each in stage.guardrails]})


def _guardrail_message(found: GuardrailForecast) -> pb.GuardrailForecast:
    own = metric_of(found.metric)
    converted: dict[str, Any] = {
        "metric": metric_number(found.metric) if own is None else 0,
        "own_metric": own or "",
        "curve": [pb.PowerPoint(**vars(point)) for point in found.curve],
    }
    return pb.GuardrailForecast(**{**vars(found), **converted})


def _spreads_from(messages: Iterable[pb.OwnSpread], plan: RolloutPlan) -> dict[str, tuple[float, ...]]:
    """Return the spreads by the names of their metrics.

    Raises:
        InvalidFieldError: a metric that the plan does not watch, one twice, or parts that are no spread over its bins.
    """
    metrics = {own.metric.name: own.metric.bin_metric for own in plan.own_guardrails}
    found: dict[str, tuple[float, ...]] = {}
    for message in messages:
        name, parts = message.metric, tuple(message.parts)
        if name not in metrics or name in found:
            bound = f"one of the metrics that the plan watches, once: {', '.join(metrics) or 'none'}"
            raise InvalidFieldError("own_spreads.metric", bound, name)
        if not parts:
            raise InvalidFieldError("own_spreads.parts", "a part for each bin", parts)
        validate_distribution("own_spreads.parts", parts, metrics[name])
        found[name] = parts
    return found


def _choice_fields(choice: object) -> dict[str, Any]:
    fields = dict(vars(choice))
    fields["cell_count"] = fields.pop("cells")
    return fields


def _behavior_from(message: pb.Behavior) -> Behavior:
    given = {field.name: value for field, value in message.ListFields()}
    try:
        return Behavior.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(("behavior", *map(str, fault["loc"])))
        raise InvalidFieldError(field, fault_text(fault), fault["input"]) from None
