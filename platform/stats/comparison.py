"""Compares the arms of an experiment: estimates, always-valid intervals and a decision.

`compare` reads an `Aggregate` and nothing else: it does not know whether the counts are exact, randomised on
the devices or noised by aggregators. Which outcome is a success, what a bin stands for and which shares the policy gave
are arguments. The rules of the decision are in `decision.py`, the variances in `_ratio.py`.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats._ratio import Covariance, Interval, Moments, Ratio
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.confidence_sequence import multiplier
from alcove.platform.stats.decision import ArmSize, Decision, Difference, SampleRatio, Stepwise, decide
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.group_sequential import PlannedLook
from alcove.platform.stats.limits import DEFAULT_MINIMUM_COHORT, DEFAULT_PLANNED_REPORTS, SAMPLE_RATIO_ALPHA
from alcove.platform.stats.multiplicity import Correction, adjusted, always_valid_p
from alcove.platform.stats.pre_period import Adjustment, PrePeriod, corrected_pairs
from alcove.platform.stats.primary import Primary, PrimaryKind, negated, primary_pairs


@dataclass(frozen=True)
class ArmEstimate:
    """What is known of one arm; each interval is always valid by itself at the comparison's alpha.

    Attributes:
        arm: index of the arm.
        devices: estimated devices, unbiased, so it may be negative for an empty arm.
        share: estimated part of the reports, in [0, 1]; None without reports.
        share_interval: of the share; None without reports.
        accuracy: part of the arm's devices with the successful outcome, in [0, 1]; None where the arm's size is
            below one report.
        accuracy_interval: within [0, 1]; None where unbounded (the size is not distinguishable from zero).
        accuracy_standard_error: one standard error before clipping, sampling and noise.
        latency_ms: mean of the bins' values, within their range; None as for accuracy.
        latency_interval: in ms, None as for accuracy.
        median_latency_ms: value of the bin that holds the median; None as for accuracy.
        median_latency_interval: in ms, values of the lowest and the highest bin that may hold it; None as for accuracy.
        noise_percent: by how many per cent of itself the standard error of the accuracy would shrink without
            privacy noise.
    """

    arm: int
    devices: float
    share: float | None
    share_interval: Interval | None
    accuracy: float | None
    accuracy_interval: Interval | None
    accuracy_standard_error: float | None
    latency_ms: float | None
    latency_interval: Interval | None
    median_latency_ms: float | None
    median_latency_interval: Interval | None
    noise_percent: float | None


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`.

    Attributes:
        arms: one estimate per arm.
        control: index of the control.
        differences: of each other arm to the control, in order of the arms.
        pairs: of all pairs of arms; those of `differences` come first.
        primary: what decides.
        primary_pairs: differences in the primary metric, in the order of `pairs`, in its unit; for the accepted share
            `pairs` themselves, or what they are after the correction by the pre-period.
        adjusted_p: p-values of the primary pairs, in their order, by the correction asked for; valid at every look, or
            at the planned ones. None where no standard error or no interval is known.
        adjustments: what that correction did to each of `primary_pairs`, None where it could not be made; empty
            without a pre-period.
        sample_ratio: the check of the arms' sizes against their shares.
        decision: winner or hold.
        alpha: error of each interval over all looks; the differences share it among all pairs (Bonferroni), whatever
            the correction.
        reports: reports read.
    """

    arms: tuple[ArmEstimate, ...]
    control: int
    differences: tuple[Difference, ...]
    pairs: tuple[Difference, ...]
    primary: Primary
    primary_pairs: tuple[Difference, ...]
    adjusted_p: tuple[float | None, ...]
    sample_ratio: SampleRatio
    decision: Decision
    alpha: float
    reports: int
    adjustments: tuple[Adjustment | None, ...] = ()


def compare(
    aggregate: Aggregate,
    *,
    bin_values_ms: Sequence[float],
    alpha: float = 0.05,
    minimum_cohort: int = DEFAULT_MINIMUM_COHORT,
    control: int = 0,
    expected_shares: Sequence[float] | None = None,
    success_outcome: int = 1,
    planned_reports: int = DEFAULT_PLANNED_REPORTS,
    reports_per_device: int = 1,
    primary: Primary | None = None,
    edges_ms: Sequence[float] = (),
    correction: Correction = Correction.BONFERRONI,
    look: PlannedLook | None = None,
    pre_period: PrePeriod | None = None,
) -> Comparison:
    """Return estimates, intervals and a decision; symmetric in the arms, and valid however often it is called.

    Exchanging arms (with their shares) exchanges their estimates, negates their difference and exchanges the
    winner, bit for bit.

    Args:
        aggregate: the counts, of at least two arms.
        bin_values_ms: latency that stands for each bin, in ms, >= 0, rising strictly.
        alpha: error over all looks, in (0, 1).
        minimum_cohort: estimated devices each arm must have before anything is decided, >= 0.
        control: index of the arm that the others are shown against; it does not influence the decision.
        expected_shares: part of the reports that each arm should have, > 0, summing to 1; equal parts if None.
        success_outcome: index of the outcome that counts as success.
        planned_reports: reports at which the intervals are tightest, >= 1; fixed when the experiment starts.
        reports_per_device: how many reports of the aggregate may come from one device, >= 1: the number of windows
            that were pooled.
        primary: what decides; the accepted share if None.
        edges_ms: inner edges of the latency bins, for a primary metric that is a quantile.
        correction: how pairs share alpha where the decision is taken; a quantile has no p-values for HOLM.
        look: which planned look this is; the pairs' intervals and p-values are then those of this look, and the other
            ones stay always valid. None: any look, as often as one likes.
        pre_period: what the same reports say of the time before; the accepted share is corrected by it (CUPED), and
            no other primary metric can be.

    Raises:
        ArgumentError: an argument is out of its bounds, or the aggregate has fewer than two arms.
    """
    shares = _checked_shares(expected_shares, aggregate.arms)
    values = _checked_bin_values(bin_values_ms, aggregate.bins)
    _check_indices(aggregate, control=control, success_outcome=success_outcome)
    if minimum_cohort < 0:
        raise ArgumentError("minimum_cohort", "at least 0", minimum_cohort)
    if reports_per_device < 1:
        raise ArgumentError("reports_per_device", "at least 1", reports_per_device)

    arms = range(aggregate.arms)
    reports = aggregate.reports
    primary = primary or Primary()
    if correction is Correction.HOLM and primary.quantile is not None:
        raise ArgumentError("correction", f"bonferroni for {primary.kind}, which has no p-values", correction)
    if look is not None and look.reports[-1] != reports:
        raise ArgumentError("look", f"at {reports} reports", look.reports)
    ordered = [(arm, control) for arm in arms if arm != control]
    ordered += [(other, one) for one, other in itertools.combinations((arm for arm in arms if arm != control), 2)]
    single = multiplier(reports=reports, alpha=alpha, planned_reports=planned_reports)
    paired = multiplier(reports=reports, alpha=alpha / len(ordered), planned_reports=planned_reports)
    every_share = multiplier(
        reports=reports, alpha=SAMPLE_RATIO_ALPHA / aggregate.arms, planned_reports=planned_reports
    )

    moments = Moments(aggregate, reports_per_device)
    success = np.repeat(np.arange(aggregate.outcomes) == success_outcome, aggregate.bins).astype(np.float64)
    accuracies = [moments.ratio(arm, success) for arm in arms]
    reach = paired if look is None else look.multiplier(alpha / len(ordered))
    pairs = tuple(_difference(moments, accuracies, arm, versus, reach) for arm, versus in ordered)
    compared = pairs
    if primary.kind is not PrimaryKind.ACCEPTED:
        compared = primary_pairs(
            aggregate,
            primary,
            ordered,
            bin_values_ms=values,
            edges_ms=edges_ms,
            alpha=alpha / len(ordered),
            planned_reports=planned_reports,
            reports_per_device=reports_per_device,
            look=look,
        )
    adjustments: tuple[Adjustment | None, ...] = ()
    if pre_period is not None:
        if primary.kind is not PrimaryKind.ACCEPTED:
            raise ArgumentError("pre_period", "absent unless the accepted share decides", primary.kind)
        compared, adjustments = corrected_pairs(
            pre_period,
            pairs,
            success_outcome=success_outcome,
            multiplier=reach,
            reports_per_device=reports_per_device,
        )
    adjusted_p = adjusted(
        [_p_value(pair, look, reports, alpha / len(ordered), planned_reports) for pair in compared], correction
    )
    sample_ratio = _sample_ratio(moments, reports, shares, every_share)
    sizes = [_arm_size(moments, arm, reports_per_device, paired) for arm in arms]
    estimates = tuple(
        _arm_estimate(
            moments,
            arm,
            accuracy=accuracies[arm],
            devices=sizes[arm].devices,
            reports=reports,
            values=values,
            outcomes=aggregate.outcomes,
            factor=single,
        )
        for arm in arms
    )
    return Comparison(
        arms=estimates,
        control=control,
        differences=pairs[: aggregate.arms - 1],
        pairs=pairs,
        primary=primary,
        primary_pairs=compared,
        adjusted_p=adjusted_p,
        sample_ratio=sample_ratio,
        decision=decide(
            reports=reports,
            sizes=sizes,
            sample_ratio=sample_ratio,
            pairs=compared if primary.is_more_better else tuple(map(negated, compared)),
            minimum_cohort=minimum_cohort,
            stepwise=Stepwise(adjusted_p, alpha) if correction is Correction.HOLM else None,
            better=primary.better,
            unit=primary.unit,
        ),
        alpha=alpha,
        reports=reports,
        adjustments=adjustments,
    )


def _arm_estimate(
    moments: Moments,
    arm: int,
    *,
    accuracy: Ratio | None,
    devices: float,
    reports: int,
    values: FloatArray,
    outcomes: int,
    factor: float,
) -> ArmEstimate:
    latency = moments.ratio(arm, np.tile(values, outcomes))
    median, median_interval = _median(moments, arm, values=values, outcomes=outcomes, factor=factor)
    low, high = float(values[0]), float(values[-1])
    return ArmEstimate(
        arm=arm,
        devices=devices,
        share=None if reports == 0 else _clip(moments.size(arm) / reports, 0.0, 1.0),
        share_interval=_share_interval(moments, arm, reports, factor),
        accuracy=None if accuracy is None else _clip(accuracy.value, 0.0, 1.0),
        accuracy_interval=_ratio_interval(moments, accuracy, factor, 0.0, 1.0),
        accuracy_standard_error=None if accuracy is None else accuracy.variance.standard_error,
        latency_ms=None if latency is None else _clip(latency.value, low, high),
        latency_interval=_ratio_interval(moments, latency, factor, low, high),
        median_latency_ms=median,
        median_latency_interval=median_interval,
        noise_percent=None if accuracy is None else accuracy.variance.noise_percent,
    )


def _difference(
    moments: Moments, accuracies: Sequence[Ratio | None], arm: int, versus: int, factor: float
) -> Difference:
    """Return the difference of two accuracies with its interval by the delta method."""
    one, other = accuracies[arm], accuracies[versus]
    if one is None or other is None:
        return Difference(arm, versus, None, None, None, None)
    value = one.value - other.value
    shared = moments.ratio_covariance(one, other)
    variance = Covariance(
        sampling=(one.variance.sampling + other.variance.sampling) - 2.0 * shared.sampling,
        noise=(one.variance.noise + other.variance.noise) - 2.0 * shared.noise,
    )
    interval = None
    if moments.is_distinct_from_zero(arm, factor) and moments.is_distinct_from_zero(versus, factor):
        reach = factor * variance.standard_error
        interval = Interval(value - reach, value + reach).clipped(-1.0, 1.0)
    return Difference(arm, versus, value, interval, variance.standard_error, variance.noise_percent)


def _p_value(
    pair: Difference, look: PlannedLook | None, reports: int, alpha: float, planned_reports: int
) -> float | None:
    """Return the p-value of no difference, by the same rho or boundaries as the pair's interval."""
    if pair.value is None or pair.interval is None or not pair.standard_error:
        return None
    if look is not None:
        return look.p_value(pair.value / pair.standard_error)
    return always_valid_p(
        pair.value, pair.standard_error, reports=reports, planned_reports=planned_reports, alpha=alpha
    )


def _median(
    moments: Moments, arm: int, *, values: FloatArray, outcomes: int, factor: float
) -> tuple[float | None, Interval | None]:
    """Return the value of the median's bin, and those of the lowest and highest bin that may hold it.

    With F(b) the part of the arm up to bin b, the median's bin is the first with F(b) >= 1/2. The lowest candidate
    is the first bin whose upper bound of F reaches 1/2, the highest the one after the last bin whose lower bound
    stays below 1/2. Each errs only if F's interval errs to one side at one fixed bin (the median's own, and the one
    before it), so both together err at most with alpha.
    """
    bins = len(values)
    point, lowest, highest = bins - 1, bins - 1, 0
    is_bounded = True
    for last in range(bins - 1):
        below = moments.ratio(arm, np.tile(np.arange(bins) <= last, outcomes).astype(np.float64))
        if below is None:
            return None, None
        if below.value >= 0.5:
            point = min(point, last)
        interval = moments.interval(below, factor)
        if interval is None:
            is_bounded = False
            continue
        if interval.high >= 0.5:
            lowest = min(lowest, last)
        if interval.low < 0.5:
            highest = last + 1
    if moments.size(arm) < 1.0:
        return None, None
    is_bounded = is_bounded and moments.is_distinct_from_zero(arm, factor)
    return float(values[point]), Interval(float(values[lowest]), float(values[highest])) if is_bounded else None


def _arm_size(moments: Moments, arm: int, reports_per_device: int, factor: float) -> ArmSize:
    size = moments.size(arm)
    noise = max(moments.size_variance(arm).noise, 0.0)
    return ArmSize(
        devices=size / reports_per_device,
        noise_variation=math.sqrt(noise) / size if size >= 1.0 else math.inf,
        is_distinct_from_zero=moments.is_distinct_from_zero(arm, factor),
    )


def _sample_ratio(moments: Moments, reports: int, expected: tuple[float, ...], factor: float) -> SampleRatio:
    intervals = tuple(_share_interval(moments, arm, reports, factor) for arm in range(len(expected)))
    return SampleRatio(
        expected=expected,
        observed=tuple(moments.size(arm) / reports if reports else None for arm in range(len(expected))),
        intervals=intervals,
        mismatched=tuple(
            arm
            for arm, interval in enumerate(intervals)
            if interval is not None and not interval.low <= expected[arm] <= interval.high
        ),
    )


def _share_interval(moments: Moments, arm: int, reports: int, factor: float) -> Interval | None:
    if reports == 0:
        return None
    share = moments.size(arm) / reports
    reach = factor * moments.size_variance(arm).standard_error / reports
    return Interval(share - reach, share + reach).clipped(0.0, 1.0)


def _ratio_interval(moments: Moments, ratio: Ratio | None, factor: float, low: float, high: float) -> Interval | None:
    interval = None if ratio is None else moments.interval(ratio, factor)
    return None if interval is None else interval.clipped(low, high)


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _checked_shares(expected_shares: Sequence[float] | None, arms: int) -> tuple[float, ...]:
    if arms < 2:
        raise ArgumentError("aggregate", "of at least two arms", f"of {arms}")
    if expected_shares is None:
        return (1.0 / arms,) * arms
    shares = tuple(float(share) for share in expected_shares)
    if len(shares) != arms:
        raise ArgumentError("expected_shares", f"one for each of {arms} arms", f"{len(shares)} shares")
    if not all(0.0 < share < 1.0 for share in shares) or not math.isclose(math.fsum(shares), 1.0, abs_tol=1e-6):
        raise ArgumentError("expected_shares", "positive and of sum 1", shares)
    return shares


def _checked_bin_values(bin_values_ms: Sequence[float], bins: int) -> FloatArray:
    values = np.array([float(value) for value in bin_values_ms], dtype=np.float64)
    if len(values) != bins:
        raise ArgumentError("bin_values_ms", f"one for each of {bins} bins", f"{len(values)} values")
    if not np.isfinite(values).all() or values[0] < 0.0 or (np.diff(values) <= 0.0).any():
        raise ArgumentError("bin_values_ms", "finite, at least 0 and rising strictly", values.tolist())
    return values


def _check_indices(aggregate: Aggregate, *, control: int, success_outcome: int) -> None:
    if not 0 <= control < aggregate.arms:
        raise ArgumentError("control", f"an arm in [0, {aggregate.arms})", control)
    if not 0 <= success_outcome < aggregate.outcomes:
        raise ArgumentError("success_outcome", f"an outcome in [0, {aggregate.outcomes})", success_outcome)
