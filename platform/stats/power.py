"""Computes how many devices and windows a comparison needs, and which effects it finds, by the test that will run.

An arm w wins where it beats *every* other arm at one analysis. In the case that is planned its ratio is better than
each other one by `effect`, the others are equal, and w is the treatment with the smallest share. With Cov the
covariance of the arms' ratios at the last analysis (`arm_covariance.py`; w at its own rate, base rate and effect
together), the difference of w and j has the standard error

    e_j^2 = Cov_ww + Cov_jj - 2 Cov_wj

and is called at some analysis with probability P_j: the chance that a Brownian motion with the expected score
effect / e_j at the last analysis crosses the test's bounds (`power_curve.py`). The differences share the estimate of w;
given its deviation z, in standard errors, they are independent up to the small covariance of privacy noise, so that

    power = integral phi(z) prod_j Phi( (Phi^-1(P_j) + l_j z) / sqrt(1 - l_j^2) ) dz,
    l_j = (Cov_ww - Cov_wj) / (e_j sqrt(Cov_ww))

by Gauss and Hermite's rule: Dunnett's integral with unequal variances. With two arms it is P_1 itself.

The bounds are those of the confidence sequence, tuned to the last analysis and read at the end of each window, or of
interim analyses at even parts of the reports (`group_sequential.py`). No arm wins before noise leaves the size of each
arm certain up to `MAX_SIZE_VARIATION` (`decision.py`), nor does a plan say so.

Sources: Dunnett, "A multiple comparison procedure for comparing several treatments with a control", JASA 1955; sample
sizes by normal approximation, Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions, 3rd ed., chapter 4
(without continuity correction, each arm with the variance of its own rate).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.arm_covariance import ArmCovariance, ReportModel, ratio_covariance, size_covariance
from alcove.platform.stats.confidence_sequence import critical_value
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.group_sequential import boundaries
from alcove.platform.stats.limits import MAX_REPORTS, MAX_SIZE_VARIATION
from alcove.platform.stats.mechanism import Mechanism
from alcove.platform.stats.metric_model import MetricModel, bin_model, mean_model, ratio_model, share_model, slow_model
from alcove.platform.stats.power_curve import power_curve_of

__all__ = [
    "MAX_DEVICES",
    "MetricModel",
    "PowerModel",
    "bin_model",
    "mean_model",
    "ratio_model",
    "share_model",
    "slow_model",
]

MAX_DEVICES = 10**11
"""More devices than there are: a need beyond it is no plan."""

MAX_ANALYSES = 30
"""Of an experiment that is read at any time, as its plan has them; each costs as much as the last."""

_NODES = 61  # of the quadrature: good to 1e-9 for what is integrated here
_SMALLEST = 1e-12  # probabilities nearer to 0 or 1 have no use
_ROUNDS = 50  # bisections of an effect: below 1e-14 of the largest


class Analyses(NamedTuple):
    """The analyses of a plan.

    Attributes:
        parts: of all reports at each, rising to 1.
        bounds: standard errors that a difference must reach at each.
    """

    parts: tuple[float, ...]
    bounds: tuple[float, ...]


class PowerModel:
    """Power, standard errors, needs and detectable effects of one planned comparison.

    Args:
        model: the metric, in an arm that is not better than the others.
        shares: part of the reports in each arm, > 0, summing to 1; the treatment with the smallest one is the better.
        mechanism: how reports are made private.
        epsilon: privacy loss of one report (randomized response) or one window (aggregators); ignored for EXACT.
        local_epsilon: privacy loss of one report against both aggregators together, where devices also randomize;
            None: they do not.
        subset_size: cells that a randomized report names; 1 with aggregators.
        alpha: error of the comparison over all analyses, in (0, 1); each pair of arms has all of it.
        power: chance to find the effect, in [0.5, 1).
        analyses: how many are planned, equally spaced; 0: any number, always valid, made at the end of each window.
        is_less_better: whether the better arm is the one with the lower ratio.
        sums: noised sums of a window, >= 1, as in `ReportModel`.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """

    def __init__(
        self,
        model: MetricModel,
        shares: Sequence[float],
        mechanism: Mechanism,
        epsilon: Fraction,
        *,
        alpha: float = 0.05,
        power: float = 0.8,
        analyses: int = 0,
        local_epsilon: Fraction | None = None,
        subset_size: int = 1,
        is_less_better: bool = False,
        sums: int = 1,
    ) -> None:
        if len(shares) < 2 or not all(share > 0.0 for share in shares) or not math.isclose(math.fsum(shares), 1.0):
            raise ArgumentError("shares", "two or more, positive, of sum 1", tuple(shares))
        if not 0.0 < alpha < 1.0:
            raise ArgumentError("alpha", "in (0, 1)", alpha)
        if not 0.5 <= power < 1.0:
            raise ArgumentError("power", "in [0.5, 1)", power)
        self._model, self._shares = model, tuple(shares)
        self._reports = ReportModel(mechanism, epsilon, local_epsilon, subset_size, sums=sums)
        self._alpha = alpha
        self._target, self._analyses, self._sign = power, analyses, -1.0 if is_less_better else 1.0
        self._better = min(range(1, len(shares)), key=lambda arm: shares[arm])
        self._others = [arm for arm in range(len(shares)) if arm != self._better]
        self._without_effect = self._covariance(0.0)
        self._sizes = size_covariance([model] * len(shares), self._shares, self._reports)

    @property
    def range(self) -> tuple[float, float] | None:
        """Lowest and highest ratio that an arm can have; None where there are no ends."""
        return self._model.range

    def standard_error(self, devices: float, windows: int = 1, *, effect: float = 0.0) -> float:
        """Return the standard error of the better arm less the control, with `devices` devices in all arms together."""
        return math.sqrt(_variance(self._covariance(effect).total(devices, windows), self._better, 0))

    def power(self, effect: float, devices: float, windows: int = 1) -> float:
        """Return the chance that the arm that is better than each other by `effect` wins.

        Raises:
            ArgumentError: effect is not positive, no devices or windows, or more reports than an aggregate holds.
        """
        if not effect > 0.0:
            raise ArgumentError("effect", "positive", effect)
        return self._power(self._covariance(effect), effect, devices, windows)

    def detectable(self, devices: int, windows: int = 1) -> float | None:
        """Return the smallest effect that is found with the stated power; None where none is, whatever its size.

        Raises:
            ArgumentError: no devices or windows, or more reports than an aggregate holds.
        """
        low, high = 0.0, self._largest_effect(devices, windows)
        if self._power(self._covariance(high), high, devices, windows) < self._target:
            return None
        for _ in range(_ROUNDS):
            middle = (low + high) / 2.0
            is_found = self._power(self._covariance(middle), middle, devices, windows) >= self._target
            low, high = (low, middle) if is_found else (middle, high)
        return high

    def devices_needed(self, mde: float, windows: int = 1) -> int | None:
        """Return the fewest devices in all arms together that find an effect `mde`; None where no plan does.

        Raises:
            ArgumentError: mde is not positive.
        """
        if not mde > 0.0:
            raise ArgumentError("mde", "positive", mde)
        covariance = self._covariance(mde)
        low, high = 0, 1
        while self._power(covariance, mde, high, windows) < self._target:
            low, high = high, high * 2
            if high > MAX_DEVICES or high * windows > MAX_REPORTS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            is_found = self._power(covariance, mde, middle, windows) >= self._target
            low, high = (low, middle) if is_found else (middle, high)
        return high

    def windows_needed(self, mde: float, devices: int, *, most: int) -> int | None:
        """Return the fewest windows in which `devices` find an effect `mde`; None where `most` windows do not.

        Raises:
            ArgumentError: mde is not positive, or devices * most is out of bounds.
        """
        if not mde > 0.0:
            raise ArgumentError("mde", "positive", mde)
        covariance = self._covariance(mde)
        windows = range(1, most + 1)
        # The power rises with the windows, of which there may be hundreds.
        place = bisect_left(windows, True, key=lambda n: self._power(covariance, mde, devices, n) >= self._target)
        return windows[place] if place < most else None

    def _covariance(self, effect: float) -> ArmCovariance:
        """Return the covariance of the arms' ratios where one arm is better by `effect`."""
        if effect == 0.0 and hasattr(self, "_without_effect"):
            return self._without_effect
        models = [self._model] * len(self._shares)
        models[self._better] = self._model.shift(self._sign * effect)
        return ratio_covariance(models, self._shares, self._reports)

    def _power(self, covariance: ArmCovariance, effect: float, devices: float, windows: int) -> float:
        if not devices > 0 or windows < 1 or devices * windows > MAX_REPORTS:
            raise ArgumentError("devices * windows", f"in [1, {MAX_REPORTS}]", devices * windows)
        if float(np.diag(self._sizes.noise(devices, windows)).max()) > MAX_SIZE_VARIATION**2:
            return 0.0
        tables = analyses_of(self._analyses, windows, self._alpha)
        totals = [total_at(covariance, part, devices, windows) for part in tables.parts]
        chances = []
        for other in self._others:
            variances = [_variance(total, self._better, other) for total in totals]
            found = power_curve_of(tuple(1.0 / variance for variance in variances), tables.bounds)
            chances.append(found.power(effect / math.sqrt(variances[-1])))
        return _chance_of_all(chances, totals[-1], self._better, self._others)

    def _largest_effect(self, devices: float, windows: int) -> float:
        """Return an effect that is found if any is: of a share the largest possible, of a mean many standard errors.

        The other arms may be worse by what is too much for one arm to be better.
        """
        ends = self._model.range
        if ends is not None:
            return max(self._model.rate - ends[0], ends[1] - self._model.rate)
        return 1e3 * self.standard_error(devices, windows)


@lru_cache(maxsize=1024)
def analyses_of(analyses: int, windows: int, alpha: float) -> Analyses:
    """Return the analyses of two arms' difference, two-sided at `alpha`: planned ones, or one at each window's end.

    Of more than `MAX_ANALYSES` windows as many are read, evenly spaced: that finds less, so that a plan of hundreds of
    windows asks for a few devices too many, never too few.
    """
    if analyses:
        parts = tuple((analysis + 1) / analyses for analysis in range(analyses))
        return Analyses(parts, boundaries(parts, alpha))
    count = min(windows, MAX_ANALYSES)
    ends = [round((analysis + 1) * windows / count) for analysis in range(count)]
    return Analyses(
        tuple(end / windows for end in ends),
        tuple(critical_value(reports=end, alpha=alpha, planned_reports=windows) for end in ends),
    )


def total_at(covariance: ArmCovariance, part: float, devices: float, windows: int) -> FloatArray:
    """Return the covariance when `part` of the reports of `windows` windows of `devices` devices are in."""
    reached = part * windows
    return covariance.total(devices * min(reached, 1.0), max(reached, 1.0))


def _variance(total: FloatArray, arm: int, other: int) -> float:
    return float(total[arm, arm] + total[other, other] - 2.0 * total[arm, other])


def _chance_of_all(chances: Sequence[float], total: FloatArray, better: int, others: Sequence[int]) -> float:
    """Return the chance that all differences are called, by the integral of the module's docstring."""
    if len(chances) == 1:
        return chances[0]
    normal = NormalDist()
    points, weights = _hermite()
    product: FloatArray = weights.copy()
    for chance, other in zip(chances, others, strict=True):
        score = normal.inv_cdf(min(max(chance, _SMALLEST), 1.0 - _SMALLEST))
        common = float(total[better, better] - total[better, other])
        loading = common / math.sqrt(_variance(total, better, other) * float(total[better, better]))
        loading = min(loading, 1.0 - 1e-6)
        edges = (score + loading * points) / math.sqrt(1.0 - loading * loading)
        product *= np.array([normal.cdf(edge) for edge in edges.tolist()])
    return float(product.sum())


@lru_cache(maxsize=1)
def _hermite() -> tuple[FloatArray, FloatArray]:
    """Return points of a standard normal variable and their weights."""
    points, weights = np.polynomial.hermite.hermgauss(_NODES)
    return points * math.sqrt(2.0), weights / math.sqrt(math.pi)
