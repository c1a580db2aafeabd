"""A ratio of outcomes as what decides, and several arms: who wins, what is said of it, and what is refused."""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    ArgumentError,
    Mechanism,
    MetricModel,
    PowerModel,
    Primary,
    PrimaryKind,
    ReasonCode,
    aggregate_from_randomized_response,
    ratio_model,
    share_model,
)
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout, Outcome
from numpy.typing import NDArray

from tests.platform.stats.comparing import compare

if TYPE_CHECKING:
    from tests.platform.stats.conftest import Fleet

Exact = Callable[[NDArray[np.int64]], Aggregate]
ANSWERS = (Outcome.REFUSED, Outcome.ACCEPTED)
PER_ANSWER = Primary(PrimaryKind.RATIO, None, (Outcome.ACCEPTED,), ANSWERS)
ERRORS = Primary(PrimaryKind.RATIO, None, (Outcome.ERROR, Outcome.FALLBACK), tuple(Outcome)[:4], is_less_better=True)
HALVES = (0.5, 0.5)


def test_the_arm_with_more_accepted_per_answer_wins_though_fewer_of_its_devices_accept(exact: Exact) -> None:
    """The ratio and the share of all devices may disagree; each decides where it is asked to."""
    control, better_per_answer = [[1000], [3000], [500], [0]], [[400], [2600], [1500], [0]]
    for order, winner in (([0, 1], 1), ([1, 0], 0)):
        counts = exact(np.array([control, better_per_answer])[order])
        found = compare(counts, bin_values_ms=(1.0,), primary=PER_ANSWER, minimum_cohort=0)
        assert (found.decision.winner, found.decision.code) == (winner, ReasonCode.BETTER)
        assert "better in accepted / (refused + accepted)" in found.decision.reason
        (pair,) = found.primary_pairs
        assert pair.value == pytest.approx((26 / 30 - 3 / 4) * (1 if winner else -1))
        share = compare(counts, bin_values_ms=(1.0,), minimum_cohort=0)
        assert share.decision.winner == 1 - winner


def test_the_arm_with_fewer_errors_wins_where_less_is_better(exact: Exact) -> None:
    """Whichever index it has; more of the same is worse."""
    counts = np.array([[[500], [4000], [300], [200]], [[500], [4400], [50], [50]]])
    for order, winner in (([0, 1], 1), ([1, 0], 0)):
        found = compare(exact(counts[order]), bin_values_ms=(1.0,), primary=ERRORS, minimum_cohort=0)
        assert found.decision.winner == winner
        assert "error + fallback" in found.decision.reason


def test_ratio_intervals_cover_the_truth_under_randomized_response() -> None:
    """400 draws of four outcomes: scores have a spread of one, and the always-valid interval covers nearly always."""
    rng = np.random.default_rng(20_270_501)
    cells = np.array([[0.15, 0.25, 0.05, 0.05], [0.1, 0.3, 0.07, 0.03]])
    truth = 0.3 / 0.4 - 0.25 / 0.4
    mechanism = RandomizedResponse(8, Fraction(2))
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    scores, covered = [], 0
    for counts in rng.multinomial(40_000, other + (keep - other) * cells.ravel(), size=400):
        aggregate = aggregate_from_randomized_response(counts.tolist(), HistogramLayout(2, 4, 1), epsilon=Fraction(2))
        (pair,) = compare(aggregate, bin_values_ms=(1.0,), primary=PER_ANSWER, planned_reports=40_000).primary_pairs
        assert pair.value is not None
        assert pair.standard_error is not None
        assert pair.interval is not None
        scores.append((pair.value - truth) / pair.standard_error)
        covered += pair.interval.low <= truth <= pair.interval.high
    assert 0.92 < np.std(scores) < 1.08
    assert covered >= 0.98 * 400


def test_a_planned_ratio_is_found_as_often_as_planned() -> None:
    """The model's devices find the effect in about 80 % of draws; errors outside the denominator cost devices."""
    rng = np.random.default_rng(20_270_502)
    epsilon, share, effect = Fraction(2), 0.8, 0.12

    def metric(denominator_share: float) -> MetricModel:
        return ratio_model(
            0.5, numerator=(1,), denominator=(0, 1), outcomes=4, bins=1, denominator_share=denominator_share
        )

    model = PowerModel(metric(share), HALVES, Mechanism.RANDOMIZED_RESPONSE, epsilon)
    devices = model.devices_needed(effect)
    assert devices is not None
    cells = np.array([
        [share * (1.0 - rate), share * rate, (1.0 - share) / 2.0, (1.0 - share) / 2.0]
        for rate in (0.5 - effect / 2.0, 0.5 + effect / 2.0)
    ]) / 2.0  # fmt: skip
    mechanism = RandomizedResponse(8, epsilon)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    won = 0
    for counts in rng.multinomial(devices, other + (keep - other) * cells.ravel(), size=300):
        aggregate = aggregate_from_randomized_response(counts.tolist(), HistogramLayout(2, 4, 1), epsilon=epsilon)
        found = compare(aggregate, bin_values_ms=(1.0,), primary=PER_ANSWER, planned_reports=devices, minimum_cohort=0)
        won += found.decision.winner == 1
    assert 0.73 < won / 300 < 0.87
    everybody = PowerModel(metric(1.0), HALVES, Mechanism.RANDOMIZED_RESPONSE, epsilon).devices_needed(effect)
    assert everybody is not None
    assert everybody < devices


def test_a_ratio_over_all_outcomes_is_planned_as_the_share_it_is() -> None:
    """Accepted per answer, where answers are all that is counted, is the accepted share."""
    for mechanism in Mechanism:
        ratio = ratio_model(0.7, numerator=(1,), denominator=(0, 1), outcomes=2, bins=3)
        shares = PowerModel(share_model(0.7, bins=3), HALVES, mechanism, Fraction(1))
        assert PowerModel(ratio, HALVES, mechanism, Fraction(1)).standard_error(10_000) == pytest.approx(
            shares.standard_error(10_000)
        )


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Primary(PrimaryKind.RATIO), "numerator"),
        (lambda: Primary(PrimaryKind.RATIO, None, (Outcome.ERROR,)), "denominator"),
        (lambda: Primary(PrimaryKind.RATIO, None, (), ANSWERS), "numerator"),
        (lambda: Primary(PrimaryKind.RATIO, None, ANSWERS, ANSWERS), "numerator"),
        (lambda: Primary(PrimaryKind.RATIO, None, (Outcome.ERROR,), ANSWERS), "numerator"),
        (lambda: Primary(PrimaryKind.RATIO, None, (Outcome.ERROR,) * 2, tuple(Outcome)), "numerator"),
        (lambda: Primary(PrimaryKind.RATIO, 0.5, (Outcome.ACCEPTED,), ANSWERS), "quantile"),
        (lambda: Primary(PrimaryKind.ACCEPTED, None, (Outcome.ACCEPTED,)), "numerator"),
        (lambda: Primary(PrimaryKind.LATENCY_MEAN, None, (), ANSWERS), "denominator"),
        (lambda: Primary(PrimaryKind.LATENCY_MEAN, is_less_better=True), "less_is_better"),
        (lambda: ratio_model(1.0, numerator=(1,), denominator=(0, 1), outcomes=2, bins=1), "base_rate"),
        (lambda: ratio_model(0.5, numerator=(1,), denominator=(0, 1), outcomes=2, bins=1, denominator_share=0.5),
         "denominator_share"),
        (lambda: ratio_model(0.5, numerator=(1,), denominator=(0, 1), outcomes=4, bins=1, denominator_share=0.0),
         "denominator_share"),
    ],
)  # fmt: skip
def test_a_metric_that_means_nothing_is_named(make: Callable[[], object], name: str) -> None:
    """Typed, with the bound."""
    with pytest.raises(ArgumentError) as caught:
        make()
    assert caught.value.name == name


def test_outcomes_that_are_not_counted_cannot_decide(exact: Exact) -> None:
    """Two outcomes hold no errors."""
    with pytest.raises(ArgumentError, match="denominator"):
        compare(exact(np.full((2, 2, 1), 100)), bin_values_ms=(1.0,), primary=ERRORS)


def test_an_arm_wins_by_its_own_pairs_and_needs_no_correction_for_their_number(exact: Exact) -> None:
    """Three arms: each of the best one's pairs is sure alone, not all three together; what is shown holds together."""
    counts = exact(np.array([[[1500], [1500]], [[1000], [2000]], [[1120], [1880]]]))
    found = compare(counts, bin_values_ms=(1.0,))
    assert (found.decision.winner, found.decision.code) == (1, ReasonCode.BETTER)
    (closest,) = [pair for pair in found.pairs if {pair.arm, pair.versus} == {1, 2}]
    assert closest.interval is not None
    assert closest.interval.low <= 0.0 <= closest.interval.high
    assert all(p is not None and p < found.alpha for p in found.p_values)
    two = compare(exact(np.array([[[1500], [1500]], [[1000], [2000]]])), bin_values_ms=(1.0,))
    assert two.pairs == two.primary_pairs


def test_an_arm_wins_exactly_where_its_p_values_are_below_alpha_in_its_favor(fleet: "type[Fleet]") -> None:
    """One is the other's inverse, at private counts of three arms; a correction for the pairs would find fewer."""
    rng = np.random.default_rng(20_270_503)
    world = fleet((0.5, 0.6, 0.75), latencies=(1.0,), epsilon=Fraction(2))
    won = corrected = 0
    for counts in world.randomize(rng, 6_000, 60):
        each = compare(world.aggregate(counts), bin_values_ms=(1.0,), minimum_cohort=0)
        best = [
            all(
                p is not None and p < each.alpha and pair.value is not None and (pair.value > 0.0) is (pair.arm == arm)
                for pair, p in zip(each.pairs, each.p_values, strict=True)
                if arm in (pair.arm, pair.versus)
            )
            for arm in range(3)
        ]
        assert each.decision.winner == (best.index(True) if any(best) else None)
        won += any(best)
        corrected += any(
            all(
                pair.interval is not None and (pair.interval.low if pair.arm == arm else -pair.interval.high) > 0.0
                for pair in each.pairs
                if arm in (pair.arm, pair.versus)
            )
            for arm in range(3)
        )
    assert 0 < corrected < won
