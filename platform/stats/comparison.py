"""Decides from estimates, a test and rules: intervals for every arm and pair, and a winner or a reason to hold.

`decide` is symmetric in the arms, and as valid over repeated analyses as its test is.  The rules' order is in
`decision.py`, the estimates in `estimates.py`.

An arm wins where it beats each other arm, each pair tested at alpha without a correction for their number.  To win
without being best, an arm must beat one that is at least as good: each arm's claim is an intersection-union test
(Berger, Technometrics 1982; as Hsu's comparisons with the best, Annals of Statistics 1984), and only one arm can win.
Ties of any number of arms win by chance at most as often as a tie of two (`benchmarks/statistics/boundaries.py`).
Intervals that are shown are simultaneous: all pairs together err with alpha (Bonferroni).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats._ratio import Interval, Moments, Ratio
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.bin_metric import find_mute
from alcove.platform.stats.decision import ArmSize, Decision, Difference, SampleRatio, apply_rules, apply_silence
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.estimates import Estimates
from alcove.platform.stats.limits import DEFAULT_MINIMUM_COHORT, MAX_SIZE_VARIATION, SAMPLE_RATIO_ALPHA
from alcove.platform.stats.pre_period import Adjustment, corrected_pairs
from alcove.platform.stats.primary import Primary, PrimaryKind, hide_interval, negate, primary_pairs
from alcove.platform.stats.ratio_pairs import ratio_pair
from alcove.platform.stats.sequential import AlwaysValid, SequentialTest


@dataclass(frozen=True)
class ArmEstimate:
    """Estimates of one arm; each interval is always valid by itself at the comparison's alpha.

    Attributes:
        arm: index of the arm.
        devices: estimated devices, unbiased, so it may be negative for an empty arm.
        share: estimated part of the reports, in [0, 1]; None without reports.
        share_interval: of the share; None without reports.
        accepted: part of the answers with the successful outcome, in [0, 1]; None where there is less than one, or the
            reports do not tell it.
        accepted_interval: within [0, 1]; None where unbounded, or where noise leaves the arm's size uncertain by more
            than 10 % of its planned part of the reports.
        accepted_standard_error: one standard error before clipping, sampling and noise.
        latency_ms: mean of the bins' values, within their range; None as for accepted.
        latency_interval: in ms, None as for accepted.
        median_latency_ms: value of the bin that holds the median; None as for accepted.
        median_latency_interval: in ms, values of the lowest and the highest bin that may hold it; None as for accepted.
        noise_percent: by how many per cent of itself the standard error of the accepted part would shrink without
            privacy noise.
        own_mean: mean of a team's own metric where one decides, in its unit; None else, and as for accepted.
        own_interval: None as for accepted.
    """

    arm: int
    devices: float
    share: float | None
    share_interval: Interval | None
    accepted: float | None
    accepted_interval: Interval | None
    accepted_standard_error: float | None
    latency_ms: float | None
    latency_interval: Interval | None
    median_latency_ms: float | None
    median_latency_interval: Interval | None
    noise_percent: float | None
    own_mean: float | None = None
    own_interval: Interval | None = None


@dataclass(frozen=True)
class Comparison:
    """The result of `decide`.

    Attributes:
        arms: one estimate per arm.
        control: index of the control.
        differences: of each other arm to the control, in order of the arms.
        pairs: of all pairs of arms; those of `differences` come first.
        primary: what decides.
        primary_pairs: differences in the primary metric, in the order of `pairs`, in its unit; for the accepted share
            `pairs` themselves, or what they are after the correction by the pre-period.
        p_values: of each of the primary pairs alone, in their order; valid at every analysis, or at the planned ones.
            An arm wins where all of its own are below alpha in its favor. None where no standard error or no interval
            is known.
        adjustments: what that correction did to each of `primary_pairs`, None where it could not be made; empty
            without a pre-period.
        sample_ratio: the check of the arms' sizes against their shares.
        decision: winner or hold.
        alpha: error of each interval over all analyses; those of differences share it among all pairs (Bonferroni).
        reports: reports read.
    """

    arms: tuple[ArmEstimate, ...]
    control: int
    differences: tuple[Difference, ...]
    pairs: tuple[Difference, ...]
    primary: Primary
    primary_pairs: tuple[Difference, ...]
    p_values: tuple[float | None, ...]
    sample_ratio: SampleRatio
    decision: Decision
    alpha: float
    reports: int
    adjustments: tuple[Adjustment | None, ...] = ()


@dataclass(frozen=True)
class Rules:
    """Conditions for an arm to win.

    Attributes:
        alpha: error over all analyses, in (0, 1).
        minimum_cohort: estimated devices each arm must have before anything is decided, >= 0.
        control: index of the arm that the others are shown against; it does not influence the decision.
        expected_shares: part of the reports that each arm should have, > 0, summing to 1; equal parts if None.

    Raises:
        ArgumentError: minimum_cohort is negative.
    """

    alpha: float = 0.05
    minimum_cohort: int = DEFAULT_MINIMUM_COHORT
    control: int = 0
    expected_shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.minimum_cohort < 0:
            raise ArgumentError("minimum_cohort", "at least 0", self.minimum_cohort)


def decide(estimates: Estimates, test: SequentialTest, rules: Rules) -> Comparison:
    """Return intervals and a decision; exchanging arms (with their shares) exchanges the results, bit for bit.

    Args:
        estimates: of at least two arms.
        test: of the differences between arms; intervals of single arms and shares stay always valid.
        rules: what must hold before an arm wins.

    Raises:
        ArgumentError: rules or test that do not fit the estimates.
    """
    reports, arms, primary = estimates.reports, range(estimates.arms), estimates.metric.primary
    shares = _checked_shares(rules.expected_shares, estimates.arms)
    if rules.control not in arms:
        raise ArgumentError("control", f"an arm in [0, {estimates.arms})", rules.control)
    others = [arm for arm in arms if arm != rules.control]
    ordered = [(arm, rules.control) for arm in others]
    ordered += [(other, one) for one, other in itertools.combinations(others, 2)]
    shared_alpha = rules.alpha / len(ordered)
    at_will = AlwaysValid(test.planned_reports)
    single = at_will.critical_value(reports=reports, alpha=rules.alpha)
    paired = at_will.critical_value(reports=reports, alpha=shared_alpha)
    every_share = at_will.critical_value(reports=reports, alpha=SAMPLE_RATIO_ALPHA / estimates.arms)

    critical_value = test.critical_value(reports=reports, alpha=shared_alpha)
    known = _known_sizes(estimates.moments, reports, shares)
    pairs = tuple(_difference(estimates, arm, versus, critical_value, known) for arm, versus in ordered)
    compared, adjustments = _primary_differences(estimates, test, pairs, critical_value, shared_alpha, known=known)
    deciding = _deciding_pairs(estimates, test, rules, ordered, known) if len(ordered) > 1 else compared
    sample_ratio = _sample_ratio(estimates.moments, reports, shares, every_share)
    sizes = [_arm_size(estimates, arm, paired) for arm in arms]
    decision = apply_rules(
        reports=reports,
        sizes=sizes,
        sample_ratio=sample_ratio,
        pairs=deciding if primary.is_more_better else tuple(map(negate, deciding)),
        minimum_cohort=rules.minimum_cohort,
        better=primary.better,
        unit=primary.unit,
    )
    silence = "" if primary.own is None else find_mute([estimates.aggregate], primary.own, arms)
    return Comparison(
        arms=tuple(_arm_estimate(estimates, sizes[arm].devices, arm, single, is_known=known[arm]) for arm in arms),
        control=rules.control,
        differences=pairs[: estimates.arms - 1],
        pairs=pairs,
        primary=primary,
        primary_pairs=compared,
        p_values=tuple(_p_value(pair, test, reports, rules.alpha) for pair in deciding),
        sample_ratio=sample_ratio,
        decision=apply_silence(decision, silence),
        alpha=rules.alpha,
        reports=reports,
        adjustments=adjustments,
    )


def _deciding_pairs(
    estimates: Estimates,
    test: SequentialTest,
    rules: Rules,
    ordered: Sequence[tuple[int, int]],
    known: Sequence[bool],
) -> tuple[Difference, ...]:
    """Return the differences in the primary metric with an interval at alpha for each of them alone."""
    alone = test.critical_value(reports=estimates.reports, alpha=rules.alpha)
    pairs = tuple(_difference(estimates, arm, versus, alone, known) for arm, versus in ordered)
    return _primary_differences(estimates, test, pairs, alone, rules.alpha, known=known)[0]


def _primary_differences(
    estimates: Estimates,
    test: SequentialTest,
    pairs: tuple[Difference, ...],
    critical_value: float,
    alpha: float,
    *,
    known: Sequence[bool],
) -> tuple[tuple[Difference, ...], tuple[Adjustment | None, ...]]:
    """Return the differences that decide, and what a correction by the pre-period did to each."""
    metric = estimates.metric
    if metric.primary.kind is not PrimaryKind.ACCEPTED:
        found = primary_pairs(
            estimates.aggregate,
            metric.primary,
            [(pair.arm, pair.versus) for pair in pairs],
            bin_values_ms=estimates.bin_values_ms,
            edges_ms=metric.edges_ms,
            test=test,
            alpha=alpha,
            reports_per_device=metric.reports_per_device,
        )
        shown = [pair if known[pair.arm] and known[pair.versus] else hide_interval(pair) for pair in found]
        return tuple(shown), ()
    if metric.pre_period is None:
        return pairs, ()
    return corrected_pairs(
        metric.pre_period,
        pairs,
        success_outcome=metric.success_outcome or 0,
        critical_value=critical_value,
        reports_per_device=metric.reports_per_device,
    )


def _arm_estimate(estimates: Estimates, devices: float, arm: int, factor: float, *, is_known: bool) -> ArmEstimate:
    """Return what is shown of an arm; ratios in it have intervals only where noise leaves its size known."""
    moments, reports, values = estimates.moments, estimates.reports, estimates.bin_values_ms
    accepted, latency, own = estimates.accepted_parts[arm], estimates.latencies[arm], estimates.own_means[arm]
    median, median_interval = None, None
    if estimates.metric.primary.own is None:
        outcomes = estimates.aggregate.outcomes
        median, median_interval = _median(moments, arm, values=values, outcomes=outcomes, factor=factor)
    low, high = float(values[0]), float(values[-1])
    least, most = estimates.metric.primary.range_of(values)
    return ArmEstimate(
        arm=arm,
        devices=devices,
        share=None if reports == 0 else _clip(moments.size(arm) / reports, 0.0, 1.0),
        share_interval=_share_interval(moments, arm, reports, factor),
        accepted=None if accepted is None else _clip(accepted.value, 0.0, 1.0),
        accepted_interval=_ratio_interval(moments, accepted, factor, 0.0, 1.0) if is_known else None,
        accepted_standard_error=None if accepted is None else accepted.variance.standard_error,
        latency_ms=None if latency is None else _clip(latency.value, low, high),
        latency_interval=_ratio_interval(moments, latency, factor, low, high) if is_known else None,
        median_latency_ms=median,
        median_latency_interval=median_interval if is_known else None,
        noise_percent=None if accepted is None else accepted.variance.noise_percent,
        own_mean=None if own is None else _clip(own.value, least, most),
        own_interval=_ratio_interval(moments, own, factor, least, most) if is_known else None,
    )


def _difference(estimates: Estimates, arm: int, versus: int, factor: float, is_known: Sequence[bool]) -> Difference:
    """Return the difference of two accepted parts; its interval only where noise leaves both arms' sizes known."""
    one, other = estimates.accepted_parts[arm], estimates.accepted_parts[versus]
    pair = None
    if one is not None and other is not None:
        pair = ratio_pair(estimates.moments, estimates.success, one.base, arm=arm, versus=versus)
    if pair is None:
        return Difference(arm, versus, None, None, None, None)
    interval, lift_interval = pair.interval(factor), pair.lift_interval(factor)
    is_shown = is_known[arm] and is_known[versus] and math.isfinite(interval.low + interval.high)
    return Difference(
        arm,
        versus,
        pair.value,
        interval.clip(-1.0, 1.0) if is_shown else None,
        pair.variance.standard_error,
        pair.variance.noise_percent,
        score=pair.score,
        lift=pair.lift,
        lift_interval=lift_interval if is_shown else None,
    )


def _known_sizes(moments: Moments, reports: int, shares: Sequence[float]) -> tuple[bool, ...]:
    """Return for each arm whether noise leaves its size known to 10 % of what it should be.

    By the planned size, not the one that was estimated: an arm that is shown because noise made it look large would
    show intervals that noise has moved.
    """
    deviations = (math.sqrt(max(moments.size_variance(arm).noise, 0.0)) for arm in range(len(shares)))
    return tuple(
        reports > 0 and deviation <= MAX_SIZE_VARIATION * share * reports
        for deviation, share in zip(deviations, shares, strict=True)
    )


def _p_value(pair: Difference, test: SequentialTest, reports: int, alpha: float) -> float | None:
    """Return the p-value of no difference, by the same rho or boundaries as the pair's interval."""
    if pair.interval is None or pair.score is None or not pair.standard_error:
        return None
    return test.p_value(pair.score, 1.0, reports=reports, alpha=alpha)


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


def _arm_size(estimates: Estimates, arm: int, factor: float) -> ArmSize:
    moments = estimates.moments
    size = moments.size(arm)
    noise = max(moments.size_variance(arm).noise, 0.0)
    return ArmSize(
        devices=size / estimates.metric.reports_per_device,
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
    half_width = factor * moments.size_variance(arm).standard_error / reports
    return Interval(share - half_width, share + half_width).clip(0.0, 1.0)


def _ratio_interval(moments: Moments, ratio: Ratio | None, factor: float, low: float, high: float) -> Interval | None:
    interval = None if ratio is None else moments.interval(ratio, factor)
    return None if interval is None else interval.clip(low, high)


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _checked_shares(expected_shares: Sequence[float] | None, arms: int) -> tuple[float, ...]:
    if expected_shares is None:
        return (1.0 / arms,) * arms
    shares = tuple(float(share) for share in expected_shares)
    if len(shares) != arms:
        raise ArgumentError("expected_shares", f"one for each of {arms} arms", f"{len(shares)} shares")
    if not all(0.0 < share < 1.0 for share in shares) or not math.isclose(math.fsum(shares), 1.0, abs_tol=1e-6):
        raise ArgumentError("expected_shares", "positive and of sum 1", shares)
    return shares
