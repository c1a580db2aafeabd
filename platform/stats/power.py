"""Computes how many devices and windows a comparison needs, and which effects it finds, under a privacy mechanism.

With N reports in all arms, a metric R = sum w n / sum b n per arm (`metrics.py`) has residuals rho_c = N r_c that don't
depend on N, so that the variance of the difference of two arms falls apart into three numbers:

    Var = S / devices  +  A / (devices * windows)  +  L / (devices^2 * windows)

    S   sampling: the sum over both arms of Var(w - R b) / (share of the arm); not divided by the windows, the worst
        case in which a device answers the same in each
    A   randomized response: each report brings its own noise; sum_j pi_j (sum_c P_jc rho_c^2 - (sum_c P_jc rho_c)^2)
        / (p - q)^2 with P_jc = q + (p - q) [j = c] (`randomized_response.py`, per report)
    L   aggregators: each window brings the noise of its cells; variance of a cell times sum rho_c^2; where devices also
        randomize, A comes to it and L is divided by (p - q)^2

An effect `mde` is found with probability `power` at the analysis where all reports are in, when

    mde >= (critical_value + z_power) sqrt(Var)

with the critical value of the confidence sequence tuned to that analysis and alpha shared by all pairs of arms
(Bonferroni).  With interim analyses `critical_value + z_power` is the drift at which they call with that probability
(`group_sequential.py`).
Sources: sample sizes by normal approximation, Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions,
3rd ed., chapter 4 (without continuity correction); the critical value as in `confidence_sequence.py`; variances as
cited.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.aggregator_noise import cell_variance
from alcove.platform.stats.confidence_sequence import critical_value, normal_quantile
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.group_sequential import drift
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.platform.stats.mechanism import Mechanism
from alcove.privacy.errors import ParameterError
from alcove.privacy.randomized_response import RandomizedResponse

MAX_DEVICES = 10**11
"""More devices than there are: a need beyond it is no plan."""


@dataclass(frozen=True, eq=False)
class MetricModel:
    """An arm's expected distribution, and the ratio of it that is compared.

    Attributes:
        weights: of each cell in the numerator, [outcomes, bins].
        base: of each cell in the denominator, [outcomes, bins].
        probabilities: of the cells in an arm, [outcomes, bins], summing to 1.
    """

    weights: FloatArray
    base: FloatArray
    probabilities: FloatArray


def share_model(rate: float, *, outcome: int = 1, outcomes: int = 2, bins: int = 1) -> MetricModel:
    """Return the model of an outcome's share: `rate`, the rest evenly among the other outcomes, all bins alike.

    Raises:
        ArgumentError: rate not in (0, 1), or no such outcome.
    """
    if not 0.0 < rate < 1.0:
        raise ArgumentError("base_rate", "in (0, 1)", rate)
    if not 0 <= outcome < outcomes:
        raise ArgumentError("outcome", f"in [0, {outcomes})", outcome)
    probabilities = np.full((outcomes, bins), (1.0 - rate) / (outcomes - 1) / bins)
    probabilities[outcome] = rate / bins
    weights = np.zeros((outcomes, bins))
    weights[outcome] = 1.0
    return MetricModel(weights, np.ones((outcomes, bins)), probabilities)


def mean_model(bin_values: Sequence[float], *, outcomes: int = 2) -> MetricModel:
    """Return the model of the mean of a binned value, all cells equally likely: what is known before any report."""
    bins = len(bin_values)
    return MetricModel(
        np.tile(np.asarray(bin_values, dtype=np.float64), (outcomes, 1)),
        np.ones((outcomes, bins)),
        np.full((outcomes, bins), 1.0 / (outcomes * bins)),
    )


def ratio_model(
    rate: float,
    *,
    numerator: Sequence[int],
    denominator: Sequence[int],
    outcomes: int,
    bins: int,
    denominator_share: float = 1.0,
) -> MetricModel:
    """Return the model of a ratio of outcomes: of `denominator_share` of the devices `rate` are in the numerator.

    Inside each group (numerator, rest of the denominator, rest of all) cells are alike, which the variances don't see:
    they read the groups' sums only.

    Args:
        rate: expected ratio, in (0, 1).
        numerator: outcomes, part of the denominator's.
        denominator: outcomes.
        outcomes: counted ones.
        bins: of each outcome.
        denominator_share: part of all devices with an outcome of the denominator, in (0, 1]; 1 where it has them all.

    Raises:
        ArgumentError: a share out of its bounds.
    """
    if not 0.0 < rate < 1.0:
        raise ArgumentError("base_rate", "in (0, 1)", rate)
    is_all = len(denominator) == outcomes
    if not 0.0 < denominator_share <= 1.0 or (is_all and denominator_share < 1.0):
        bound = "1, for the denominator has every outcome that is counted" if is_all else "in (0, 1]"
        raise ArgumentError("denominator_share", bound, denominator_share)
    inside = [outcome for outcome in denominator if outcome not in numerator]
    outside = [outcome for outcome in range(outcomes) if outcome not in denominator]
    probabilities, weights, base = (np.zeros((outcomes, bins)) for _ in range(3))
    probabilities[list(numerator)] = denominator_share * rate / (len(numerator) * bins)
    probabilities[inside] = denominator_share * (1.0 - rate) / (len(inside) * bins)
    if outside:
        probabilities[outside] = (1.0 - denominator_share) / (len(outside) * bins)
    weights[list(numerator)] = 1.0
    base[list(denominator)] = 1.0
    return MetricModel(weights, base, probabilities)


class PowerModel:
    """Standard errors, needs and detectable effects of one planned comparison.

    Args:
        model: the metric.
        shares: part of the reports in each arm, > 0, summing to 1; the weakest pair with arm 0 is planned for.
        mechanism: how reports are made private.
        epsilon: privacy loss of one report (randomized response) or one window (aggregators); ignored for EXACT.
        local_epsilon: privacy loss of one report against both aggregators together, where devices also randomize;
            None: they do not.
        alpha: error of the comparison over all analyses, in (0, 1); shared by all pairs of arms.
        power: chance to find the effect, in [0.5, 1).
        analyses: how many are planned, equally spaced; 0: any number, always valid.

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
    ) -> None:
        if len(shares) < 2 or not all(share > 0.0 for share in shares) or not math.isclose(math.fsum(shares), 1.0):
            raise ArgumentError("shares", "two or more, positive, of sum 1", tuple(shares))
        if not 0.0 < alpha < 1.0:
            raise ArgumentError("alpha", "in (0, 1)", alpha)
        if not 0.5 <= power < 1.0:
            raise ArgumentError("power", "in [0.5, 1)", power)
        pairs = len(shares) * (len(shares) - 1) // 2
        self._critical_score = (
            drift(analyses, alpha=alpha / pairs, power=power)
            if analyses
            else critical_value(reports=1, alpha=alpha / pairs, planned_reports=1) + normal_quantile(power)
        )
        weakest = min(range(1, len(shares)), key=lambda arm: shares[arm])
        per_cell = model.probabilities
        rate = float((per_cell * model.weights).sum() / (per_cell * model.base).sum())
        spread = (model.weights - rate * model.base) / float((per_cell * model.base).sum())
        rho = np.zeros((len(shares), *per_cell.shape))
        rho[weakest], rho[0] = spread / shares[weakest], -spread / shares[0]
        own = float((per_cell * spread**2).sum())
        self._sampling = own / shares[weakest] + own / shares[0]
        self._per_report = self._per_window = 0.0
        cells = np.asarray(shares)[:, None, None] * per_cell
        if mechanism is Mechanism.RANDOMIZED_RESPONSE:
            self._per_report, _ = _response_noise(cells, rho, epsilon)
        elif mechanism is Mechanism.PRIO3:
            gap = 1.0
            if local_epsilon is not None:
                self._per_report, gap = _response_noise(cells, rho, local_epsilon)
            self._per_window = cell_variance(epsilon) * float((rho**2).sum()) / gap**2

    def standard_error(self, devices: float, windows: int = 1) -> float:
        """Return the standard error of the difference with `devices` devices in all arms together."""
        return math.sqrt(
            self._sampling / devices
            + self._per_report / (devices * windows)
            + self._per_window / (devices * devices * windows)
        )

    def detectable(self, devices: int, windows: int = 1) -> float:
        """Return the smallest effect that is found with the stated power.

        Raises:
            ArgumentError: no devices or windows, or more reports than an aggregate holds.
        """
        if devices < 1 or windows < 1 or devices * windows > MAX_REPORTS:
            raise ArgumentError("devices * windows", f"in [1, {MAX_REPORTS}]", devices * windows)
        return self._critical_score * self.standard_error(devices, windows)

    def devices_needed(self, mde: float, windows: int = 1) -> int | None:
        """Return the fewest devices in all arms together that find an effect `mde`; None where no plan does.

        Raises:
            ArgumentError: mde is not positive.
        """
        if not mde > 0.0:
            raise ArgumentError("mde", "positive", mde)
        low, high = 0, 1
        while self.detectable(high, windows) > mde:
            low, high = high, high * 2
            if high > MAX_DEVICES or high * windows > MAX_REPORTS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.detectable(middle, windows) > mde else (low, middle)
        return high

    def windows_needed(self, mde: float, devices: int, *, most: int) -> int | None:
        """Return the fewest windows in which `devices` find an effect `mde`; None where `most` windows do not.

        Raises:
            ArgumentError: mde is not positive, or devices * most is out of bounds.
        """
        if not mde > 0.0:
            raise ArgumentError("mde", "positive", mde)
        return next((windows for windows in range(1, most + 1) if self.detectable(devices, windows) <= mde), None)


def _response_noise(cells: FloatArray, rho: FloatArray, epsilon: Fraction) -> tuple[float, float]:
    """Return A of the module's docstring, and p - q."""
    try:
        mechanism = RandomizedResponse(cells.size, epsilon)
    except ParameterError as error:
        raise ArgumentError(error.name, error.bound, error.value) from error
    other = float(mechanism.other_probability)
    gap = float(mechanism.keep_probability) - other
    squares = other * float((rho**2).sum()) + gap * rho**2
    means = other * float(rho.sum()) + gap * rho
    return float((cells * (squares - means**2)).sum()) / gap**2, gap
