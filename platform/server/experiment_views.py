"""Converts what is shown beside an experiment's results to wire messages."""

import math
from collections.abc import Iterable

from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.domain.experiment_records import SecondaryRecord
from alcove.platform.domain.experiments.bandit import AllocationView
from alcove.platform.domain.experiments.cell_table import CellTable
from alcove.platform.domain.experiments.dimension_view import DimensionView
from alcove.platform.domain.experiments.views import ExperimentViews
from alcove.platform.server.wire import to_message
from alcove.platform.stats import ArmPosterior, BayesianView, DifferencePosterior
from alcove.registry.policy import Outcome

__all__ = [
    "allocation_message",
    "bayesian_message",
    "cells_message",
    "dimension_message",
    "secondary_messages",
    "secondary_view_message",
]

_OUTCOMES = {outcome.name.lower(): pb.Outcome.Value(f"OUTCOME_{outcome.name}") for outcome in Outcome}


def bayesian_message(view: BayesianView) -> pb.BayesianView:
    """Return the message of the posteriors."""
    return pb.BayesianView(
        arms=[
            pb.ArmPosterior(
                arm=each.arm, value=_posterior(each), chance_best=each.chance_best, expected_loss=each.expected_loss
            )
            for each in view.arms
        ],
        differences=[
            pb.DifferencePosterior(
                arm=each.arm,
                versus=each.versus,
                difference=_posterior(each),
                chance_better=each.chance_better,
                expected_loss=each.expected_loss,
            )
            for each in view.differences
        ],
        prior=view.prior,
        obstacle=view.obstacle,
    )


def allocation_message(view: AllocationView) -> pb.AllocationView:
    """Return the message of how a bandit moved the shares."""
    return pb.AllocationView(
        changes=[
            pb.ShareChange(
                first_window=each.first_window,
                changed_at_s=each.changed_at_s,
                shares_basis_points=each.shares,
                report_count=each.reports,
                chances=each.chances,
                expected_losses=each.expected_losses,
            )
            for each in view.changes
        ],
        held=view.held,
        expected_regret=view.expected_regret,
        regret_so_far=view.regret_so_far,
        fixed_regret_so_far=view.fixed_regret_so_far,
    )


def secondary_view_message(views: ExperimentViews) -> pb.SecondaryView:
    """Return the message of the secondary metrics."""
    return pb.SecondaryView(
        differences=secondary_messages(views.secondary),
        is_at_horizon=views.is_at_horizon,
    )


def secondary_messages(found: Iterable[SecondaryRecord]) -> list[pb.SecondaryDifference]:
    """Return the messages of arms in secondary metrics."""
    return [
        to_message(
            pb.SecondaryDifference,
            each,
            difference=pb.Estimate(value=each.value, low=_finite(each.low), high=_finite(each.high)),
        )
        for each in found
    ]


def dimension_message(view: DimensionView) -> pb.DimensionView:
    """Return the message of the results by value."""
    return pb.DimensionView(
        dimension=view.dimension,
        strata=[
            pb.StratumView(
                value=each.value,
                report_count=each.reports,
                obstacle=each.obstacle,
                differences=[
                    to_message(
                        pb.StratumDifference,
                        one,
                        difference=pb.Estimate(value=one.value, low=_finite(one.low), high=_finite(one.high)),
                    )
                    for one in each.differences
                ],
            )
            for each in view.strata
        ],
        heterogeneity=[pb.Heterogeneity(**vars(each)) for each in view.heterogeneity],
    )


def cells_message(table: CellTable) -> pb.CellTable:
    """Return the message of all cells."""
    return pb.CellTable(
        rows=[to_message(pb.CellRow, row, outcomes=[_OUTCOMES[name] for name in row.outcomes]) for row in table.rows],
        noise_covariance=table.noise_covariance,
        reports_per_device=table.reports_per_device,
    )


def _finite(end: float | None) -> float | None:
    return end if end is None or math.isfinite(end) else None


def _posterior(each: ArmPosterior | DifferencePosterior) -> pb.Posterior:
    low, high = each.interval
    return pb.Posterior(mean=each.mean, standard_deviation=each.standard_deviation, low=low, high=high)
