"""Estimates how two arms differ in a ratio of weighted counts, and in a mean corrected by the pre-period (CUPED).

`ratio_difference`: R = sum_c u_c n_c / sum_c w_c n_c inside an arm, such as refusals per answer or milliseconds per
accepted answer. Delta method with residuals r_c = (u_c - R w_c) / sum w n (Cochran, Sampling Techniques, 3rd ed.,
section 6.3; Deng, Knoblich and Lu, "Applying the delta method in metric analytics", KDD 2018):

    Var(R_1 - R_0) = Var(sum r_c n_c over both arms) = sampling (multinomial) + r' V r,   V = noise covariance

`cuped_difference`: the mean of `post` over a joint histogram pre x post, less theta times the imbalance of `pre`
(Deng, Xu, Kohavi and Walker, "Improving the sensitivity of online controlled experiments by utilizing pre-experiment
data", WSDM 2013): D = (Y_1 - Y_0) - theta (X_1 - X_0). Whatever theta is, D estimates the same difference; with theta
as if it were known (its error is of smaller order), D is the difference of means of y - theta x, whose residuals give
the variance as above. The theta that makes it least, with privacy noise V in the counts, is

    theta = (w Cov(Y, X) + r_x' V r_y) / (w Var(X) + r_x' V r_x),   w = 1 / n_1 + 1 / n_0

with Cov and Var over both arms together: without noise that of the paper, and the more noise the imbalance of X is
made of, the closer to 0 (or to what the noises of X and Y have in common).
"""

from dataclasses import dataclass

import numpy as np
from alcove.platform.stats._ratio import Interval, Moments
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.ratio_pairs import RatioPair, ratio_pair


@dataclass(frozen=True)
class MetricDifference:
    """A difference between two arms with its interval.

    Attributes:
        value: `arm` minus `versus`.
        interval: from limits of each arm at `critical_value` standard errors (`ratio_pairs.py`); infinite where
            unbounded.
        standard_error: sampling and noise.
        noise_percent: by how many per cent of itself the standard error would shrink without privacy noise.
        score: critical value of the interval that ends at zero, with the sign of the value.
        lift: relative to `versus`; None where that is not above zero.
        lift_interval: of the lift; None where unbounded.
    """

    value: float
    interval: Interval
    standard_error: float
    noise_percent: float
    score: float
    lift: float | None
    lift_interval: Interval | None


@dataclass(frozen=True)
class AdjustedDifference(MetricDifference):
    """A difference of means corrected by the pre-period.

    Attributes:
        theta: slope of the correction, in units of post per unit of pre.
        unadjusted: the same difference without correction.
    """

    theta: float
    unadjusted: MetricDifference


def ratio_difference(
    aggregate: Aggregate,
    numerator: FloatArray,
    denominator: FloatArray,
    *,
    arm: int,
    versus: int,
    critical_value: float,
    reports_per_device: int = 1,
) -> MetricDifference | None:
    """Return the difference of two arms' ratios, or None where a denominator is below one.

    Args:
        aggregate: the counts.
        numerator: weight of each cell, [outcomes, bins].
        denominator: weight of each cell, [outcomes, bins], >= 0.
        arm: index of one arm.
        versus: index of the other.
        critical_value: standard errors to each side, from `confidence_sequence.critical_value` or a normal quantile.
        reports_per_device: as in `Metric`.

    Raises:
        ArgumentError: weights of another shape, or arms that are not there.
    """
    shape = (aggregate.outcomes, aggregate.bins)
    for name, weights in (("numerator", numerator), ("denominator", denominator)):
        if weights.shape != shape or not np.isfinite(weights).all():
            raise ArgumentError(name, f"finite, of shape {shape}", f"of shape {weights.shape}")
    if (denominator < 0.0).any():
        raise ArgumentError("denominator", "at least 0 everywhere", float(denominator.min()))
    if not (0 <= arm < aggregate.arms and 0 <= versus < aggregate.arms and arm != versus):
        raise ArgumentError("arm, versus", f"two arms in [0, {aggregate.arms})", (arm, versus))
    above, below = numerator.astype(np.float64).ravel(), denominator.astype(np.float64).ravel()
    pair = ratio_pair(Moments(aggregate, reports_per_device), above, below, arm=arm, versus=versus)
    return None if pair is None else _measure(pair, critical_value)


def _measure(pair: RatioPair, critical_value: float) -> MetricDifference:
    return MetricDifference(
        value=pair.value,
        interval=pair.interval(critical_value),
        standard_error=pair.variance.standard_error,
        noise_percent=pair.variance.noise_percent,
        score=pair.score,
        lift=pair.lift,
        lift_interval=pair.lift_interval(critical_value),
    )


def cuped_difference(
    aggregate: Aggregate,
    pre_values: FloatArray,
    post_values: FloatArray,
    *,
    arm: int,
    versus: int,
    critical_value: float,
    reports_per_device: int = 1,
) -> AdjustedDifference | None:
    """Return the corrected difference of two arms' means, or None where an arm has less than one report.

    Args:
        aggregate: joint histogram, [arms, pre bins, post bins]: the pre-period takes the place of the outcomes.
        pre_values: what each pre bin stands for, [pre bins].
        post_values: what each post bin stands for, [post bins].
        arm: index of one arm.
        versus: index of the other.
        critical_value: standard errors to each side.
        reports_per_device: as in `Metric`.

    Raises:
        ArgumentError: values of another shape, or arms that are not there.
    """
    if pre_values.shape != (aggregate.outcomes,) or post_values.shape != (aggregate.bins,):
        raise ArgumentError(
            "pre_values, post_values",
            f"of shapes {(aggregate.outcomes,)} and {(aggregate.bins,)}",
            f"of shapes {pre_values.shape} and {post_values.shape}",
        )
    pre = np.repeat(pre_values.astype(np.float64)[:, None], aggregate.bins, axis=1)
    post = np.repeat(post_values.astype(np.float64)[None, :], aggregate.outcomes, axis=0)
    ones = np.ones_like(pre)
    slope = _slope(aggregate, pre, post, (arm, versus), reports_per_device)
    found = [
        ratio_difference(
            aggregate,
            weights,
            ones,
            arm=arm,
            versus=versus,
            critical_value=critical_value,
            reports_per_device=reports_per_device,
        )
        for weights in (post - slope * pre, post)
    ]
    adjusted, plain = found
    if adjusted is None or plain is None:
        return None
    return AdjustedDifference(**vars(adjusted), theta=slope, unadjusted=plain)


def _slope(
    aggregate: Aggregate, pre: FloatArray, post: FloatArray, arms: tuple[int, int], reports_per_device: int
) -> float:
    """Return theta of the module's docstring; 0 where nothing is known of the pre-period."""
    sizes = [float(aggregate.estimates[index].sum()) for index in arms]
    if min(sizes) < 1.0:
        return 0.0
    counts = aggregate.estimates[list(arms)].sum(axis=0)
    size = sum(sizes)
    mean_pre, mean_post = float((counts * pre).sum()) / size, float((counts * post).sum()) / size
    variance = float((counts * (pre - mean_pre) ** 2).sum()) / size
    shared = float((counts * (pre - mean_pre) * (post - mean_post)).sum()) / size
    if variance <= 0.0:
        return 0.0
    residuals = []
    for weights in (pre, post):
        flat = np.zeros(aggregate.estimates.shape)
        for sign, index, own in zip((1.0, -1.0), arms, sizes, strict=True):
            mean = float((aggregate.estimates[index] * weights).sum()) / own
            flat[index] = sign * (weights - mean) / own
        residuals.append(flat.ravel())
    of_pre, of_post = residuals
    seen = aggregate.noise_covariance @ of_pre
    per_unit = reports_per_device * (1.0 / sizes[0] + 1.0 / sizes[1])
    return (per_unit * shared + float(seen @ of_post)) / (per_unit * variance + float(seen @ of_pre))
