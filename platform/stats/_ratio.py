"""Estimates an arm's size and ratios in it, with their uncertainty from sampling and from privacy noise.

Everything a comparison shows is a ratio inside one arm, R = sum_c w_c n_c / sum_c n_c over the arm's cells c: with
w = 1 for accepted cells it is the accepted part, with w = the bin's value the mean latency, with w = 1 up to a bin the
distribution function.

Variance (delta method; Cochran, Sampling Techniques, 3rd ed., sections 2.11 and 6.3), with r_c = (w_c - R) / n:

    Var(R) = sum_c r_c^2 n_c - (sum_c r_c n_c)^2 / N   +   r' V r
             sampling of the devices (multinomial)         privacy noise, V = noise covariance

Interval (Fieller 1954): all ratios rho for which |sum_c (w_c - rho) n_c| is within `critical_value` standard errors of
zero. It stays right when the noise makes the size n of the arm uncertain, and it is unbounded exactly when n itself
is within `critical_value` standard errors of zero. With a confidence sequence's critical value it is always valid,
because for each rho the sum is one of independent terms.

Sums are `math.fsum` over products that don't depend on the order of the arms: swapping arms swaps the results bit
for bit.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float

    def clip(self, low: float, high: float) -> "Interval":
        """Return the part within [low, high]; an interval wholly outside becomes the nearer end."""
        return Interval(min(max(self.low, low), high), min(max(self.high, low), high))


@dataclass(frozen=True)
class Covariance:
    """A variance or covariance in its two parts, in the square of the estimate's unit."""

    sampling: float
    noise: float

    @property
    def total(self) -> float:
        """Both parts together."""
        return self.sampling + self.noise

    @property
    def standard_error(self) -> float:
        """Square root of the total of a variance; rounding below zero counts as zero."""
        return math.sqrt(max(self.total, 0.0))

    @property
    def noise_percent(self) -> float:
        """By how many per cent of itself the standard error would shrink without privacy noise; in [0, 100]."""
        if self.noise <= 0.0 or self.total <= 0.0:
            return 0.0
        return 100.0 * (1.0 - math.sqrt(max(self.sampling, 0.0) / self.total))


@dataclass(frozen=True, eq=False)
class Ratio:
    """An estimated ratio in one arm.

    Attributes:
        arm: index of the arm.
        value: sum(weights * counts) / sum(base * counts), not clipped.
        base: float64 [outcomes * bins], which cells the ratio is a part of, 0 or 1.
        size: their estimated reports, >= 1.
        residuals: float64 [outcomes * bins], r_c of the module's docstring.
        variance: by the delta method.
    """

    arm: int
    value: float
    base: FloatArray
    size: float
    residuals: FloatArray
    variance: Covariance


class Moments:
    """Sums, variances and ratios of one aggregate.

    Args:
        aggregate: what to read.
        reports_per_device: how many of the reports may come from one device (windows pooled). The sampling parts
            grow by this factor: the worst case, in which a device's reports all say the same. The noise of each
            report is its own.
    """

    def __init__(self, aggregate: Aggregate, reports_per_device: int = 1) -> None:
        self._reports = aggregate.reports
        self._design_effect = float(reports_per_device)
        cells = aggregate.outcomes * aggregate.bins
        self._counts = aggregate.estimates.reshape(aggregate.arms, cells)
        self._noise = aggregate.noise_covariance.reshape(aggregate.arms, cells, aggregate.arms, cells)
        self._smoothed = _smoothed_counts(aggregate).reshape(aggregate.arms, cells)
        self._ones = np.ones(cells)
        self._sizes = [math.fsum(counts.tolist()) for counts in self._counts]
        self._size_variances = [self.covariance(arm, self._ones, arm, self._ones) for arm in range(aggregate.arms)]

    @property
    def reports_per_device(self) -> float:
        """By how much the sampling parts grow."""
        return self._design_effect

    def size(self, arm: int) -> float:
        """Return the estimated reports of an arm; may be negative."""
        return self._sizes[arm]

    def size_variance(self, arm: int) -> Covariance:
        """Return the variance of `size`."""
        return self._size_variances[arm]

    def ratio(self, arm: int, weights: FloatArray, base: FloatArray | None = None) -> Ratio | None:
        """Return the ratio with `weights` of the cells in `base`, both float64 [outcomes * bins]; None: all of the arm.

        None where the base holds less than one report.
        """
        base = self._ones if base is None else base
        size = self.total(arm, base)
        if size < 1.0:
            return None
        value = self.total(arm, weights) / size
        residuals = (weights - value * base) / size
        return Ratio(arm, value, base, size, residuals, self.covariance(arm, residuals, arm, residuals))

    def ratio_covariance(self, one: Ratio, other: Ratio) -> Covariance:
        """Return the covariance of two ratios of different arms."""
        return self.covariance(one.arm, one.residuals, other.arm, other.residuals)

    def is_distinct_from_zero(self, arm: int, critical_value: float) -> bool:
        """Return whether an arm's size exceeds zero by more than `critical_value` standard errors."""
        if self._reports == 0:
            return False
        size = self.size(arm)
        return size >= 1.0 and size > critical_value * self.size_variance(arm).standard_error

    def is_base_distinct_from_zero(self, ratio: Ratio, critical_value: float) -> bool:
        """Return whether the base of a ratio exceeds zero by more than `critical_value` standard errors."""
        if self._reports == 0:
            return False
        return (
            ratio.size > critical_value * self.covariance(ratio.arm, ratio.base, ratio.arm, ratio.base).standard_error
        )

    def interval(self, ratio: Ratio, critical_value: float) -> Interval | None:
        """Return Fieller's interval of a ratio, or None where it is unbounded.

        Relative to the estimate and with the size n scaled to 1, the ratios rho = R + d inside satisfy
        d^2 <= critical_value^2 (Vrr - 2 d Vrs + d^2 Vss), with the variances of the residual sum (r) and the size (s).
        """
        if not self.is_base_distinct_from_zero(ratio, critical_value):
            return None
        size = ratio.size
        unit = ratio.base / size
        squared = critical_value * critical_value
        size_part = squared * self.covariance(ratio.arm, ratio.base, ratio.arm, ratio.base).total / (size * size)
        cross_part = squared * self.covariance(ratio.arm, ratio.residuals, ratio.arm, unit).total
        own_part = squared * max(ratio.variance.total, 0.0)
        curvature = 1.0 - size_part
        if curvature <= 0.0:  # on the edge of being distinct from zero, by rounding
            return None
        root = math.sqrt(max(cross_part * cross_part + curvature * own_part, 0.0))
        return Interval(
            ratio.value + (-cross_part - root) / curvature,
            ratio.value + (-cross_part + root) / curvature,
        )

    def total(self, arm: int, weights: FloatArray) -> float:
        """Return a weighted sum of an arm's counts."""
        return math.fsum((self._counts[arm] * weights).tolist())

    def covariance(self, arm: int, weights: FloatArray, other: int, other_weights: FloatArray) -> Covariance:
        """Return the covariance of two weighted sums of counts, each over the [outcomes * bins] cells of one arm."""
        products = np.multiply.outer(weights, other_weights)
        noise = math.fsum((products * self._noise[arm, :, other, :]).ravel().tolist())
        if self._reports == 0:
            return Covariance(0.0, noise)
        first = math.fsum((weights * self._smoothed[arm]).tolist())
        second = math.fsum((other_weights * self._smoothed[other]).tolist())
        sampling = -first * second / self._reports
        if arm == other:
            sampling += math.fsum((weights * other_weights * self._smoothed[arm]).tolist())
        return Covariance(self._design_effect * sampling, noise)


def _smoothed_counts(aggregate: Aggregate) -> FloatArray:
    """Return positive counts that sum to the reports, for use in variances only.

    Negative estimates count as zero, and one imagined report for each arm and outcome is spread over its bins, so
    that an outcome never seen still has a variance (after Agresti and Coull 1998). Both err towards wider
    intervals.
    """
    positive = np.maximum(aggregate.estimates, 0.0) + 1.0 / aggregate.bins
    total = math.fsum(positive.ravel().tolist())
    return positive * (aggregate.reports / total)
