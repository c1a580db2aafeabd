"""The Bayesian view agrees with closed forms and gbstats, contains the privacy noise, and says why it is empty."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from alcove.platform.stats import Aggregate, ArgumentError, Metric, Primary, PrimaryKind, estimate
from alcove.platform.stats.bayes import bayesian_view
from alcove.registry.policy import Outcome
from numpy.typing import NDArray

from tests.platform.stats.conftest import Fleet

Exact = Callable[[NDArray[np.int64]], Aggregate]
VECTORS = Path(__file__).parent / "vectors"
ONE_BIN = Metric(bin_values_ms=(1.0,))


def test_exact_counts_give_the_beta_posterior(exact: Exact) -> None:
    """Uniform prior: mean (1 + s) / (2 + n), for each arm alone."""
    view = bayesian_view(estimate(exact(np.array([[[60], [40]], [[45], [55]]])), ONE_BIN))
    assert [arm.mean for arm in view.arms] == pytest.approx([41 / 102, 56 / 102])
    assert view.prior == "uniform on [0, 1] for each arm, independent of the others"
    assert view.obstacle == ""
    (difference,) = view.differences
    assert difference.chance_better == pytest.approx(view.arms[1].chance_best)
    assert difference.interval.low < difference.mean < difference.interval.high


def test_repeated_reports_of_a_device_count_as_one(exact: Exact) -> None:
    """The worst case of `reports_per_device`: four times the counts of four windows tell what one window's do."""
    once, often = (np.array([[[60], [40]], [[45], [55]]]) * factor for factor in (1, 4))
    one = bayesian_view(estimate(exact(once), ONE_BIN))
    four = bayesian_view(estimate(exact(often), Metric(bin_values_ms=(1.0,), reports_per_device=4)))
    assert four.arms == one.arms


def test_many_exact_counts_agree_with_gbstats(exact: Exact) -> None:
    """Its flat prior and normal density against our uniform prior and Beta: the same beyond a hundred thousand."""
    cases = json.loads((VECTORS / "gbstats.json").read_text(encoding="utf-8"))["bayesian"]
    for case in cases:
        counts = np.array([[[n - k], [k]] for n, k in (case["a"], case["b"])])
        (found,) = bayesian_view(estimate(exact(counts), ONE_BIN)).differences
        assert found.chance_better == pytest.approx(case["chance_to_win"], abs=2e-4)
        width = case["high"] - case["low"]
        assert found.interval == pytest.approx((case["low"], case["high"]), abs=2e-3 * width)
        assert found.expected_loss == pytest.approx(case["risk_of_treatment"], abs=2e-4 * width)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(2)])
def test_privacy_noise_is_in_the_posterior(epsilon: Fraction, without_noise: Callable[[Aggregate], Aggregate]) -> None:
    """Its difference has the frequentist standard error, the noise's covariances too; without noise it is too sure."""
    fleet = Fleet((0.5, 0.52), epsilon=epsilon)
    aggregate = fleet.aggregate(np.round(400_000 * fleet.response_probabilities()).astype(np.int64))
    metric = Metric(bin_values_ms=fleet.bin_values_ms)
    estimates = estimate(aggregate, metric)
    one, other = estimates.accepted_parts
    assert one is not None
    assert other is not None
    variance = one.variance.total + other.variance.total - 2.0 * estimates.moments.ratio_covariance(one, other).total
    view = bayesian_view(estimates)
    (difference,) = view.differences
    assert difference.mean == pytest.approx(0.02, abs=1e-4)
    assert difference.standard_deviation == pytest.approx(math.sqrt(variance), rel=1e-6)
    assert difference.chance_better == pytest.approx(NormalDist().cdf(0.02 / math.sqrt(variance)), abs=1e-3)
    assert view.arms[0].standard_deviation == pytest.approx(one.variance.standard_error, rel=1e-6)
    naive = bayesian_view(estimate(without_noise(aggregate), metric)).differences[0]
    assert naive.standard_deviation < 0.4 * difference.standard_deviation


@pytest.mark.thorough
def test_chances_are_calibrated_under_the_prior() -> None:
    """Of fleets whose shares are drawn from the prior, arms of chance c are the best ones in a part c of the cases."""
    rng = np.random.default_rng(20_251)
    said, was = [], []
    for _ in range(400):
        shares = rng.uniform(size=2)
        fleet = Fleet(tuple(shares), latencies=(1.0,), epsilon=Fraction(1))
        (counts,) = fleet.randomize(rng, 4_000, 1)
        view = bayesian_view(estimate(fleet.aggregate(counts), Metric(bin_values_ms=(1.0,))))
        said.append(view.arms[1].chance_best)
        was.append(shares[1] > shares[0])
    chances, facts = np.array(said), np.array(was)
    expected, spread = chances.sum(), math.sqrt((chances * (1.0 - chances)).sum())
    assert abs(facts.sum() - expected) < 4.0 * spread
    assert 0.03 < np.mean((chances - facts) ** 2) < 0.25


def test_less_is_better_turns_chances_and_not_differences(exact: Exact) -> None:
    """The faster arm is likely the best one; its difference stays negative."""
    aggregate = exact(np.array([[[10, 30], [30, 130]], [[25, 15], [80, 80]]]))
    metric = Metric(bin_values_ms=(5.0, 15.0), edges_ms=(10.0,), primary=Primary(PrimaryKind.LATENCY_MEAN))
    view = bayesian_view(estimate(aggregate, metric))
    assert view.differences[0].mean < 0.0
    assert view.arms[1].chance_best > 0.99
    assert view.arms[1].expected_loss < view.arms[0].expected_loss
    assert view.prior == "uniform on [5 ms, 15 ms] for each arm, independent of the others"


def test_a_ratio_reads_its_own_cells(exact: Exact) -> None:
    """Errors per report of all four outcomes; the lower one is better."""
    ratio = Primary(PrimaryKind.RATIO, None, (Outcome.ERROR,), tuple(Outcome)[:4], is_less_better=True)
    counts = np.array([[[50], [40], [10], [0]], [[50], [30], [20], [0]]])
    view = bayesian_view(estimate(exact(counts), Metric(bin_values_ms=(1.0,), primary=ratio)), control=1)
    assert [arm.mean for arm in view.arms] == pytest.approx([11 / 102, 21 / 102])
    (difference,) = view.differences
    assert (difference.arm, difference.versus) == (0, 1)
    assert difference.chance_better > 0.95


@pytest.mark.parametrize(
    ("primary", "counts", "why"),
    [
        (Primary(PrimaryKind.LATENCY_QUANTILE, 0.5), [[[9, 9], [9, 9]], [[9, 9], [9, 9]]], "quantile"),
        (Primary(), [[[9, 9], [9, 9]], [[0, 0], [0, 0]]], "arm 1 has no report"),
        (Primary(), [[[0, 0], [0, 0]], [[0, 0], [0, 0]]], "arm 0 has no report"),
    ],
)
def test_no_posterior_comes_with_the_reason(
    exact: Exact, primary: Primary, counts: list[list[list[int]]], why: str
) -> None:
    """Nothing is shown where nothing can be said."""
    metric = Metric(bin_values_ms=(5.0, 15.0), edges_ms=(10.0,), primary=primary)
    view = bayesian_view(estimate(exact(np.array(counts)), metric))
    assert (view.arms, view.differences) == ((), ())
    assert why in view.obstacle


def test_noise_that_hides_an_arms_size_leaves_no_posterior() -> None:
    """By the same bound as the decision's rule."""
    fleet = Fleet((0.5, 0.5), epsilon=Fraction(1))
    counts = np.round(3_000 * fleet.response_probabilities()).astype(np.int64)
    view = bayesian_view(estimate(fleet.aggregate(counts), Metric(bin_values_ms=fleet.bin_values_ms)))
    assert view.arms == ()
    assert "privacy noise leaves the size of arm" in view.obstacle


def test_an_arm_that_is_not_there_is_refused(exact: Exact) -> None:
    """With the arms that are."""
    with pytest.raises(ArgumentError, match=r"control.*\[0, 2\)"):
        bayesian_view(estimate(exact(np.array([[[5], [5]], [[5], [5]]])), ONE_BIN), control=2)
