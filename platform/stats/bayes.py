"""Reads an experiment as a Bayesian would: posteriors of arms and differences, chance to be best, expected loss.

It decides nothing: chances are not corrected for how often they are read, and no rule reads them. The prior says that
every value is equally likely before the reports: uniform on [0, 1] for a share (Beta(1, 1)), uniform on the range of
the bins' values for a mean latency or a team's own metric; arms are independent of each other.

    exact counts of a share        Beta(1 + s / r, 1 + f / r), s successes and f failures, r reports of one device
    anything with privacy noise    the normal density of the estimate, its standard error sampling and noise together
                                   (`_ratio.py`), within the prior's bounds; so is an exact mean

What the errors of two arms have in common moves no difference: for differences, chances and losses each arm's variance
is taken less its mean covariance with the others. That is exact for two arms, and for more where all covariances are
equal, as they nearly are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.estimates import Estimates
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.posterior import Posterior, chances_best, difference_interval, expected_losses
from alcove.platform.stats.primary import PrimaryKind, metric_weights

CREDIBLE_MASS = 0.95


@dataclass(frozen=True)
class ArmPosterior:
    """The posterior of one arm's value in the primary metric.

    Attributes:
        arm: index of the arm.
        mean: in the metric's unit.
        standard_deviation: likewise.
        interval: equal-tailed, holds `CREDIBLE_MASS`.
        chance_best: posterior probability that no other arm is better, in [0, 1].
        expected_loss: what choosing this arm is expected to lose against the best one, in the metric's unit, >= 0.
    """

    arm: int
    mean: float
    standard_deviation: float
    interval: Interval
    chance_best: float
    expected_loss: float


@dataclass(frozen=True)
class DifferencePosterior:
    """The posterior of the difference of two arms in the primary metric.

    Attributes:
        arm: index of one arm.
        versus: index of the other.
        mean: `arm` minus `versus`.
        standard_deviation: of the difference.
        interval: equal-tailed, holds `CREDIBLE_MASS`.
        chance_better: posterior probability that `arm` is the better of the two, in [0, 1].
        expected_loss: what choosing `arm` instead of `versus` is expected to lose, in the metric's unit, >= 0.
    """

    arm: int
    versus: int
    mean: float
    standard_deviation: float
    interval: Interval
    chance_better: float
    expected_loss: float


@dataclass(frozen=True)
class BayesianView:
    """Everything that is said beside a result and decides nothing.

    Attributes:
        arms: in order; empty where there is no posterior.
        differences: of each other arm to the control, in order of the arms.
        prior: one sentence: what was believed before the reports.
        obstacle: one sentence: why there is no posterior; "" where there is one.
    """

    arms: tuple[ArmPosterior, ...]
    differences: tuple[DifferencePosterior, ...]
    prior: str
    obstacle: str = ""


def bayesian_view(estimates: Estimates, *, control: int = 0) -> BayesianView:
    """Return the Bayesian view of the primary metric; a correction by the pre-period is not in it.

    Args:
        estimates: of at least two arms.
        control: index of the arm that the others are shown against.

    Raises:
        ArgumentError: there is no such arm, or the metric reads cells that the reports do not have.
    """
    primary = estimates.metric.primary
    if not 0 <= control < estimates.arms:
        raise ArgumentError("control", f"an arm in [0, {estimates.arms})", control)
    if primary.kind is PrimaryKind.LATENCY_QUANTILE:
        return BayesianView((), (), "none", "a quantile of binned latencies has no posterior here")
    numerator, denominator = primary_weights(estimates)
    low, high, prior = _prior_of(estimates)
    if obstacle := find_obstacle(estimates, denominator):
        return BayesianView((), (), prior, obstacle)
    shown, compared = _posteriors(estimates, numerator, denominator, low=low, high=high)
    return _view(shown, compared, prior, control=control, is_more_better=primary.is_more_better)


def view_of_values(
    estimates: Estimates, values: Sequence[float], covariance: FloatArray, *, control: int = 0
) -> BayesianView:
    """Return the Bayesian view of arms' values that were estimated together, with a normal likelihood.

    Args:
        estimates: of the same arms by the same metric; prior and direction are taken from it.
        values: of the arms, in the metric's unit.
        covariance: of the values, sampling and noise; float64 [arms, arms].
        control: index of the arm that the others are shown against.
    """
    low, high, prior = _prior_of(estimates)
    shown, compared = _normal_posteriors(values, covariance, low=low, high=high)
    return _view(shown, compared, prior, control=control, is_more_better=estimates.metric.primary.is_more_better)


def arm_values(estimates: Estimates, numerator: FloatArray, denominator: FloatArray) -> tuple[list[float], FloatArray]:
    """Return each arm's value in the metric, and the covariance of the values, sampling and noise, [arms, arms].

    Args:
        estimates: of arms that each hold a report of the denominator.
        numerator: weights of `primary_weights`.
        denominator: likewise.
    """
    moments, arms = estimates.moments, range(estimates.arms)
    above, below = numerator.ravel(), denominator.ravel()
    sizes = [moments.total(arm, below) for arm in arms]
    values = [moments.total(arm, above) / sizes[arm] for arm in arms]
    residuals = [(above - values[arm] * below) / sizes[arm] for arm in arms]
    covariance = np.array(
        [[moments.covariance(one, residuals[one], other, residuals[other]).total for other in arms] for one in arms]
    )
    return values, covariance


def primary_weights(estimates: Estimates) -> tuple[FloatArray, FloatArray]:
    """Return each cell's weight in the numerator and in the denominator of the primary metric, [outcomes, bins] each.

    Raises:
        ArgumentError: the primary metric is a quantile, or reads cells that the reports do not have.
    """
    metric = estimates.metric
    return metric_weights(
        estimates.aggregate,
        metric.primary,
        estimates.bin_values_ms,
        success_outcome=metric.success_outcome or 0,
        base_outcomes=metric.base_outcomes,
        edges_ms=metric.edges_ms,
    )


def _prior_of(estimates: Estimates) -> tuple[float, float, str]:
    """Return the ends of the uniform prior, and the sentence that says so."""
    primary = estimates.metric.primary
    low, high = primary.range_of(estimates.bin_values_ms)
    text = f"uniform on [{low:g}{primary.unit}, {high:g}{primary.unit}] for each arm, independent of the others"
    return low, high, text


def _view(
    shown: Sequence[Posterior], compared: Sequence[Posterior], prior: str, *, control: int, is_more_better: bool
) -> BayesianView:
    """Return the view of posteriors that are shown for each arm, and of those that differences are taken of."""
    ranked = tuple(compared) if is_more_better else tuple(each.mirror() for each in compared)
    arms = tuple(
        ArmPosterior(arm, *posterior.moments(), posterior.interval(CREDIBLE_MASS), chance, loss)
        for arm, (posterior, chance, loss) in enumerate(
            zip(shown, chances_best(ranked), expected_losses(ranked), strict=True)
        )
    )
    others = [arm for arm in range(len(arms)) if arm != control]
    return BayesianView(arms, tuple(_difference(compared, ranked, arm, control) for arm in others), prior)


def _difference(
    compared: Sequence[Posterior], ranked: Sequence[Posterior], arm: int, versus: int
) -> DifferencePosterior:
    (mean, deviation), (other_mean, other_deviation) = compared[arm].moments(), compared[versus].moments()
    pair = (ranked[arm], ranked[versus])
    return DifferencePosterior(
        arm=arm,
        versus=versus,
        mean=mean - other_mean,
        standard_deviation=math.hypot(deviation, other_deviation),
        interval=difference_interval(compared[arm], compared[versus], CREDIBLE_MASS),
        chance_better=chances_best(pair)[0],
        expected_loss=expected_losses(pair)[0],
    )


def find_obstacle(estimates: Estimates, denominator: FloatArray) -> str:
    """Return why there is no posterior, "" where there is: an arm too small, or hidden by noise as in the rules."""
    flat = denominator.ravel()
    for arm in range(estimates.arms):
        size = estimates.moments.total(arm, flat)
        if estimates.reports == 0 or size < 1.0:
            return f"arm {arm} has no report that the metric reads"
        noise = math.sqrt(max(estimates.moments.covariance(arm, flat, arm, flat).noise, 0.0)) / size
        if noise > MAX_SIZE_VARIATION:
            return (
                f"privacy noise leaves the size of arm {arm} uncertain by {100 * noise:.0f} % "
                f"of at most {100 * MAX_SIZE_VARIATION:.0f} %"
            )
    return ""


def _posteriors(
    estimates: Estimates, numerator: FloatArray, denominator: FloatArray, *, low: float, high: float
) -> tuple[tuple[Posterior, ...], tuple[Posterior, ...]]:
    """Return the posterior of each arm, and those that differences are taken of."""
    moments, arms = estimates.moments, range(estimates.arms)
    above, below = numerator.ravel(), denominator.ravel()
    sizes = [moments.total(arm, below) for arm in arms]
    totals = [moments.total(arm, above) for arm in arms]
    if estimates.metric.primary.is_share and not estimates.aggregate.noise_covariance.any():
        repeats = estimates.metric.reports_per_device
        exact = tuple(
            Posterior(alpha=1.0 + totals[arm] / repeats, beta=1.0 + (sizes[arm] - totals[arm]) / repeats)
            for arm in arms
        )
        return exact, exact
    return _normal_posteriors(*arm_values(estimates, numerator, denominator), low=low, high=high)


def _normal_posteriors(
    values: Sequence[float], covariance: FloatArray, *, low: float, high: float
) -> tuple[tuple[Posterior, ...], tuple[Posterior, ...]]:
    own = np.diagonal(covariance)
    common = (covariance.sum(axis=1) - own) / (len(values) - 1)
    apart = np.where(own > common, own - common, own)
    shown, compared = (
        tuple(
            Posterior(estimate=value, standard_error=math.sqrt(variance), low=low, high=high)
            for value, variance in zip(values, variances, strict=True)
        )
        for variances in (own, apart)
    )
    return shown, compared
