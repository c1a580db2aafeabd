"""Compares two groups of devices once, on a last day: a mirror group with the holdout, over several months.

A month m is a stratum: its reports are of both groups, of equal planned size, and give a difference of the metric
D_m = R_1m - R_0m, mirror less holdout, R a ratio of sums inside a group.  What is tested is their weighted mean by the
weights and the standard error of `strata.py`, in which the same devices say the same in each month, the worst case:

    D = sum g_m D_m        z = D / se(D)        p = 2 (1 - Phi(|z|))        interval D +- z_{1-alpha/2} se(D)

a fixed test, read once: an analysis before the last day would need another.  The relative lift L with 1 + L = R_1 / R_0
has the interval of all theta - 1 for which sum g_m (R_1m - theta R_0m) is within the same number of its own standard
errors of zero (Fieller 1954, over strata), so that it excludes 0 exactly where the difference does.

**Sample ratio.**  First it is tested, at `SAMPLE_RATIO_ALPHA`, that both groups sent as many reports.  Devices that
leave the app leave both groups; where one group reports less, something besides the versions' quality makes it so.

A month in which noise leaves a group's size unsure by more than `MAX_SIZE_VARIATION` says nothing and is left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats._ratio import Covariance, Interval, Moments
from alcove.platform.stats.aggregate import FloatArray, pool
from alcove.platform.stats.confidence_sequence import normal_quantile
from alcove.platform.stats.decision import ReasonCode
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.limits import MAX_SIZE_VARIATION, SAMPLE_RATIO_ALPHA
from alcove.platform.stats.ratio_pairs import RatioPair, ratio_pair
from alcove.platform.stats.strata import Stratum, StratumDifference, combine, combine_weights

__all__ = ["GroupDifference", "compare_groups"]

_ROUNDS = 40  # bisections of a lift's limits
_WIDEST = 1e6  # ratio of two levels beyond which a limit is none


@dataclass(frozen=True)
class GroupDifference:
    """The result of `compare_groups`; all but code and reason are None where nothing can be said.

    Attributes:
        code: NO_REPORTS, SAMPLE_RATIO_MISMATCH, BELOW_MINIMUM_COHORT (a group without a report in the metric),
            PRIVACY_NOISE, INTERVAL_INCLUDES_ZERO, or BETTER: the interval excludes zero, on either side.
        reason: the bound and the value seen, for people.
        held_out: mean of the metric in the holdout, over the months as they were weighed.
        value: mirror group less holdout.
        interval: of the value.
        standard_error: of the value, sampling and noise.
        noise_percent: by how many per cent of itself the standard error would shrink without privacy noise.
        p_value: of no difference.
        lift: of the mirror group, relative to the holdout; None where that is not above zero.
        lift_interval: None where unbounded.
        strata: months that were read.
    """

    code: ReasonCode
    reason: str
    held_out: float | None = None
    value: float | None = None
    interval: Interval | None = None
    standard_error: float | None = None
    noise_percent: float | None = None
    p_value: float | None = None
    lift: float | None = None
    lift_interval: Interval | None = None
    strata: int = 0


def compare_groups(
    strata: Sequence[Stratum], numerator: FloatArray, denominator: FloatArray, *, alpha: float, control: int = 0
) -> GroupDifference:
    """Return how the two groups of an aggregate differ in a ratio of sums.

    Args:
        strata: the reports of each month, of two groups.
        numerator: weight of each cell, [outcomes, bins].
        denominator: likewise, at least 0.
        alpha: error of the interval, in (0, 1).
        control: index of the holdout.

    Raises:
        ArgumentError: no strata, other than two groups, or alpha out of its bounds.
    """
    if not strata or any(stratum.aggregate.arms != 2 for stratum in strata):
        raise ArgumentError("strata", "at least one, each of two groups", [each.aggregate.arms for each in strata])
    if not 0.0 < alpha < 1.0:
        raise ArgumentError("alpha", "in (0, 1)", alpha)
    read = [stratum for stratum in strata if stratum.aggregate.reports > 0]
    if not read:
        return GroupDifference(ReasonCode.NO_REPORTS, "there are no reports")
    if mismatch := _find_mismatch(read, control):
        return GroupDifference(ReasonCode.SAMPLE_RATIO_MISMATCH, mismatch)
    above, below = numerator.astype(np.float64).ravel(), denominator.astype(np.float64).ravel()
    pairs = [
        (
            stratum,
            ratio_pair(
                Moments(stratum.aggregate, stratum.reports_per_device), above, below, arm=1 - control, versus=control
            ),
        )
        for stratum in read
    ]
    found = [(stratum, pair) for stratum, pair in pairs if pair is not None]
    if not found:
        return GroupDifference(ReasonCode.BELOW_MINIMUM_COHORT, "a group has no report that the metric reads")
    known = [(stratum, pair) for stratum, pair in found if _variation(pair) <= MAX_SIZE_VARIATION]
    if not known:
        least = min(_variation(pair) for _, pair in found)
        bound = f"at most {MAX_SIZE_VARIATION:.0%}"
        reason = f"privacy noise leaves the size of a group uncertain by {least:.0%} in each month, of {bound}"
        return GroupDifference(ReasonCode.PRIVACY_NOISE, reason)
    return _compare(known, normal_quantile(1.0 - alpha / 2.0))


class _Combined:
    """The weighted mean over months of R_1 - theta R_0, for any theta, with weights fixed at theta = 1."""

    def __init__(self, known: Sequence[tuple[Stratum, RatioPair]]) -> None:
        self._known = known
        self.weights = combine_weights([self._difference(*each, 1.0) for each in known])

    def at(self, theta: float) -> tuple[float, float]:
        """Return value and standard error."""
        seen = combine([self._difference(*each, theta) for each in self._known], self.weights)
        return float(seen.value), float(seen.standard_error)

    def level(self) -> float:
        """Return the mean of the holdout."""
        values = [pair.other.value for _, pair in self._known]
        return math.fsum(float(part) * value for part, value in zip(self.weights, values, strict=True))

    def sampling_error(self) -> float:
        """Return the standard error of the difference without privacy noise."""
        plain = [self._difference(*each, 1.0) for each in self._known]
        bare = [StratumDifference(one.value, one.sampling, np.zeros(()), one.devices) for one in plain]
        return float(combine(bare, self.weights).standard_error)

    def _difference(self, stratum: Stratum, pair: RatioPair, theta: float) -> StratumDifference:
        variance = _variance(pair, theta)
        return StratumDifference(
            value=np.array(pair.one.value - theta * pair.other.value),
            sampling=np.array(variance.sampling),
            noise=np.array(variance.noise),
            devices=stratum.effective_reports / stratum.reports_per_device,
        )


def _compare(known: Sequence[tuple[Stratum, RatioPair]], critical: float) -> GroupDifference:
    combined = _Combined(known)
    value, error = combined.at(1.0)
    level = combined.level()
    interval = Interval(value - critical * error, value + critical * error)
    excludes_zero = interval.low > 0.0 or interval.high < 0.0
    noise = 0.0 if error <= 0.0 else 100.0 * (1.0 - combined.sampling_error() / error)
    text = f"[{interval.low:.4g}, {interval.high:.4g}]"
    return GroupDifference(
        code=ReasonCode.BETTER if excludes_zero else ReasonCode.INTERVAL_INCLUDES_ZERO,
        reason=f"the interval {text} {'excludes' if excludes_zero else 'includes'} zero",
        held_out=level,
        value=value,
        interval=interval,
        standard_error=error,
        noise_percent=noise,
        p_value=math.erfc(abs(value) / error / math.sqrt(2.0)) if error > 0.0 else None,
        lift=value / level if level > 0.0 else None,
        lift_interval=_lift_interval(combined, 1.0 + value / level, critical) if level > 0.0 else None,
        strata=len(known),
    )


def _lift_interval(combined: _Combined, middle: float, critical: float) -> Interval | None:
    """Return the interval of the lift; None where a limit lies beyond all that is sensible."""

    def is_inside(theta: float) -> bool:
        value, error = combined.at(theta)
        return abs(value) <= critical * error

    limits = []
    for sign in (-1.0, 1.0):
        step = max(abs(middle), 1.0) * 1e-3
        while is_inside(middle + sign * step):
            step *= 2.0
            if step > _WIDEST:
                return None
        low, high = 0.0, step
        for _ in range(_ROUNDS):
            half = (low + high) / 2.0
            low, high = (half, high) if is_inside(middle + sign * half) else (low, half)
        limits.append(middle + sign * low - 1.0)
    return Interval(*limits)


def _variance(pair: RatioPair, theta: float) -> Covariance:
    """Return the variance of R_1 - theta R_0."""
    one, other, shared = pair.one.residual, pair.other.residual, pair.shared
    return Covariance(
        sampling=one.sampling + theta * theta * other.sampling - 2.0 * theta * shared.sampling,
        noise=one.noise + theta * theta * other.noise - 2.0 * theta * shared.noise,
    )


def _variation(pair: RatioPair) -> float:
    """Return the larger standard error by noise of the two groups' sizes, relative to them."""
    return max(math.sqrt(max(side.sums[2].noise, 0.0)) / side.below for side in (pair.one, pair.other))


def _find_mismatch(read: Sequence[Stratum], control: int) -> str:
    """Return how the groups' sizes differ, where equal groups rarely differ so much; "" where they may be equal."""
    moments = Moments(
        pool([stratum.aggregate for stratum in read]), sum(stratum.reports_per_device for stratum in read)
    )
    ones = np.ones(read[0].aggregate.outcomes * read[0].aggregate.bins)
    shared = moments.covariance(0, ones, 1, ones)
    own = [moments.size_variance(group) for group in (0, 1)]
    error = math.sqrt(max(math.fsum(each.total for each in own) - 2.0 * shared.total, 0.0))
    sizes = [moments.size(group) for group in (control, 1 - control)]
    critical = normal_quantile(1.0 - SAMPLE_RATIO_ALPHA / 2.0)
    if abs(sizes[1] - sizes[0]) <= critical * error:
        return ""
    return (
        f"the holdout sent about {max(sizes[0], 0.0):.0f} reports and the mirror group {max(sizes[1], 0.0):.0f}; of"
        f" groups of one size they differ by at most {critical * error:.0f} in {1.0 - SAMPLE_RATIO_ALPHA:.0%} of cases"
    )
