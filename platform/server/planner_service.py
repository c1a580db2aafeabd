"""Implements PlannerService: forecasts rollouts and experiments before anything is created."""

# The names and signatures are those of the generated base class.
# ruff: noqa: ARG002, N802

import asyncio
from typing import Any

from alcove.api.planner.v1 import planner_pb2 as pb
from alcove.api.planner.v1 import planner_pb2_grpc as rpc
from alcove.platform.core.turns import Turns
from alcove.platform.domain import limits
from alcove.platform.domain.planning.choices import compare_choices
from alcove.platform.domain.planning.experiment import forecast_experiment
from alcove.platform.domain.planning.rollout import forecast_rollout
from alcove.platform.domain.principal import current_principal
from alcove.platform.server.planner_convert import (
    experiment_draft,
    experiment_forecast_message,
    rollout_forecast_message,
    rollout_question,
)
from alcove.registry.policy import Aggregation

__all__ = ["PlannerService"]


class PlannerService(rpc.PlannerServiceServicer):
    """Plans before anything is created; a caller's forecasts are computed a few at a time, on other threads."""

    def __init__(self, aggregators: Aggregation | None) -> None:
        self._aggregators = aggregators
        self._forecasts = Turns(limits.CALLER_SEARCHES)

    async def PlanRollout(self, request: pb.PlanRolloutRequest, context: Any) -> pb.PlanRolloutResponse:
        """Forecast a rollout."""
        question = rollout_question(request, self._aggregators)

        def compute() -> pb.PlanRolloutResponse:
            forecast = forecast_rollout(question)
            return rollout_forecast_message(question, forecast, compare_choices(question, forecast))

        async with self._forecasts.turn(current_principal().name):
            return await asyncio.to_thread(compute)

    async def PlanExperiment(self, request: pb.PlanExperimentRequest, context: Any) -> pb.PlanExperimentResponse:
        """Forecast an experiment."""
        record = experiment_draft(request, self._aggregators)

        def compute() -> pb.PlanExperimentResponse:
            return experiment_forecast_message(record, forecast_experiment(record))

        async with self._forecasts.turn(current_principal().name):
            return await asyncio.to_thread(compute)
