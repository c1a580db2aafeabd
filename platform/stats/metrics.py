"""By how much do two arms differ in a ratio of weighted counts, and in a mean corrected by what came before?

`ratio_difference`: R = sum_c u_c n_c / sum_c w_c n_c inside an arm, such as refusals per answer or milliseconds per
accepted answer. Delta method with residuals r_c = (u_c - R w_c) / sum w n (Cochran, Sampling Techniques, 3rd ed.,
section 6.3; Deng, Knoblich and Lu, "Applying the delta method in metric analytics", KDD 2018):

    Var(R_1 - R_0) = Var(sum r_c n_c over both arms) = sampling (multinomial) + r' V r,   V = noise covariance

`cuped_difference`: the mean of `post` over a joint histogram pre x post, less theta times the imbalance of `pre`
(Deng, Xu, Kohavi and Walker, "Improving the sensitivity of online controlled experiments by utilizing pre-experiment
data", WSDM 2013): D = (Y_1 - Y_0) - theta (X_1 - X_0), theta = Cov(Y, X) / Var(X) over both arms together. With theta
as if it were known (its error is of smaller order), D is the difference of means of y - theta x, whose residuals give
the variance as above. With privacy noise Var(X) is itself noisy, but unbiased sums enter it; where it is not clearly
positive, theta is 0 and nothing is corrected.
"""

from dataclasses import dataclass

import numpy as np
from alcove.platform.stats._ratio import Covariance, Interval, Moments
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError


@dataclass(frozen=True)
class MetricDifference:
    """A difference between two arms with its interval.

    Attributes:
        value: `arm` minus `versus`.
        interval: `multiplier` standard errors to each side.
        standard_error: sampling and noise.
        noise_percent: by how many per cent of itself the standard error would shrink without privacy noise.
    """

    value: float
    interval: Interval
    standard_error: float
    noise_percent: float


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
    multiplier: float,
    reports_per_device: int = 1,
) -> MetricDifference | None:
    """Return the difference of two arms' ratios, or None where a denominator is below one.

    Args:
        aggregate: the counts.
        numerator: weight of each cell, [outcomes, bins].
        denominator: weight of each cell, [outcomes, bins], >= 0.
        arm: index of one arm.
        versus: index of the other.
        multiplier: standard errors to each side, from `confidence_sequence.multiplier` or a normal quantile.
        reports_per_device: as in `compare`.

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
    moments = Moments(aggregate, reports_per_device)
    above, below = numerator.astype(np.float64).ravel(), denominator.astype(np.float64).ravel()
    values, residuals = [], []
    for index in (arm, versus):
        base = moments.total(index, below)
        if base < 1.0:
            return None
        values.append(moments.total(index, above) / base)
        residuals.append((above - values[-1] * below) / base)
    own = [moments.covariance(index, r, index, r) for index, r in zip((arm, versus), residuals, strict=True)]
    shared = moments.covariance(arm, residuals[0], versus, residuals[1])
    variance = Covariance(
        own[0].sampling + own[1].sampling - 2.0 * shared.sampling, own[0].noise + own[1].noise - 2.0 * shared.noise
    )
    value, reach = values[0] - values[1], multiplier * variance.standard_error
    return MetricDifference(
        value, Interval(value - reach, value + reach), variance.standard_error, variance.noise_percent
    )


def cuped_difference(
    aggregate: Aggregate,
    pre_values: FloatArray,
    post_values: FloatArray,
    *,
    arm: int,
    versus: int,
    multiplier: float,
    reports_per_device: int = 1,
) -> AdjustedDifference | None:
    """Return the corrected difference of two arms' means, or None where an arm has less than one report.

    Args:
        aggregate: joint histogram, [arms, pre bins, post bins]: the pre-period takes the place of the outcomes.
        pre_values: what each pre bin stands for, [pre bins].
        post_values: what each post bin stands for, [post bins].
        arm: index of one arm.
        versus: index of the other.
        multiplier: standard errors to each side.
        reports_per_device: as in `compare`.

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
    slope = _slope(aggregate, pre, post, (arm, versus))
    found = [
        ratio_difference(
            aggregate,
            weights,
            ones,
            arm=arm,
            versus=versus,
            multiplier=multiplier,
            reports_per_device=reports_per_device,
        )
        for weights in (post - slope * pre, post)
    ]
    adjusted, plain = found
    if adjusted is None or plain is None:
        return None
    return AdjustedDifference(
        adjusted.value, adjusted.interval, adjusted.standard_error, adjusted.noise_percent, slope, plain
    )


def _slope(aggregate: Aggregate, pre: FloatArray, post: FloatArray, arms: tuple[int, int]) -> float:
    """Return theta over both arms together, 0 where Var(X) is not distinguishable from the noise in it."""
    counts = aggregate.estimates[list(arms)].sum(axis=0)
    size = float(counts.sum())
    if size < 1.0:
        return 0.0
    mean_pre, mean_post = float((counts * pre).sum()) / size, float((counts * post).sum()) / size
    spread = (pre - mean_pre) ** 2 / size
    variance = float((counts * spread).sum())
    weights = np.zeros(aggregate.estimates.shape)
    weights[list(arms)] = spread
    flat = weights.ravel()
    noise = float(flat @ aggregate.noise_covariance @ flat)
    if variance <= 3.0 * max(noise, 0.0) ** 0.5:
        return 0.0
    return float((counts * (pre - mean_pre) * (post - mean_post)).sum()) / size / variance
