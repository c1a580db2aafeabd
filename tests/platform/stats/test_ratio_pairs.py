"""Intervals of differences and lifts cover at uneven splits, rare events and under noise, or are not shown."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import Aggregate, FixedHorizon, aggregate_from_randomized_response
from alcove.platform.stats._ratio import Moments
from alcove.platform.stats.ratio_pairs import RatioPair, ratio_pair
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout
from scipy.stats import beta

from tests.platform.stats.comparing import compare

LAYOUT = HistogramLayout(2, 2, 1)
ACCEPTED, ALL = np.array([0.0, 1.0]), np.ones(2)
Z = 1.959963984540054
RATES = (0.001, 0.01, 0.5, 0.99, 0.999)
EVEN, UNEVEN = (0.5, 0.5), (0.99, 0.01)


def draws(
    rng: np.random.Generator,
    rates: tuple[float, float],
    shares: Sequence[float],
    epsilon: int,
    *,
    reports: int,
    runs: int,
) -> list[Aggregate]:
    """Return aggregates of fleets of two arms with these accepted shares; exact where epsilon is 0."""
    cells = np.array([[share * (1.0 - rate), share * rate] for rate, share in zip(rates, shares, strict=True)]).ravel()
    if not epsilon:
        counts = rng.multinomial(reports, cells, size=runs)
        return [Aggregate(one.reshape(2, 2, 1).astype(np.float64), np.zeros((4, 4)), reports) for one in counts]
    response = RandomizedResponse(4, Fraction(epsilon))
    other, keep = float(response.other_probability), float(response.keep_probability)
    counts = rng.multinomial(reports, other + (keep - other) * cells, size=runs)
    return [aggregate_from_randomized_response(one.tolist(), LAYOUT, epsilon=Fraction(epsilon)) for one in counts]


def pair_of(aggregate: Aggregate) -> RatioPair:
    """Compare the accepted share of arm 1 with that of arm 0."""
    found = ratio_pair(Moments(aggregate), ACCEPTED, ALL, arm=1, versus=0)
    assert found is not None
    return found


def shown_and_covered(
    rng: np.random.Generator, rate: float, shares: Sequence[float], epsilon: int, *, reports: int, runs: int
) -> tuple[int, int]:
    """Return how many of the runs show an interval at one analysis, and how many of those cover "no difference"."""
    shown = covered = 0
    for aggregate in draws(rng, (rate, rate), shares, epsilon, reports=reports, runs=runs):
        found = compare(
            aggregate,
            bin_values_ms=(1.0,),
            minimum_cohort=0,
            expected_shares=shares,
            test=FixedHorizon(reports),
        )
        interval = found.differences[0].interval
        if interval is not None:
            shown += 1
            covered += interval.low <= 0.0 <= interval.high
    return shown, covered


def test_intervals_at_99_to_1_cover_where_they_are_shown_and_hide_where_noise_hides_the_arm() -> None:
    """Exact counts always; ε 4 always at 50,000 reports; ε 1 never: the planned size decides, and no draw of it."""
    rng = np.random.default_rng(20_290_101)
    for rate in (0.01, 0.99):
        for epsilon in (0, 4):
            shown, covered = shown_and_covered(rng, rate, UNEVEN, epsilon, reports=50_000, runs=150)
            assert shown == 150
            assert covered >= 134  # 99.9 % of the time
        assert shown_and_covered(rng, rate, UNEVEN, 1, reports=50_000, runs=30) == (0, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [0, 4, 2, 1])
@pytest.mark.parametrize("shares", [EVEN, UNEVEN])
def test_intervals_cover_on_the_audits_grid(shares: Sequence[float], epsilon: int) -> None:
    """1,000 runs a cell: of those shown 95 % less four standard errors cover, and 94.5 % of all together."""
    rng = np.random.default_rng(20_290_102)
    total = np.zeros(2)
    for rate in RATES:
        for reports in (200, 1_000, 5_000, 50_000):
            shown, covered = shown_and_covered(rng, rate, shares, epsilon, reports=reports, runs=1_000)
            assert shown in {0, 1_000} or not epsilon, (rate, reports, shown)
            least = 0.95 - 4.0 * math.sqrt(0.95 * 0.05 / max(shown, 1))
            assert covered >= least * shown, (rate, reports, shown, covered)
            total += shown, covered
    assert total[1] >= 0.945 * total[0]


def test_tails_of_rare_events_at_99_to_1_are_equal_and_a_symmetric_interval_is_caught() -> None:
    """Bounds at 5 % each of exact counts of a 1 % event: 5 % err on either side, where Wald's err on 10 and 2 %."""
    rng = np.random.default_rng(20_290_103)
    runs, z = 1_500, 1.6448536269514722
    missed = np.zeros(2)
    skewed = np.zeros(2)
    for aggregate in draws(rng, (0.01, 0.01), UNEVEN, 0, reports=50_000, runs=runs):
        pair = pair_of(aggregate)
        interval = pair.interval(z)
        missed += interval.low > 0.0, interval.high < 0.0
        half_width = z * pair.variance.standard_error
        skewed += pair.value > half_width, pair.value < -half_width
    assert missed.max() <= 0.075 * runs
    assert skewed.max() > 0.08 * runs


@pytest.mark.parametrize(("epsilon", "reports"), [(0, 2_000), (4, 20_000)])
def test_intervals_of_lifts_cover_and_have_none_where_the_control_may_be_zero(epsilon: int, reports: int) -> None:
    """6 % against 4 %: half as much again."""
    rng = np.random.default_rng(20_290_104)
    covered = 0
    for aggregate in draws(rng, (0.04, 0.06), EVEN, epsilon, reports=reports, runs=300):
        interval = pair_of(aggregate).lift_interval(Z)
        assert interval is not None
        covered += interval.low <= 0.5 <= interval.high
    assert covered >= 272  # 99.9 % of the time
    (nothing,) = draws(rng, (0.0001, 0.06), EVEN, 1, reports=3_000, runs=1)
    assert pair_of(nothing).lift_interval(Z) is None


def test_a_lift_is_significant_exactly_where_the_difference_is() -> None:
    """Both intervals exclude "none" at the same critical value, and the score is where they begin to."""
    rng = np.random.default_rng(20_290_105)
    for epsilon in (0, 3):
        for aggregate in draws(rng, (0.30, 0.33), (0.6, 0.4), epsilon, reports=9_000, runs=20):
            pair = pair_of(aggregate)
            score = abs(pair.score)
            assert score == pytest.approx(abs(pair.value) / pair.variance.standard_error, rel=0.03)
            for z, is_significant in ((0.999 * score, True), (1.001 * score, False)):
                interval, lift = pair.interval(z), pair.lift_interval(z)
                assert lift is not None
                assert (interval.low > 0.0 or interval.high < 0.0) is is_significant
                assert (lift.low > 0.0 or lift.high < 0.0) is is_significant


def test_limits_are_jeffreys_wilsons_and_fiellers_in_their_own_worlds() -> None:
    """By their closed forms: exact counts, noise next to nothing, and noise that outweighs what was drawn."""
    counts = np.array([[[160.0], [40.0]], [[170.0], [30.0]]])

    def limits(deviation: float, z: float = 2.0) -> tuple[float, float]:
        return pair_of(Aggregate(counts, np.eye(4) * deviation**2, 400)).one.limits(z)

    assert limits(0.0, Z) == pytest.approx(beta(30.5, 170.5).ppf([0.025, 0.975]), rel=1e-9)
    center, spread = (30.0 + 2.0) / 204.0, 2.0 * math.sqrt(30.0 * 170.0 / 200.0 + 1.0) / 204.0
    assert limits(1e-6) == pytest.approx((center - spread, center + spread), abs=1e-6)
    low, high = limits(12.0)
    for ratio in (low, high):
        variance = 200.0 * ratio * (1.0 - ratio) + 144.0 * (1.0 - 2.0 * ratio + 2.0 * ratio**2)
        assert (30.0 - 200.0 * ratio) ** 2 == pytest.approx(4.0 * variance, rel=1e-9)
    assert limits(200.0) == (-math.inf, math.inf)
