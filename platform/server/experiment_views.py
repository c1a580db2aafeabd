"""Converts what is shown beside an experiment's results to wire messages."""

from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.stats import ArmPosterior, BayesianView, DifferencePosterior

__all__ = ["bayesian_message"]


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


def _posterior(each: ArmPosterior | DifferencePosterior) -> pb.Posterior:
    low, high = each.interval
    return pb.Posterior(mean=each.mean, standard_deviation=each.standard_deviation, low=low, high=high)
