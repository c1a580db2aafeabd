"""Compares arms in a team's own metric, of which each device reports the bin of a window's result.

The mean of an arm is that of the values that stand for the bins, M = sum v_b n_b / sum w_b n_b, with w_b = 1; where
`needs_record` w_0 = 0, for devices that recorded nothing have no result.  v is scaled to [0, 1] by the highest value.

    difference  M_T - M_C, turned so that more is worse
    variance    sum over arms of  r (Q / N - M^2) / N  +  g' V g,    Q = sum v^2 n,  N = sum w n,  g = (v - w M) / N

with r the reports that one device may have given, and one device more at the lowest and one at the highest value for
the variance alone: what was not seen yet has a variance (Agresti and Coull 1998, of which this is the form for values
between 0 and 1).  For SAFE the variance is at least the part of the largest one, M (1 - M), that a difference at the
margin would have: the larger of what was seen and of what the same spread around the constrained means gives (as
`_shares.py`).

**A metric that says nothing.**  Where all reports of both arms are in one bin, as far as the noise lets see, no
difference can be found, and none is ruled out: nobody records the metric under its name, or its edges lie beyond what
is recorded.  The verdict is then inconclusive and says which bin it is.  It is never "safe".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.bin_metric import BinMetric, find_mute
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.guardrail import GuardKind, GuardVerdict
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.one_sided import GuardTests
from alcove.platform.stats.strata import Stratum, StratumDifference, combine, combine_weights

__all__ = ["evaluate_bin_guardrail"]


def evaluate_bin_guardrail(
    strata: Sequence[Stratum],
    metric: BinMetric,
    margin: float,
    *,
    control: int,
    treatment: int,
    tests: GuardTests,
) -> GuardVerdict:
    """Return what a guardrail says of a metric in bins.

    Args:
        strata: the reports of each stage, the present one last; at least one.
        metric: what is watched.
        margin: by how much the treatment's mean may be worse, in the metric's unit; in [0, its highest value).
        control: index of the arm without the change.
        treatment: index of the arm with it.
        tests: the bounds of the difference.

    Raises:
        ArgumentError: an argument is out of its bounds, or the aggregates have no such arm or bins.
    """
    if not strata:
        raise ArgumentError("strata", "at least one", 0)
    arms = strata[-1].aggregate.arms
    if not (0 <= control < arms and 0 <= treatment < arms and control != treatment):
        raise ArgumentError("control, treatment", f"two arms in [0, {arms})", (control, treatment))
    scale = metric.bin_values[-1]
    if not 0.0 <= margin < scale:
        raise ArgumentError("margin", f"in [0, {scale:g}), the highest value of a bin", margin)
    measured = [_Measured(stratum, metric, treatment, control) for stratum in strata]
    reason = find_mute([stratum.aggregate for stratum in strata], metric, (treatment, control))
    known = [each for each in measured if each.variation <= MAX_SIZE_VARIATION]
    if not (reason or known):
        variation = measured[-1].variation
        reason = f"noise leaves an arm uncertain by {variation:.0%} of at most {MAX_SIZE_VARIATION:.0%}"
        reason = "an arm has no result" if math.isinf(variation) else reason
    if reason:
        return GuardVerdict(GuardKind.INCONCLUSIVE, None, None, None, f"{metric.name}: {reason}")
    differences = [each.difference(None) for each in known]
    weights = combine_weights(differences)
    seen_difference = combine(differences, weights)
    value = float(seen_difference.value)
    low = max(value - tests.harm.critical_value() * float(seen_difference.standard_error), -1.0)
    high = math.inf
    if tests.safe is not None:
        at_margin = combine([each.difference(margin / scale) for each in known], weights)
        high = min(value + tests.safe.critical_value() * float(at_margin.standard_error), 1.0)
    return _verdict(metric, margin, value * scale, low * scale, high * scale)


class _Measured:
    """One stratum's means of both arms, scaled to [0, 1] and turned so that more is worse."""

    def __init__(self, stratum: Stratum, metric: BinMetric, treatment: int, control: int) -> None:
        self.stratum = stratum
        aggregate = stratum.aggregate
        numerator, base = metric.weights(aggregate)
        scaled = numerator / metric.bin_values[-1]
        worse = base - scaled if metric.is_more_better else scaled
        found = [_ArmMean.of(aggregate, arm, worse, base) for arm in (treatment, control)]
        self._treatment, self._control = found
        self.variation = max(arm.size_variation for arm in found)
        gradient = found[0].gradient - found[1].gradient
        self._noise = max(float(gradient @ aggregate.noise_covariance @ gradient), 0.0)

    def difference(self, margin: float | None) -> StratumDifference:
        """Return it with the variance that was seen, or at least the one that a difference of `margin` has."""
        per_device = self.stratum.reports_per_device
        arms = (self._treatment, self._control)
        sampling = per_device * sum(arm.variance / arm.size for arm in arms)
        if margin is not None:
            sampling = max(sampling, per_device * self._variance_at(margin))
        return StratumDifference(
            value=np.array(self._treatment.mean - self._control.mean),
            sampling=np.array(sampling),
            noise=np.array(self._noise),
            devices=self.stratum.effective_reports / per_device,
        )

    def _variance_at(self, margin: float) -> float:
        """Return the sampling variance around means that are `margin` apart, with the spread that was seen."""
        arms = (self._treatment, self._control)
        size = sum(arm.size for arm in arms)
        pooled = (sum(arm.size * min(max(arm.mean, 0.0), 1.0) for arm in arms) - self._treatment.size * margin) / size
        control = min(max(pooled, 0.0), 1.0 - margin)
        spread = max(arm.spread for arm in arms)
        return sum(
            spread * mean * (1.0 - mean) / arm.size for arm, mean in zip(arms, (control + margin, control), strict=True)
        )


@dataclass(frozen=True, eq=False)
class _ArmMean:
    """One arm's mean.

    Attributes:
        size: reports in the denominator, at least 1.
        mean: of the values, in [0, 1] but for noise.
        variance: of one report's value.
        spread: part of the largest variance, mean (1 - mean), that it is; in (0, 1].
        gradient: of the mean by the counts, [cells].
        size_variation: standard error of the size from noise alone, relative to it; infinite below one report.
    """

    size: float
    mean: float
    variance: float
    spread: float
    gradient: FloatArray
    size_variation: float

    @classmethod
    def of(cls, aggregate: Aggregate, arm: int, weights: FloatArray, base: FloatArray) -> "_ArmMean":
        """Return the mean of an arm with these weights, [outcomes, bins]."""
        counts = aggregate.estimates[arm]
        seen = float((counts * base).sum())
        size = max(seen, 1.0)
        total, squares = float((counts * weights).sum()), float((counts * weights**2).sum())
        bounded = min(max(total, 0.0), size)
        smoothed = (bounded + 1.0) / (size + 2.0)
        largest = smoothed * (1.0 - smoothed)
        variance = (min(max(squares, 0.0), bounded) + 1.0) / (size + 2.0) - smoothed**2
        variance = min(max(variance, 0.0), largest)
        gradient = np.zeros(aggregate.estimates.shape)
        gradient[arm] = (weights - base * (total / size)) / size
        place = np.zeros(aggregate.estimates.shape)
        place[arm] = base
        flat = place.ravel()
        noise = math.sqrt(max(float(flat @ aggregate.noise_covariance @ flat), 0.0))
        variation = math.inf if seen < 1.0 else noise / size
        return cls(size, total / size, variance, max(variance / largest, 1e-9), gradient.ravel(), variation)


def _verdict(metric: BinMetric, margin: float, value: float, low: float, high: float) -> GuardVerdict:
    if low > margin:
        kind, seen = GuardKind.HARMFUL, f"at least {low:.5g}, above"
    elif high < margin:
        kind, seen = GuardKind.SAFE, f"at most {high:.5g}, below"
    elif math.isinf(high):
        kind, seen = GuardKind.INCONCLUSIVE, f"at least {low:.5g}, around"
    else:
        kind, seen = GuardKind.INCONCLUSIVE, f"between {low:.5g} and {high:.5g}, around"
    sides = "control minus treatment" if metric.is_more_better else "treatment minus control"
    return GuardVerdict(
        kind,
        value,
        low if math.isfinite(low) else None,
        high if math.isfinite(high) else None,
        f"{metric.name}: {sides} is {seen} the margin of {margin:g}",
    )
