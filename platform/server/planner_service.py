"""Implements PlannerService: forecasts rollouts, experiments and read-outs before anything is created."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

from dataclasses import replace
from typing import Any

from alcove.api.planner.v1 import planner_pb2 as pb
from alcove.api.planner.v1 import planner_pb2_grpc as rpc
from alcove.platform.core.turns import Computations
from alcove.platform.domain import limits
from alcove.platform.domain.experiments.questions import questions_of
from alcove.platform.domain.field_validation import validate_field
from alcove.platform.domain.planning.choices import compare_choices
from alcove.platform.domain.planning.experiment import forecast_experiment, validate_question
from alcove.platform.domain.planning.readout import forecast_readout
from alcove.platform.domain.planning.rollout import forecast_rollout
from alcove.platform.domain.principal import current_principal
from alcove.platform.server.planner_convert import (
    experiment_draft,
    experiment_forecast_message,
    rollout_forecast_message,
    rollout_question,
)
from alcove.platform.server.readout_forecasts import readout_forecast_message, readout_question
from alcove.platform.server.rollout_convert import plan_from
from alcove.platform.services.own_metrics import find_own_guardrails, find_own_metrics
from alcove.platform.store import Store
from alcove.registry.canonical import FeatureName
from alcove.registry.policy import Aggregation

__all__ = ["PlannerService"]


class PlannerService(rpc.PlannerServiceServicer):
    """Plans before anything is created; forecasts are computed one at a time for each caller, and a few at once."""

    def __init__(self, aggregators: Aggregation | None, store: Store) -> None:
        self._aggregators, self._store = aggregators, store
        self._forecasts = Computations(limits.FORECASTS_AT_ONCE, "forecast")

    async def PlanRollout(self, request: pb.PlanRolloutRequest, context: Any) -> pb.PlanRolloutResponse:
        """Forecast a rollout."""
        plan = plan_from(request.plan, self._aggregators)
        if plan.own_guardrails:
            feature = validate_field("feature", FeatureName, request.feature)
            async with self._store.read() as session:
                plan = replace(plan, own_guardrails=await find_own_guardrails(session, feature, plan.own_guardrails))

        def compute() -> pb.PlanRolloutResponse:
            question = rollout_question(request, plan)
            forecast = forecast_rollout(question)
            return rollout_forecast_message(question, forecast, compare_choices(question, forecast))

        return await self._forecasts.run(current_principal().name, compute)

    async def PlanExperiment(self, request: pb.PlanExperimentRequest, context: Any) -> pb.PlanExperimentResponse:
        """Forecast an experiment."""
        record = experiment_draft(request, self._aggregators)
        if any(metric is not None for metric in questions_of(record.plan).values()):
            feature = validate_field("feature", FeatureName, request.feature)
            async with self._store.read() as session:
                record = replace(record, plan=await find_own_metrics(session, feature, record.plan))

        def compute() -> pb.PlanExperimentResponse:
            validate_question(record)
            return experiment_forecast_message(record, forecast_experiment(record))

        return await self._forecasts.run(current_principal().name, compute)

    async def PlanReadout(self, request: pb.PlanReadoutRequest, context: Any) -> pb.PlanReadoutResponse:
        """Forecast a read-out of a holdout."""

        def compute() -> pb.PlanReadoutResponse:
            question = readout_question(request, self._aggregators)
            return readout_forecast_message(question, forecast_readout(question))

        return await self._forecasts.run(current_principal().name, compute)
