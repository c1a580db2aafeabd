"""Plans an experiment before anything is sent: the difference that it can find, or the devices that it needs.

Closed form, for randomised response with k cells and privacy loss epsilon, p = e^epsilon / (e^epsilon + k - 1) and
q = (1 - p) / (k - 1). A device in arm a (share f, accuracy A) changes the estimate of A by r / n with r = (1 - A) /
f in a successful cell and -A / f in another; over all k cells of two arms the weights w = r of one arm, -r of the
other have variance, per report and seen through the response,

    s^2 = ( q sum w^2 + (p - q) E[w^2] - q^2 (sum w)^2 ) / (p - q)^2
          sum w^2 = bins sum_a ((1 - A)^2 + (outcomes - 1) A^2) / f^2        each cell, full or empty, receives noise
          E[w^2]  = sum_a A (1 - A) / f                                     the devices' own sampling
          sum w   = bins (g_1 - g_0),  g = ((1 - A) - (outcomes - 1) A) / f

(the covariance of the counts, n (diag(mu) - mu mu') with mu = q + (p - q) pi, applied to w). The latencies drop
out: only their number of bins counts. When a device reports in several windows, s^2 grows by (windows - 1) E[w^2]: the
noise of each report is its own, but the devices may all answer the same again. With n reports the standard error of
the difference is s / sqrt(n), and an effect d is found with a given power at one look when
d = (multiplier + z_power) s / sqrt(n).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from alcove.platform.stats.confidence_sequence import multiplier, normal_quantile
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.privacy.limits import MAX_EPSILON, MIN_EPSILON


@dataclass(frozen=True)
class Design:
    """A planned experiment; the compared arms have equal shares.

    Several windows are planned as `compare(reports_per_device=windows)` reads them.

    Attributes:
        epsilon: privacy loss of one report, bounds in privacy/limits.py; a device spends `windows` times as much.
        base_rate: accuracy of the control, in (0, 1).
        arms: number of arms, >= 2.
        outcomes: number of outcomes, >= 2.
        bins: number of bins, >= 1.
        windows: reports of each device, >= 1.
        alpha: error of the comparison over all looks, in (0, 1); shared by all pairs of arms.
        power: chance to find the effect at one look when all reports are in, in [0.5, 1).

    Raises:
        ArgumentError: a field is out of its bounds.
    """

    epsilon: Fraction
    base_rate: float
    arms: int = 2
    outcomes: int = 2
    bins: int = 4
    windows: int = 1
    alpha: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        for name, value, least in (
            ("arms", self.arms, 2),
            ("outcomes", self.outcomes, 2),
            ("bins", self.bins, 1),
            ("windows", self.windows, 1),
        ):
            if value < least:
                raise ArgumentError(name, f"at least {least}", value)
        if not MIN_EPSILON <= self.epsilon <= MAX_EPSILON:
            raise ArgumentError("epsilon", f"in [{MIN_EPSILON}, {MAX_EPSILON}]", self.epsilon)
        for name, part in (("base_rate", self.base_rate), ("alpha", self.alpha)):
            if not 0.0 < part < 1.0:
                raise ArgumentError(name, "in (0, 1)", part)
        if not 0.5 <= self.power < 1.0:
            raise ArgumentError("power", "in [0.5, 1)", self.power)

    @property
    def cells(self) -> int:
        """Cells of one report, k."""
        return self.arms * self.outcomes * self.bins

    @property
    def keep_probability(self) -> float:
        """Probability p that a device answers with its own cell."""
        return 1.0 / (1.0 + (self.cells - 1) * math.exp(-float(self.epsilon)))

    def report_deviation(self, effect: float = 0.0) -> float:
        """Return s, what one report contributes to the difference's deviation when one arm is better by `effect`.

        Raises:
            ArgumentError: base_rate + effect is not in [0, 1].
        """
        if not 0.0 <= self.base_rate + effect <= 1.0:
            raise ArgumentError("base_rate + effect", "in [0, 1]", self.base_rate + effect)
        constant, linear, square = self._variance_polynomial()
        return math.sqrt(max(constant + linear * effect + square * effect * effect, 0.0))

    def standard_error(self, devices: int, effect: float = 0.0) -> float:
        """Return the standard error of the difference with so many devices in all arms together.

        Raises:
            ArgumentError: devices < 1, more reports than an aggregate holds, or base_rate + effect not in [0, 1].
        """
        return self.report_deviation(effect) / math.sqrt(self._reports(devices))

    def detectable_difference(self, devices: int) -> float | None:
        """Return the smallest improvement over the base rate found with the stated power, or None where that exceeds 1.

        s^2 is a polynomial of the effect d, so d^2 = (multiplier + z_power)^2 s^2(d) / n is a quadratic equation.

        Args:
            devices: in all arms together; the intervals are taken to be planned for their reports.

        Raises:
            ArgumentError: devices < 1, or more reports than an aggregate holds.
        """
        reports = self._reports(devices)
        weight = self._reach(reports) ** 2 / reports
        constant, linear, square = (weight * part for part in self._variance_polynomial())
        curvature = 1.0 - square
        discriminant = linear * linear + 4.0 * curvature * constant
        if discriminant < 0.0:
            return None
        # The smallest positive root of curvature d^2 - linear d - constant, written so that curvature may be zero
        # or negative.
        denominator = math.sqrt(discriminant) - linear
        if denominator <= 0.0:
            return None
        effect = 2.0 * constant / denominator
        return effect if self.base_rate + effect <= 1.0 else None

    def devices_needed(self, effect: float) -> int:
        """Return how many devices, in all arms together, find an improvement of `effect` with the stated power.

        Args:
            effect: accuracy of the better arm minus the base rate, > 0.

        Raises:
            ArgumentError: effect <= 0, or base_rate + effect above 1.
        """
        if effect <= 0.0:
            raise ArgumentError("effect", "positive", effect)
        # With the plan at the number of reports itself, the multiplier does not depend on that number.
        return math.ceil((self._reach(1) * self.report_deviation(effect) / effect) ** 2 / self.windows)

    def _variance_polynomial(self) -> tuple[float, float, float]:
        """Return c0, c1, c2 of s^2 = c0 + c1 d + c2 d^2 for an effect d: the module's formula, by powers of d."""
        share = 1.0 / self.arms
        rate = self.base_rate
        failures = self.outcomes - 1
        other = (1.0 - self.keep_probability) / (self.cells - 1)
        gap = self.keep_probability - other
        per_cell = other * self.bins / share**2
        constant = per_cell * 2.0 * ((1.0 - rate) ** 2 + failures * rate**2) + gap * 2.0 * rate * (1.0 - rate) / share
        linear = per_cell * 2.0 * (failures * rate - (1.0 - rate)) + gap * (1.0 - 2.0 * rate) / share
        square = per_cell * (1.0 + failures) - gap / share - (other * self.bins * (1.0 + failures) / share) ** 2
        repeats = self.windows - 1.0  # every window but the first may repeat the devices' own part
        return (
            constant / gap**2 + repeats * 2.0 * rate * (1.0 - rate) / share,
            linear / gap**2 + repeats * (1.0 - 2.0 * rate) / share,
            square / gap**2 - repeats / share,
        )

    def _reach(self, reports: int) -> float:
        """Return how many standard errors an effect must have to be found with the stated power."""
        pairs = self.arms * (self.arms - 1) // 2
        factor = multiplier(reports=reports, alpha=self.alpha / pairs, planned_reports=reports)
        return factor + normal_quantile(self.power)

    def _reports(self, devices: int) -> int:
        reports = devices * self.windows
        if not 1 <= reports <= MAX_REPORTS:
            raise ArgumentError("devices * windows", f"in [1, {MAX_REPORTS}]", reports)
        return reports
