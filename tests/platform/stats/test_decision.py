"""Decision rules hold when they should, the better arm wins, and swapping arms swaps the whole result."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from alcove.platform.stats import (
    Aggregate,
    Comparison,
    DecisionKind,
    Difference,
    Interval,
    ReasonCode,
    SampleRatio,
    aggregate_from_randomized_response,
)
from alcove.platform.stats.decision import ArmSize, apply_rules
from alcove.registry.policy import HistogramLayout
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.platform.stats.comparing import compare

if TYPE_CHECKING:
    from tests.platform.stats.conftest import Fleet

Exact = Callable[[NDArray[np.int64]], Aggregate]


def test_clearly_better_arm_wins_whichever_index_it_has_and_whichever_is_the_control(exact: Exact) -> None:
    """The control may win, and being it gives no advantage."""
    counts = np.array([[[2_000], [8_000]], [[1_000], [9_000]]])
    for control in (0, 1):
        for better, order in ((1, [0, 1]), (0, [1, 0])):
            decision = compare(exact(counts[order]), bin_values_ms=(1.0,), control=control).decision
            assert (decision.kind, decision.winner, decision.code) == (DecisionKind.WINNER, better, ReasonCode.BETTER)
            assert f"arm {better} is more accurate" in decision.reason


def test_arms_without_a_clear_difference_hold(exact: Exact) -> None:
    """An interval that includes zero is named in the reason."""
    decision = compare(exact(np.array([[[200], [1_800]], [[195], [1_805]]])), bin_values_ms=(1.0,)).decision
    assert (decision.kind, decision.winner) == (DecisionKind.INCONCLUSIVE, None)
    assert decision.code is ReasonCode.INTERVAL_INCLUDES_ZERO
    assert "arm 1 minus arm 0 may be anything in [-" in decision.reason


def test_one_of_several_arms_wins_only_if_it_beats_each_other(exact: Exact) -> None:
    """Two arms that both beat the control but not each other leave the decision open."""
    control, good, best = [[3_000], [7_000]], [[1_500], [8_500]], [[1_000], [9_000]]
    tie = compare(exact(np.array([control, good, good])), bin_values_ms=(1.0,)).decision
    assert tie.code is ReasonCode.INTERVAL_INCLUDES_ZERO
    assert "arm 2 minus arm 1" in tie.reason
    clear = compare(exact(np.array([control, good, best])), bin_values_ms=(1.0,)).decision
    assert clear.winner == 2
    assert "each other arm" in clear.reason


def test_arm_with_an_unbounded_difference_to_another_never_wins() -> None:
    """The rules don't rely on earlier ones to keep unbounded intervals away."""
    size = ArmSize(devices=5_000.0, noise_variation=0.0, is_distinct_from_zero=True)
    shares = SampleRatio(expected=(0.5, 0.5), observed=(0.5, 0.5), intervals=(None, None), mismatched=())
    unbounded = Difference(1, 0, 0.9, None, 0.01, 0.0)
    decision = apply_rules(reports=10_000, sizes=[size, size], sample_ratio=shares, pairs=[unbounded], minimum_cohort=0)
    assert decision.code is ReasonCode.INTERVAL_INCLUDES_ZERO
    assert "(unbounded)" in decision.reason


def test_reason_to_hold_is_what_keeps_the_leading_arm_from_winning() -> None:
    """The last arm beats the control; that the middle one may not is no reason, that it may beat the last one is."""
    size = ArmSize(devices=5_000.0, noise_variation=0.0, is_distinct_from_zero=True)
    shares = SampleRatio(expected=(1 / 3,) * 3, observed=(1 / 3,) * 3, intervals=(None,) * 3, mismatched=())
    pairs = [
        Difference(1, 0, 0.02, Interval(-0.01, 0.05), 0.01, 0.0),
        Difference(2, 0, 0.05, Interval(0.02, 0.08), 0.01, 0.0),
        Difference(2, 1, 0.03, Interval(-0.005, 0.065), 0.01, 0.0),
    ]
    decision = apply_rules(reports=10_000, sizes=[size] * 3, sample_ratio=shares, pairs=pairs, minimum_cohort=0)
    assert decision.winner is None
    assert decision.reason == "arm 2 minus arm 1 may be anything in [-0.0050, 0.0650]"


def test_no_reports_hold_and_leave_everything_unknown() -> None:
    """Before the first report there is no estimate, no interval and no winner."""
    aggregate = aggregate_from_randomized_response([0] * 16, HistogramLayout(2, 2, 4), epsilon=Fraction(2))
    result = compare(aggregate, bin_values_ms=(1, 2, 4, 8), minimum_cohort=0)
    assert (result.decision.kind, result.decision.code) == (DecisionKind.INCONCLUSIVE, ReasonCode.NO_REPORTS)
    for arm in result.arms:
        assert arm.devices == 0.0
        assert {value for name, value in vars(arm).items() if name not in ("arm", "devices")} == {None}
    assert result.differences[0].interval is None
    assert result.sample_ratio.mismatched == ()


def test_twenty_four_devices_are_honestly_inconclusive(fleet: "type[Fleet]") -> None:
    """At k = 16 and epsilon 2 no draw of 24 devices decides anything, even if no cohort is asked for."""
    rng = np.random.default_rng(20_260_109)
    world = fleet((0.5, 1.0))
    for counts in world.randomize(rng, 24, 300):
        for minimum_cohort in (0, 1_000):
            result = compare(world.aggregate(counts), bin_values_ms=world.bin_values_ms, minimum_cohort=minimum_cohort)
            assert result.decision.kind is DecisionKind.INCONCLUSIVE
            assert result.decision.code is ReasonCode.BELOW_MINIMUM_COHORT
            check_invariants(result)
            # 24 answers of which a third are true don't tell an arm's size from zero: no accuracy may be excluded.
            assert all(arm.accepted_interval is None for arm in result.arms)
            assert result.differences[0].interval is None


def test_arm_below_the_minimum_cohort_holds(exact: Exact) -> None:
    """However clear the difference; the cohort counts devices, not reports."""
    counts = np.array([[[800], [200]], [[100], [900]]])
    for minimum_cohort, windows, is_held in ((1_000, 1, False), (1_001, 1, True), (1_000, 2, True)):
        decision = compare(
            exact(counts), bin_values_ms=(1.0,), minimum_cohort=minimum_cohort, reports_per_device=windows
        ).decision
        assert (decision.code is ReasonCode.BELOW_MINIMUM_COHORT) is is_held
        assert (decision.kind is DecisionKind.INCONCLUSIVE) is is_held


def test_size_lost_in_privacy_noise_holds() -> None:
    """Noise that leaves an arm's size uncertain by more than 10 % holds, although the accuracies differ clearly."""
    counts = np.array([[[3_000.0], [1_000.0]], [[100.0], [3_900.0]]])
    for deviation, code in ((250.0, ReasonCode.BETTER), (300.0, ReasonCode.PRIVACY_NOISE)):
        decision = compare(Aggregate(counts, np.eye(4) * deviation**2, 8_000), bin_values_ms=(1.0,)).decision
        assert decision.code is code
    assert "11 %" in decision.reason


def test_shares_other_than_the_policys_hold(fleet: "type[Fleet]") -> None:
    """A mismatch outweighs a clear difference; the same counts with the shares they have are decided."""
    rng = np.random.default_rng(20_260_110)
    world = fleet((0.6, 0.9), shares=(0.6, 0.4))
    aggregate = world.aggregate(world.randomize(rng, 20_000, 1)[0])
    held = compare(aggregate, bin_values_ms=world.bin_values_ms)
    assert held.decision.code is ReasonCode.SAMPLE_RATIO_MISMATCH
    assert held.sample_ratio.mismatched == (0, 1)
    assert "arm 0 should have a share of 0.5000" in held.decision.reason
    decided = compare(aggregate, bin_values_ms=world.bin_values_ms, expected_shares=(0.6, 0.4))
    assert (decided.sample_ratio.mismatched, decided.decision.winner) == ((), 1)


def test_empty_arm_is_unknown_and_holds(exact: Exact) -> None:
    """An arm without devices has no accuracy; nothing is divided by zero."""
    result = compare(exact(np.array([[[100], [900]], [[0], [0]]])), bin_values_ms=(1.0,), minimum_cohort=0)
    assert result.decision.kind is DecisionKind.INCONCLUSIVE
    assert result.arms[1].accepted is None
    assert result.arms[1].accepted_interval is None
    assert result.differences[0] == Difference(1, 0, None, None, None, None)
    unseen = compare(
        exact(np.array([[[50], [450]], [[0], [0]]])),
        bin_values_ms=(1.0,),
        minimum_cohort=0,
        expected_shares=(0.999, 0.001),
    )
    assert unseen.decision.code is ReasonCode.BELOW_MINIMUM_COHORT
    assert "arm 1 has about 0 devices, which cannot be distinguished from none" in unseen.decision.reason


def test_answers_all_in_one_cell_make_negative_estimates_and_no_trouble() -> None:
    """Every other cell is estimated below zero; the empty arm has a negative size and no accuracy."""
    for cell in range(16):
        counts = [0] * 16
        counts[cell] = 5_000
        aggregate = aggregate_from_randomized_response(counts, HistogramLayout(2, 2, 4), epsilon=Fraction(2))
        result = compare(aggregate, bin_values_ms=(1, 2, 4, 8), minimum_cohort=0)
        check_invariants(result)
        empty = result.arms[1 - cell // 8]
        assert empty.devices < 0
        assert (empty.accepted, empty.share) == (None, 0.0)
        assert result.decision.code is ReasonCode.SAMPLE_RATIO_MISMATCH


cell_values = st.one_of(st.integers(-500, 5_000).map(float), st.floats(-1e12, 1e12), st.just(0.0))


@st.composite
def aggregates(draw: st.DrawFn) -> Aggregate:
    """Any aggregate that may be built: odd counts, any number of reports, noise of any rank and size."""
    arms, outcomes, bins = draw(st.integers(2, 4)), draw(st.integers(2, 3)), draw(st.integers(1, 4))
    cells = arms * outcomes * bins
    estimates = draw(st.lists(cell_values, min_size=cells, max_size=cells))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    factor = rng.standard_normal((cells, draw(st.integers(1, cells)))) * draw(st.sampled_from([0.0, 1e-3, 10.0, 1e6]))
    reports = draw(st.one_of(st.integers(0, 20_000), st.just(10**12)))
    return Aggregate(np.reshape(estimates, (arms, outcomes, bins)), factor @ factor.T, reports)


@given(aggregate=aggregates(), alpha=st.sampled_from([1e-300, 0.05, 0.999]), windows=st.integers(1, 30))
@example(Aggregate(np.full((2, 2, 1), 1e-300), np.zeros((4, 4)), 5), 0.05, 1)
@example(Aggregate(np.full((2, 2, 1), 1e24), np.eye(4) * 1e24, 10**12), 0.05, 1)
def test_any_aggregate_gives_a_sound_comparison(aggregate: Aggregate, alpha: float, windows: int) -> None:
    """No exception, no NaN; intervals are ordered, in range and around their estimates."""
    values = [float(2**index) for index in range(aggregate.bins)]
    check_invariants(
        compare(aggregate, bin_values_ms=values, alpha=alpha, minimum_cohort=0, reports_per_device=windows)
    )


@given(aggregate=aggregates(), seed=st.integers(0, 1_000))
def test_any_exchange_of_arms_exchanges_the_results_bit_for_bit(aggregate: Aggregate, seed: int) -> None:
    """Estimates move with their arms, differences and their intervals keep or change their sign, the winner moves."""
    order = [int(arm) for arm in np.random.default_rng(seed).permutation(aggregate.arms)]
    check_swap(aggregate, order)


def test_exchange_of_winning_and_mismatched_arms_exchanges_the_decision(fleet: "type[Fleet]") -> None:
    """Real draws, so that there are winners to exchange."""
    rng = np.random.default_rng(20_260_111)
    winners = set()
    for accuracies in ((0.7, 0.9), (0.9, 0.7), (0.8, 0.8), (0.6, 0.95, 0.6)):
        world = fleet(accuracies, epsilon=Fraction(3))
        for counts in world.randomize(rng, 20_000, 20):
            order = [int(arm) for arm in rng.permutation(len(accuracies))]
            winners.add(check_swap(world.aggregate(counts), order))
    assert winners == {None, 0, 1}


def check_swap(aggregate: Aggregate, order: list[int]) -> int | None:
    """Assert that comparing the arms in another order gives the same in that order; return the original winner.

    Args:
        aggregate: what to compare.
        order: arm order[i] of the aggregate becomes arm i.
    """
    arms = aggregate.arms
    cells = np.arange(aggregate.estimates.size).reshape(arms, -1)[order].ravel()
    moved = Aggregate(aggregate.estimates[order], aggregate.noise_covariance[np.ix_(cells, cells)], aggregate.reports)
    values = [float(2**index) for index in range(aggregate.bins)]
    shares = tuple((arm + 1) / (arms * (arms + 1) / 2) for arm in range(arms)) if aggregate.reports % 2 else None
    before = compare(aggregate, bin_values_ms=values, minimum_cohort=10, expected_shares=shares)
    after = compare(
        moved,
        bin_values_ms=values,
        minimum_cohort=10,
        control=order.index(0),
        expected_shares=None if shares is None else [shares[arm] for arm in order],
    )
    assert after.arms == tuple(replace(before.arms[arm], arm=place) for place, arm in enumerate(order))
    expected = {(pair.arm, pair.versus): pair for pair in before.pairs}
    for pair in after.pairs:
        original = (order[pair.arm], order[pair.versus])
        twin = expected[original] if original in expected else negate(expected[original[::-1]])
        moved_pair = replace(pair, arm=original[0], versus=original[1])
        if original not in expected:  # a lift is relative to the one arm or the other
            moved_pair = replace(moved_pair, lift=None, lift_interval=None)
        assert moved_pair == twin
    assert {order[arm] for arm in after.sample_ratio.mismatched} == set(before.sample_ratio.mismatched)
    assert (after.decision.kind, after.decision.code) == (before.decision.kind, before.decision.code)
    winner = after.decision.winner
    assert (None if winner is None else order[winner]) == before.decision.winner
    return before.decision.winner


def negate(pair: Difference) -> Difference:
    """Return the same difference the other way round."""
    return replace(
        pair,
        arm=pair.versus,
        versus=pair.arm,
        value=None if pair.value is None else -pair.value,
        interval=None if pair.interval is None else Interval(-pair.interval.high, -pair.interval.low),
        score=None if pair.score is None else -pair.score,
        lift=None,
        lift_interval=None,
    )


def check_invariants(result: Comparison) -> None:
    """Assert what holds for every comparison."""
    for arm in result.arms:
        assert np.isfinite(arm.devices)
        check_estimate(arm.share, arm.share_interval, 0.0, 1.0)
        check_estimate(arm.accepted, arm.accepted_interval, 0.0, 1.0)
        check_estimate(arm.latency_ms, arm.latency_interval, 1.0, 8.0)
        check_estimate(arm.median_latency_ms, arm.median_latency_interval, 1.0, 8.0)
        assert arm.noise_percent is None or 0.0 <= arm.noise_percent <= 100.0
        assert arm.accepted_standard_error is None or np.isfinite(arm.accepted_standard_error)
    for pair in result.pairs:
        assert pair.value is None or np.isfinite(pair.value)
        if pair.interval is not None:
            assert -1.0 <= pair.interval.low <= pair.interval.high <= 1.0
    decision = result.decision
    assert (decision.winner is None) == (decision.kind is DecisionKind.INCONCLUSIVE)
    assert decision.reason
    assert "nan" not in decision.reason


def check_estimate(value: float | None, interval: Interval | None, low: float, high: float) -> None:
    """Assert that an estimate is in its range and its interval around it."""
    assert value is None or low <= value <= high
    if interval is not None:
        assert value is not None
        assert low <= interval.low <= interval.high <= high
        assert interval.low - 1e-9 * high <= value <= interval.high + 1e-9 * high
