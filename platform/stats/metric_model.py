"""Models what devices of an arm are expected to report, and the ratio that is read from it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.bin_metric import BinMetric
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.latency_bins import answer_outcomes
from alcove.registry.policy.layout import HistogramLayout

_NEAREST = 1e-9  # of a share to 0 and 1, where nothing would vary
_STEEPEST = 60.0  # slope of a tilt over the whole range: cells at its other end are then empty
_ROUNDS = 60  # bisections of it


@dataclass(frozen=True, eq=False)
class MetricModel:
    """An arm's expected distribution, and the ratio of it that is compared.

    Attributes:
        weights: of each cell in the numerator, [outcomes, bins].
        base: of each cell in the denominator, [outcomes, bins].
        probabilities: of the cells in an arm, [outcomes, bins], summing to 1.
        is_tilted: whether a difference of a mean moves devices from cell to cell (`bin_model`); else their values move.
    """

    weights: FloatArray
    base: FloatArray
    probabilities: FloatArray
    is_tilted: bool = False

    @property
    def rate(self) -> float:
        """The ratio that is expected."""
        return float((self.probabilities * self.weights).sum() / (self.probabilities * self.base).sum())

    @property
    def variance(self) -> float:
        """Variance of one report's value around the ratio, among those in the denominator."""
        spread = self.weights - self.rate * self.base
        return float((self.probabilities * spread**2).sum() / (self.probabilities * self.base).sum())

    @property
    def is_share(self) -> bool:
        """Whether it is a part of the denominator, in [0, 1]; else it is a mean."""
        is_part = (self.weights == 0.0) | ((self.weights == 1.0) & (self.base == 1.0))
        return bool(is_part.all() and np.isin(self.base, (0.0, 1.0)).all())

    @property
    def range(self) -> tuple[float, float] | None:
        """Lowest and highest ratio that an arm can have; None where there are no ends."""
        if self.is_share:
            return 0.0, 1.0
        if not self.is_tilted:
            return None
        values = self._values[self.probabilities * self.base > 0.0]
        return float(values.min()), float(values.max())

    @property
    def _values(self) -> FloatArray:
        """What each cell of the denominator stands for; 0 for the others."""
        return np.divide(self.weights, self.base, out=np.zeros_like(self.weights), where=self.base > 0.0)

    def shift(self, effect: float) -> "MetricModel":
        """Return the model of an arm whose ratio is larger by `effect`; smaller where that is negative.

        A share takes devices from the rest of its denominator, cell by cell in proportion, and ends just short of 0 and
        1; a mean keeps its distribution, as where every value moves, or where it `is_tilted` devices move to other
        cells: the part of a cell with value v changes by a factor exp(t v), the least change in the sense of Kullback
        and Leibler that gives the mean.
        """
        rate = self.rate
        if self.is_tilted and effect:
            return self._tilt(rate + effect)
        target = min(max(rate + effect, _NEAREST), 1.0 - _NEAREST)
        if not self.is_share or target == rate:
            return self
        inside = self.weights == 1.0
        rest = (self.base == 1.0) & ~inside
        size = float((self.probabilities * self.base).sum())
        probabilities = self.probabilities.copy()
        for cells, before, after in ((inside, rate, target), (rest, 1.0 - rate, 1.0 - target)):
            even = size * after / int(cells.sum())  # where no device was expected
            probabilities[cells] = even if before <= 0.0 else probabilities[cells] * (after / before)
        return replace(self, probabilities=probabilities)

    def _tilt(self, mean: float) -> "MetricModel":
        low, high = self.range or (0.0, 1.0)
        width = high - low
        mean = min(max(mean, low + _NEAREST * width), high - _NEAREST * width)
        own = self.probabilities * self.base
        scaled = (self._values - low) / width

        def weigh(slope: float) -> FloatArray:
            factors = np.exp(slope * scaled - max(slope, 0.0))
            return own * factors / float((own * factors).sum())

        target = (mean - low) / width
        least, most = -_STEEPEST, _STEEPEST
        for _ in range(_ROUNDS):
            middle = (least + most) / 2.0
            is_below = float((weigh(middle) * scaled).sum()) < target
            least, most = (middle, most) if is_below else (least, middle)
        inside = weigh((least + most) / 2.0) * float(own.sum())
        return replace(self, probabilities=np.where(self.base > 0.0, inside, self.probabilities))

    def at_cells(self, layout: HistogramLayout) -> "MetricModel":
        """Return the model of the cells that reports name, [cells of an arm].

        Args:
            layout: of the reports; its full array is that of this model, or has outcomes besides that nobody meets.
                What a group of outcomes counts as one must have one weight here.
        """
        found = np.zeros((3, layout.arm_cell_count))
        outcomes, bins = self.probabilities.shape
        for outcome in range(outcomes):
            own = layout.latency_bins_of(outcome)
            for place in range(bins if own else 0):
                latency, covariate = divmod(place, layout.covariate_bins)
                cell = layout.cell_index(0, outcome, latency if own > 1 else 0, covariate)
                found[:2, cell] = self.weights[outcome, place], self.base[outcome, place]
                found[2, cell] += self.probabilities[outcome, place]
        return MetricModel(found[0], found[1], found[2] / found[2].sum())


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


def slow_model(rate: float, *, outcomes: int, bins: int, slow_bins: int) -> MetricModel:
    """Return the model of the share of answers in the last `slow_bins` bins: `rate`, all answers, bins alike.

    Raises:
        ArgumentError: rate not in (0, 1), or no such bins.
    """
    if not 0.0 < rate < 1.0:
        raise ArgumentError("base_rate", "in (0, 1)", rate)
    if not 0 < slow_bins < bins:
        raise ArgumentError("slow_bins", f"in [1, {bins})", slow_bins)
    answers = list(answer_outcomes(outcomes))
    probabilities, weights, base = (np.zeros((outcomes, bins)) for _ in range(3))
    base[answers] = 1.0
    weights[answers, -slow_bins:] = 1.0
    is_slow = weights[answers[0]] > 0.0
    probabilities[answers] = np.where(is_slow, rate / slow_bins, (1.0 - rate) / (bins - slow_bins)) / len(answers)
    return MetricModel(weights, base, probabilities)


def bin_model(metric: BinMetric, parts: Sequence[float], *, as_harm: bool = False) -> MetricModel:
    """Return the model of a team's own metric: the mean of its bins' values, in the order of a task's cells.

    Args:
        metric: which.
        parts: of the devices in each bin, of sum 1; at least two bins with a result have some.
        as_harm: the mean as guardrails read it, over the highest value, and turned so that more is worse.

    Raises:
        ArgumentError: another number of parts than of bins.
    """
    values = np.array(metric.bin_values)
    if len(parts) != len(values):
        raise ArgumentError("parts", f"one for each of {len(values)} bins", parts)
    base = np.ones(len(values))
    base[0] = 0.0 if metric.needs_record else 1.0
    if as_harm:
        values = values / values[-1]
        values = 1.0 - values if metric.is_more_better else values
    return MetricModel(values * base, base, np.array(parts, dtype=np.float64), is_tilted=True)


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
