"""Implements PlannerService: forecasts rollouts, experiments and read-outs before anything is created."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

from typing import Any

from alcove.api.planner.v1 import planner_pb2 as pb
from alcove.api.planner.v1 import planner_pb2_grpc as rpc
from alcove.platform.core.turns import Computations
from alcove.platform.domain import limits
from alcove.platform.domain.planning.choices import compare_choices
from alcove.platform.domain.planning.experiment import forecast_experiment
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
from alcove.registry.policy import Aggregation

__all__ = ["PlannerService"]


class PlannerService(rpc.PlannerServiceServicer):
    """Plans before anything is created; forecasts are computed one at a time for each caller, and a few at once."""

    def __init__(self, aggregators: Aggregation | None) -> None:
        self._aggregators = aggregators
        self._forecasts = Computations(limits.FORECASTS_AT_ONCE, "forecast")

    async def PlanRollout(self, request: pb.PlanRolloutRequest, context: Any) -> pb.PlanRolloutResponse:
        """Forecast a rollout."""

        def compute() -> pb.PlanRolloutResponse:
            question = rollout_question(request, self._aggregators)
            forecast = forecast_rollout(question)
            return rollout_forecast_message(question, forecast, compare_choices(question, forecast))

        return await self._forecasts.run(current_principal().name, compute)

    async def PlanExperiment(self, request: pb.PlanExperimentRequest, context: Any) -> pb.PlanExperimentResponse:
        """Forecast an experiment."""

        def compute() -> pb.PlanExperimentResponse:
            record = experiment_draft(request, self._aggregators)
            return experiment_forecast_message(record, forecast_experiment(record))

        return await self._forecasts.run(current_principal().name, compute)

    async def PlanReadout(self, request: pb.PlanReadoutRequest, context: Any) -> pb.PlanReadoutResponse:
        """Forecast a read-out of a holdout."""

        def compute() -> pb.PlanReadoutResponse:
            question = readout_question(request, self._aggregators)
            return readout_forecast_message(question, forecast_readout(question))

        return await self._forecasts.run(current_principal().name, compute)
