"""Compares two arms in a ratio of sums: difference and relative lift, with intervals made of each arm's own limits.

A standard error and a critical value give an interval that is symmetric, and wrong where an arm is small, an event is
rare or noise makes an arm's size unsure: it covered 53 to 84 % of the time at 99:1. The intervals here combine limits
[l, u] of each arm's ratio R, which know of all three (MOVER, the method of variance estimates recovery):

    low  = R_1 - R_0 - sqrt( (R_1 - l_1)^2 + (u_0 - R_0)^2 - 2 rho (R_1 - l_1) (u_0 - R_0) ),   high likewise

with rho the correlation that the privacy noise gives to the two estimates. Zou and Donner, "Construction of confidence
limits about effect measures", Statistics in Medicine 2008. Of the lift R_1 / R_0 - 1 the limits are where the same
interval of R_1 - theta R_0 ends at zero (Donner and Zou 2012); unbounded where R_0 may be zero.

Limits of an arm at z standard errors, of a sum a of a base s:

    share, exact     Jeffreys: quantiles of Beta(a + 1/2, s - a + 1/2), in devices; equal tails also for rare events
                     (Brown, Cai and DasGupta 2001; for differences Laud 2017)
    share, noised    all R with (a - R s)^2 <= z^2 (r s R (1 - R) + V_aa - 2 R V_as + R^2 V_ss): Wilson's interval where
                     there is no noise, Fieller's where there is nothing else
    any other        Fieller 1954, with the covariances of a and s from sampling and noise

`score` is the z at which the interval of the difference ends at zero: p-values of it and the intervals say the same.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from alcove.platform.stats._ratio import Covariance, Interval, Moments
from alcove.platform.stats.aggregate import FloatArray

UNBOUNDED: Final = Interval(-math.inf, math.inf)
_HIGHEST_SCORE: Final = 40.0  # the tail beyond it is below the least float64
_ROUNDS: Final = 60  # bisections of a score


@dataclass(frozen=True)
class ArmRatio:
    """A ratio of sums in one arm.

    Attributes:
        above: the sum in the numerator.
        below: that in the denominator, >= 1.
        residual: variance of (above - ratio * below) / below, by sampling and by noise.
        sums: variances of above and below and their covariance, each by sampling and by noise.
        reports_per_device: as in `Metric`.
        is_share: whether above counts some of those that below counts.
    """

    above: float
    below: float
    residual: Covariance
    sums: tuple[Covariance, Covariance, Covariance]
    reports_per_device: float
    is_share: bool

    @property
    def value(self) -> float:
        """The ratio, not clipped."""
        return self.above / self.below

    def limits(self, critical_value: float) -> Interval:
        """Return the limits of the ratio; infinite where there are none."""
        if not math.isfinite(critical_value):
            return UNBOUNDED
        if not self.is_share:
            return self._quadratic(critical_value, [each.total for each in self.sums], 0.0)
        noise = [each.noise for each in self.sums]
        if not any(noise):
            return self._jeffreys(critical_value)
        return self._quadratic(critical_value, noise, self.reports_per_device * self.below)

    def _quadratic(self, critical_value: float, variances: list[float], binomial: float) -> Interval:
        """Return all R with (a - R s)^2 <= z^2 (binomial R (1 - R) + V_aa - 2 R V_as + R^2 V_ss)."""
        squared = critical_value * critical_value
        of_above, of_both, of_below = variances[0], variances[1], variances[2]
        curvature = self.below * self.below + squared * (binomial - of_below)
        slope = self.above * self.below + squared * (binomial / 2.0 - of_both)
        least = self.above * self.above - squared * of_above
        if curvature <= 0.0:
            return UNBOUNDED
        root = math.sqrt(max(slope * slope - curvature * least, 0.0))
        low, high = (slope - root) / curvature, (slope + root) / curvature
        return Interval(min(low, self.value), max(high, self.value))

    def _jeffreys(self, critical_value: float) -> Interval:
        from scipy.special import betaincinv  # noqa: PLC0415 - a quarter of a second, and only analyses need it

        tail = math.erfc(critical_value / math.sqrt(2.0)) / 2.0
        size = self.below / self.reports_per_device
        events = min(max(self.above / self.reports_per_device, 0.0), size)
        shape = (events + 0.5, size - events + 0.5)
        low = 0.0 if events <= 0.0 else float(betaincinv(*shape, tail))
        high = 1.0 if events >= size else 1.0 - float(betaincinv(shape[1], shape[0], tail))
        return Interval(min(low, self.value), max(high, self.value))


@dataclass(frozen=True)
class RatioPair:
    """The ratios of two arms.

    Attributes:
        one: of the arm.
        other: of the arm that it is compared with.
        shared: covariance of the two ratios.
    """

    one: ArmRatio
    other: ArmRatio
    shared: Covariance

    @property
    def value(self) -> float:
        """The difference, not clipped."""
        return self.one.value - self.other.value

    @property
    def variance(self) -> Covariance:
        """Variance of the difference, by the delta method."""
        one, other, shared = self.one.residual, self.other.residual, self.shared
        return Covariance(
            sampling=(one.sampling + other.sampling) - 2.0 * shared.sampling,
            noise=(one.noise + other.noise) - 2.0 * shared.noise,
        )

    @property
    def lift(self) -> float | None:
        """The relative lift; None where the other arm's ratio is not above zero."""
        return self.one.value / self.other.value - 1.0 if self.other.value > 0.0 else None

    def interval(self, critical_value: float) -> Interval:
        """Return the interval of the difference; infinite where it is unbounded."""
        low_one, high_one, low_other, high_other = self._reaches(critical_value)
        return Interval(
            self.value - self._combine(low_one, high_other), self.value + self._combine(high_one, low_other)
        )

    def lift_interval(self, critical_value: float) -> Interval | None:
        """Return the interval of the relative lift; None where the other arm's ratio may be zero."""
        low_one, high_one, low_other, high_other = self._reaches(critical_value)
        value, base = self.one.value, self.other.value
        base_square = base * base - low_other * low_other
        if not (math.isfinite(low_one + high_one + high_other) and base > low_other and base_square > 0.0):
            return None
        low = _lift_root(value, base, low_one, high_other, self._correlation, is_high=False)
        high = _lift_root(value, base, high_one, low_other, self._correlation, is_high=True)
        return Interval(low - 1.0, high - 1.0)

    @cached_property
    def score(self) -> float:
        """Critical value of the interval that ends at zero, with the sign of the difference; 0 where none does not."""
        low, high = 0.0, _HIGHEST_SCORE
        if self.value == 0.0:
            return 0.0
        for _ in range(_ROUNDS):
            middle = (low + high) / 2.0
            interval = self.interval(middle)
            excludes_zero = interval.low > 0.0 or interval.high < 0.0
            low, high = (middle, high) if excludes_zero else (low, middle)
        return math.copysign(low, self.value)

    @cached_property
    def _correlation(self) -> float:
        scale = self.one.residual.standard_error * self.other.residual.standard_error
        return min(max(self.shared.noise / scale, -1.0), 1.0) if scale > 0.0 else 0.0

    def _reaches(self, critical_value: float) -> tuple[float, float, float, float]:
        """Return how far each arm's limits are from its ratio: low and high of one, low and high of the other."""
        one, other = self.one.limits(critical_value), self.other.limits(critical_value)
        mine, others = self.one.value, self.other.value
        return mine - one.low, one.high - mine, others - other.low, other.high - others

    def _combine(self, one: float, other: float) -> float:
        if math.isinf(one) or math.isinf(other):
            return math.inf
        return math.sqrt(max((one * one + other * other) - 2.0 * self._correlation * (one * other), 0.0))


def ratio_pair(moments: Moments, above: FloatArray, below: FloatArray, *, arm: int, versus: int) -> RatioPair | None:
    """Return the comparison of two arms in sum(above * counts) / sum(below * counts); None for a base below one.

    Args:
        moments: of the counts.
        above: weights of the numerator, float64 [outcomes * bins].
        below: weights of the denominator, float64 [outcomes * bins], >= 0.
        arm: index of one arm.
        versus: index of the other.
    """
    is_share = bool(np.isin(above, (0.0, 1.0)).all() and np.isin(below, (0.0, 1.0)).all() and (above <= below).all())
    found, residuals = [], []
    for index in (arm, versus):
        base = moments.total(index, below)
        if base < 1.0:
            return None
        total = moments.total(index, above)
        residual = (above - total / base * below) / base
        found.append(
            ArmRatio(
                total,
                base,
                moments.covariance(index, residual, index, residual),
                (
                    moments.covariance(index, above, index, above),
                    moments.covariance(index, above, index, below),
                    moments.covariance(index, below, index, below),
                ),
                moments.reports_per_device,
                is_share,
            )
        )
        residuals.append(residual)
    return RatioPair(found[0], found[1], moments.covariance(arm, residuals[0], versus, residuals[1]))


def _lift_root(
    value: float, base: float, reach: float, base_reach: float, correlation: float, *, is_high: bool
) -> float:
    """Return the theta at which the interval of R_1 - theta R_0 ends at zero."""
    middle = value * base - correlation * reach * base_reach
    square, base_square = value * value - reach * reach, base * base - base_reach * base_reach
    root = math.sqrt(max(middle * middle - base_square * square, 0.0))
    if is_high:
        return (middle + root) / base_square
    return square / (middle + root) if middle + root > 0.0 else 0.0
