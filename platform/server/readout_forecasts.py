"""Converts questions about read-outs of a holdout, and their forecasts, from and to wire messages."""

from dataclasses import replace
from typing import Final

from alcove.api.planner.v1 import planner_pb2 as pb
from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.mechanism import promise_of
from alcove.platform.domain.planning.readout import ReadoutForecast, ReadoutQuestion
from alcove.platform.domain.readouts.plan import fill_plan
from alcove.platform.domain.readouts.task import least_days
from alcove.platform.server.readout_convert import measured_plan
from alcove.registry.policy import Aggregation

__all__ = ["readout_forecast_message", "readout_question"]

_MONTHS: Final = 3


def readout_question(request: pb.PlanReadoutRequest, aggregators: Aggregation | None) -> ReadoutQuestion:
    """Return what a request asks.

    Raises:
        InvalidFieldError: a field is out of its bounds, or the metric is a team's own.
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    plan = measured_plan(request, 0, aggregators)
    if plan.own is not None:
        bound = "one that every feature has: how a team's own metric is spread is not known, so that it is not planned"
        raise InvalidFieldError("metric", bound, request.metric)
    plan = fill_plan(plan)
    return ReadoutQuestion(
        plan=replace(plan, months=plan.months or _MONTHS),
        devices=request.devices,
        share_basis_points=request.share_basis_points,
        base_rate=request.base_rate,
        mde=request.mde,
    )


def readout_forecast_message(question: ReadoutQuestion, forecast: ReadoutForecast) -> pb.PlanReadoutResponse:
    """Return the message of a forecast."""
    return pb.PlanReadoutResponse(
        group_devices=forecast.group_devices,
        detectable=forecast.detectable,
        detectable_by_months=[
            pb.DetectableByMonths(months=each.months, difference=each.detectable) for each in forecast.by_months
        ],
        devices_needed=min(forecast.devices_needed, limits.EXPECTED_DEVICES_MAX),
        cell_count=forecast.cells,
        days=least_days(question.plan),
        warnings=forecast.warnings,
        promise=promise_of(question.plan.epsilon, question.plan.aggregation),
    )
