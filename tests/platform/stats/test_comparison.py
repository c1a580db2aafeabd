"""Estimates, standard errors and intervals of a comparison equal those of independent derivations."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from alcove.platform.stats import Aggregate, ArgumentError, Comparison, Interval
from alcove.platform.stats.confidence_sequence import critical_value
from numpy.typing import NDArray

from tests.platform.stats.comparing import compare

Exact = Callable[[NDArray[np.int64]], Aggregate]


def noisy_aggregate(seed: int = 5) -> Aggregate:
    """Two arms, three bins, one negative cell, correlated noise of about the size of the sampling."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((12, 12)) * 12.0
    estimates = rng.integers(200, 900, (2, 2, 3)).astype(np.float64)
    estimates[0, 0, 2] = -60.0
    return Aggregate(estimates, factor @ factor.T, 6_500)


def test_estimates_of_exact_counts_are_plain_fractions(exact: Exact) -> None:
    """Devices, share, accuracy, mean and median of counts that can be checked by eye."""
    counts = np.array([[[10, 10, 20], [20, 40, 100]], [[5, 5, 10], [60, 60, 60]]])
    first, second = compare(exact(counts), bin_values_ms=(1, 2, 4)).arms
    assert (first.devices, first.share, first.accepted) == (200.0, 0.5, 0.8)
    assert first.latency_ms == pytest.approx((30 * 1 + 50 * 2 + 120 * 4) / 200)
    assert first.median_latency_ms == 4.0
    assert (second.accepted, second.median_latency_ms, second.noise_percent) == (0.9, 2.0, 0.0)


def test_standard_error_of_exact_counts_is_the_binomial_one(exact: Exact) -> None:
    """160 and 180 of 200 accepted: sqrt(p (1 - p) / n), a little larger for the imagined report per outcome.

    By hand for arm 0: smoothed counts (41, 161, 21, 181) * 400 / 404, residuals -0.004 and 0.001, so the variance is
    (41 * 1.6e-5 + 161 * 1e-6) * 0.990099 - (0.00297030)^2 / 400 = 8.08889e-4.
    """
    result = compare(exact(np.array([[[40], [160]], [[20], [180]]])), bin_values_ms=(1.0,))
    errors = [arm.accepted_standard_error or 0.0 for arm in result.arms]
    assert errors[0] ** 2 == pytest.approx(8.08889e-4, rel=1e-5)
    for error, rate in zip(errors, (0.8, 0.9), strict=True):
        assert 1.0 < error / math.sqrt(rate * (1 - rate) / 200) < 1.03
    (difference,) = result.differences
    assert difference.value == pytest.approx(0.1)
    assert difference.standard_error == pytest.approx(math.hypot(*errors), rel=1e-4)
    half_width = critical_value(reports=400, alpha=0.05, planned_reports=10_000) * (difference.standard_error or 0.0)
    assert difference.interval == pytest.approx((0.1 - half_width, 0.1 + half_width), abs=0.01 * half_width)


def test_standard_errors_equal_the_gradient_of_the_ratio_through_the_whole_covariance() -> None:
    """Delta method by numerical derivatives and dense matrices instead of residuals and blocks."""
    aggregate = noisy_aggregate()
    covariance = total_covariance(aggregate)

    def accuracy(cells: NDArray[np.float64], arm: int) -> float:
        counts = cells.reshape(2, 2, 3)[arm]
        return float(counts[1].sum() / counts.sum())

    def gradient(arm: int) -> NDArray[np.float64]:
        cells, steps = aggregate.estimates.ravel(), np.eye(12) * 1e-3
        return np.array([(accuracy(cells + step, arm) - accuracy(cells - step, arm)) / 2e-3 for step in steps])

    result = compare(aggregate, bin_values_ms=(1, 2, 4))
    slopes = [gradient(0), gradient(1)]
    for arm, slope in zip(result.arms, slopes, strict=True):
        assert arm.accepted_standard_error == pytest.approx(math.sqrt(slope @ covariance @ slope), rel=1e-6)
    slope = slopes[1] - slopes[0]
    (difference,) = result.differences
    total, noise = slope @ covariance @ slope, slope @ aggregate.noise_covariance @ slope
    assert difference.standard_error == pytest.approx(math.sqrt(total), rel=1e-6)
    assert difference.noise_percent == pytest.approx(100 * (1 - math.sqrt((total - noise) / total)), rel=1e-5)


def test_intervals_end_where_the_hypothesised_ratio_is_just_rejected() -> None:
    """Fieller's interval by bisection: at its ends the weighted sum is `critical_value` standard errors from zero."""
    aggregate = noisy_aggregate()
    covariance = total_covariance(aggregate)
    factor = critical_value(reports=aggregate.reports, alpha=0.05, planned_reports=10_000)
    result = compare(aggregate, bin_values_ms=(1, 2, 4))
    success, values = np.repeat([0.0, 1.0], 3), np.tile([1.0, 2.0, 4.0], 2)
    for arm in range(2):
        estimate = result.arms[arm]
        for weights, interval in ((success, estimate.accepted_interval), (values, estimate.latency_interval)):
            assert interval is not None

            def distance(ratio: float, weights: NDArray[np.float64] = weights, arm: int = arm) -> float:
                contrast = np.zeros((2, 6))
                contrast[arm] = weights - ratio
                flat = contrast.ravel()
                return abs(float(flat @ aggregate.estimates.ravel())) / math.sqrt(float(flat @ covariance @ flat))

            for end in interval:
                assert distance(end) == pytest.approx(factor, rel=1e-9)
            assert distance((interval.low + interval.high) / 2) < factor


def test_several_arms_share_alpha_among_all_pairs(exact: Exact) -> None:
    """Three arms make three pairs: each interval is at alpha / 3; those to the control come first."""
    counts = np.array([[[100], [900]], [[110], [890]], [[120], [880]]])
    result = compare(exact(counts), bin_values_ms=(1.0,), control=1)
    assert [(pair.arm, pair.versus) for pair in result.pairs] == [(0, 1), (2, 1), (2, 0)]
    assert result.differences == result.pairs[:2]
    factor = critical_value(reports=3_000, alpha=0.05 / 3, planned_reports=10_000)
    for pair in result.pairs:
        assert pair.value is not None
        assert pair.standard_error is not None
        assert pair.interval == pytest.approx(
            (pair.value - factor * pair.standard_error, pair.value + factor * pair.standard_error),
            abs=0.01 * factor * pair.standard_error,
        )


def test_successful_outcome_may_be_any(exact: Exact) -> None:
    """With three outcomes the accuracy is the part of the one that counts as success."""
    counts = np.array([[[10], [30], [60]], [[50], [25], [25]]])
    for outcome, accuracies in ((0, (0.1, 0.5)), (1, (0.3, 0.25)), (2, (0.6, 0.25))):
        result = compare(exact(counts), bin_values_ms=(1.0,), success_outcome=outcome)
        assert tuple(arm.accepted for arm in result.arms) == accuracies


def test_median_interval_holds_every_bin_that_the_data_allow(exact: Exact) -> None:
    """A clear median has one candidate, one between two bins has both, few devices leave many."""

    def interval(bins: list[int]) -> Interval | None:
        counts = np.array([[bins, bins], [bins, bins]])
        return compare(exact(counts), bin_values_ms=(1, 2, 4, 8)).arms[0].median_latency_interval

    assert interval([500, 4_000, 500, 500]) == (2.0, 2.0)
    assert interval([500, 2_250, 2_250, 500]) == (2.0, 4.0)
    assert interval([12, 13, 13, 12]) == (1.0, 8.0)


def test_reports_of_the_same_devices_widen_the_sampling_part_only() -> None:
    """Four windows at worst quadruple the sampling variance; the noise is drawn again in each report."""
    aggregate = noisy_aggregate()
    variances = [
        (compare(aggregate, bin_values_ms=(1, 2, 4), reports_per_device=windows).arms[0].accepted_standard_error or 0.0)
        ** 2
        for windows in (1, 2, 4)
    ]
    assert variances[2] - variances[1] == pytest.approx(2 * (variances[1] - variances[0]), rel=1e-9)
    assert compare(aggregate, bin_values_ms=(1, 2, 4), reports_per_device=4).arms[0].devices == pytest.approx(
        aggregate.estimates[0].sum() / 4
    )


def test_arguments_out_of_bounds_are_refused_by_name(exact: Exact) -> None:
    """Each wrong argument is a typed error with its name."""
    aggregate = exact(np.full((2, 2, 2), 5))

    def call(**changes: Any) -> Comparison:
        arguments: dict[str, Any] = {"bin_values_ms": (1, 2)} | changes
        return compare(aggregate, **arguments)

    call()
    for name, value in (
        ("bin_values_ms", ()),
        ("bin_values_ms", (1,)),
        ("bin_values_ms", (1, 1)),
        ("bin_values_ms", (2, 1)),
        ("bin_values_ms", (-1, 1)),
        ("bin_values_ms", (1, math.inf)),
        ("bin_values_ms", (math.nan, 1)),
        ("alpha", 0.0),
        ("alpha", 1.0),
        ("minimum_cohort", -1),
        ("control", -1),
        ("control", 2),
        ("success_outcome", -1),
        ("success_outcome", 2),
        ("planned_reports", 0),
        ("reports_per_device", 0),
        ("expected_shares", (1.0,)),
        ("expected_shares", (0.5, 0.4)),
        ("expected_shares", (0.0, 1.0)),
        ("expected_shares", (math.nan, 0.5)),
    ):
        with pytest.raises(ArgumentError) as caught:
            call(**{name: value})
        assert caught.value.name == name
    with pytest.raises(ArgumentError, match="two arms"):
        compare(exact(np.full((1, 2, 2), 5)), bin_values_ms=(1, 2))


def total_covariance(aggregate: Aggregate) -> NDArray[np.float64]:
    """Noise + multinomial sampling from the smoothed estimates, as one dense matrix (two outcomes, equal bins)."""
    positive = np.maximum(aggregate.estimates.ravel(), 0.0) + 1.0 / aggregate.bins
    parts = positive / positive.sum()
    sampling = aggregate.reports * (np.diag(parts) - np.outer(parts, parts))
    total: NDArray[np.float64] = aggregate.noise_covariance + sampling
    return total
