"""Arms whose shares changed: epochs are read apart, and together as if every arm had been there all the time."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    ArgumentError,
    Estimates,
    Metric,
    Primary,
    PrimaryKind,
    bayesian_view,
    bayesian_view_of_epochs,
    combine_epochs,
    estimate,
    expected_share_bounds,
)

from tests.platform.stats.conftest import Fleet

ONE_BIN = Metric(bin_values_ms=(1.0,))


def epoch(*arms: tuple[int, float]) -> Estimates:
    """Exact counts of arms, each of so many answers with this part accepted."""
    counts = np.array([[[size * (1.0 - part)], [size * part]] for size, part in arms])
    return estimate(Aggregate(counts, np.zeros((counts.size, counts.size)), int(counts.sum())), ONE_BIN)


def test_one_epoch_is_what_a_fixed_split_shows() -> None:
    """Value, covariance and view are those of the epoch alone."""
    fleet = Fleet((0.7, 0.72, 0.74), latencies=(1.0,))
    found = fleet.randomize(np.random.default_rng(1), 200_000, 1)[0]
    alone = estimate(fleet.aggregate(found), ONE_BIN)
    combined = combine_epochs([alone])
    assert combined is not None
    values = [ratio.value for ratio in alone.accepted_parts if ratio is not None]
    assert combined.values.tolist() == pytest.approx(values)
    assert bayesian_view_of_epochs([alone]) == bayesian_view(alone)
    variances = [ratio.variance.total for ratio in alone.accepted_parts if ratio is not None]
    assert np.diagonal(combined.covariance).tolist() == pytest.approx(variances)


def test_a_good_day_is_no_merit_of_the_arm_that_had_most_devices() -> None:
    """Equal arms; the first gets nearly all devices on the day on which everybody accepts more (Simpson's paradox)."""
    epochs = [epoch((1000, 0.5), (9000, 0.5)), epoch((9000, 0.9), (1000, 0.9))]
    pooled = bayesian_view(epoch((10_000, 0.86), (10_000, 0.54)))
    assert pooled.arms[0].chance_best > 0.999
    view = bayesian_view_of_epochs(epochs)
    assert view.arms[0].chance_best == pytest.approx(0.5, abs=1e-6)
    assert view.arms[0].mean == pytest.approx(0.7, abs=1e-3)
    assert view.differences[0].mean == pytest.approx(0.0, abs=1e-9)


def test_two_epochs_weigh_by_what_they_know() -> None:
    """The combined difference is that by inverse variances, and as sure as both together."""
    one, other = epoch((4000, 0.5), (4000, 0.52)), epoch((1000, 0.5), (1000, 0.6))
    found = combine_epochs([one, other])
    assert found is not None
    differences, variances = [], []
    for each in (one, other):
        first, second = each.accepted_parts
        assert first is not None
        assert second is not None
        differences.append(second.value - first.value)
        variances.append(
            first.variance.total + second.variance.total - 2 * each.moments.ratio_covariance(first, second).total
        )
    weights = 1.0 / np.array(variances)
    assert found.values[1] - found.values[0] == pytest.approx(float(weights @ differences / weights.sum()))
    contrast = np.array([-1.0, 1.0])
    assert float(contrast @ found.covariance @ contrast) == pytest.approx(float(1.0 / weights.sum()))
    assert found.read == (0, 1)


def test_the_order_of_arms_and_epochs_changes_nothing() -> None:
    """Exchanging arms exchanges their values."""
    epochs = [epoch((400, 0.5), (600, 0.6), (500, 0.55)), epoch((900, 0.7), (300, 0.6), (300, 0.8))]
    turned = [epoch((500, 0.55), (400, 0.5), (600, 0.6)), epoch((300, 0.8), (900, 0.7), (300, 0.6))]
    one, other = bayesian_view_of_epochs(epochs), bayesian_view_of_epochs(turned[::-1])
    chances = [each.chance_best for each in one.arms]
    assert [each.chance_best for each in other.arms] == pytest.approx([chances[2], chances[0], chances[1]], abs=1e-9)
    assert sum(chances) == pytest.approx(1.0)


def test_an_epoch_that_says_too_little_is_left_out() -> None:
    """Its noise hides an arm's size; where all are so, the view says why there is none."""
    fleet = Fleet((0.7, 0.72), latencies=(1.0,), epsilon=Fraction(1, 2))
    counts = fleet.randomize(np.random.default_rng(2), 300, 1)[0]
    small, large = estimate(fleet.aggregate(counts), ONE_BIN), epoch((4000, 0.5), (4000, 0.52))
    found = combine_epochs([small, large])
    assert found is not None
    assert found.read == (1,)
    assert found.values.tolist() == pytest.approx([0.5, 0.52])
    assert combine_epochs([small, small]) is None
    assert "uncertain by" in bayesian_view_of_epochs([small, small]).obstacle


def test_noise_widens_and_repeats_of_devices_widen(without_noise: Callable[[Aggregate], Aggregate]) -> None:
    """The privacy noise of each epoch is inside, and so is that a device says the same again."""
    fleet = Fleet((0.7, 0.72), latencies=(1.0,))
    rng = np.random.default_rng(3)
    noisy = [fleet.aggregate(fleet.randomize(rng, 100_000, 1)[0]) for _ in range(2)]
    quiet = [without_noise(each) for each in noisy]

    def deviation(aggregates: list[Aggregate], repeats: int) -> float:
        metric = Metric(bin_values_ms=(1.0,), reports_per_device=repeats)
        return (
            bayesian_view_of_epochs([estimate(each, metric) for each in aggregates]).differences[0].standard_deviation
        )

    assert deviation(noisy, 1) > 1.5 * deviation(quiet, 1)
    assert deviation(noisy, 2) > deviation(noisy, 1)
    assert deviation(quiet, 2) == pytest.approx(deviation(quiet, 1) * 2**0.5, rel=1e-3)


def test_a_quantile_has_no_view_and_no_epochs_are_refused() -> None:
    """As in a fixed split."""
    primary = Primary(PrimaryKind.LATENCY_QUANTILE, quantile=0.5)
    metric = Metric(bin_values_ms=(1.0, 2.0), edges_ms=(1.5,), primary=primary)
    counts = np.full((2, 2, 2), 100.0)
    one = estimate(Aggregate(counts, np.zeros((8, 8)), 800), metric)
    assert "quantile" in bayesian_view_of_epochs([one, one]).obstacle
    for call in (combine_epochs, bayesian_view_of_epochs):
        with pytest.raises(ArgumentError):
            call([])


def test_parts_of_reports_lie_between_the_shares_before_and_after_a_change() -> None:
    """A window without a change fixes them; that of a change gives an interval; windows weigh by their reports."""
    same = expected_share_bounds([100, 300], [(0.5, 0.5)] * 2, [(0.5, 0.5)] * 2)
    assert same == ((0.5, 0.5), (0.5, 0.5))
    shares, before = [(0.5, 0.5), (0.6, 0.4)], [(0.5, 0.5), (0.5, 0.5)]
    (low, high), other = expected_share_bounds([100, 300], shares, before)
    assert (low, high) == pytest.approx((0.5, 0.575))
    assert other == pytest.approx((0.425, 0.5))
    for arguments in (([1], [(0.5, 0.5)], []), ([0], [(0.5, 0.5)], [(0.5, 0.5)])):
        with pytest.raises(ArgumentError):
            expected_share_bounds(*arguments)
