"""CUPED leaves differences unbiased, narrows their intervals as forecast, and is refused for latencies."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    AggregateError,
    ArgumentError,
    DecisionKind,
    GroupSequential,
    Mechanism,
    Primary,
    PrimaryKind,
    aggregate_from_noised_histogram,
    aggregate_from_randomized_response,
    cuped_error_ratio,
    split_pre_period,
)
from alcove.platform.stats.aggregate import FloatArray, regroup
from alcove.platform.stats.aggregator_noise import draw_noise
from alcove.platform.stats.cuped_gain import joint_model
from alcove.platform.stats.decision import Difference
from alcove.platform.stats.pre_period import PrePeriod, corrected_pairs, pre_values
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout
from numpy.typing import NDArray

from tests.platform.stats.comparing import compare

Exact = Callable[[NDArray[np.int64]], Aggregate]

EDGES = (0.5, 0.8)
PRE_BINS = len(EDGES) + 2
Z = 1.959964


def arms_of(*, unknown: float = 0.2, gain: float = 0.05, correlation: float = 0.6) -> FloatArray:
    """Probabilities [arms, pre bins, outcomes]; in arm 1 `gain` of all devices accept instead of refusing."""
    known = joint_model(EDGES, 0.6, correlation=correlation)
    table = (1.0 - unknown) * known
    table[0] = unknown * known.sum(axis=0)
    moved = gain * table[:, 0] / table[:, 0].sum()
    return np.stack([table, table + np.stack([-moved, moved], axis=1)]) / 2.0


def draw(rng: np.random.Generator, arms: FloatArray, devices: int, mechanism: Mechanism) -> Aggregate:
    """Return what so many devices' reports estimate, [arms, outcomes, pre bins]."""
    shape = (2, 2, PRE_BINS)
    cells = rng.multinomial(devices, arms.transpose(0, 2, 1).ravel())
    if mechanism is Mechanism.EXACT:
        return Aggregate(cells.reshape(shape).astype(float), np.zeros((cells.size, cells.size)), devices)
    if mechanism is Mechanism.PRIO3:
        noised = cells.reshape(shape) + draw_noise(rng, shape, Fraction(1))
        return aggregate_from_noised_histogram(noised, reports=devices, epsilon=Fraction(1))
    response = RandomizedResponse(cells.size, Fraction(2))
    answers = np.full((cells.size, cells.size), float(response.other_probability))
    np.fill_diagonal(answers, float(response.keep_probability))
    randomized = np.sum([rng.multinomial(n, row / row.sum()) for n, row in zip(cells, answers, strict=True)], axis=0)
    return aggregate_from_randomized_response(
        randomized.tolist(), HistogramLayout(2, 2, 1, PRE_BINS), epsilon=Fraction(2)
    )


def correct(aggregate: Aggregate) -> tuple[Difference, Difference]:
    """Return the difference of two arms at a fixed sample, after and before the correction."""
    plain, pre_period = split_pre_period(aggregate, EDGES)
    shares = plain.estimates[:, 1, 0] / plain.estimates.sum(axis=(1, 2))
    before = Difference(1, 0, float(shares[1] - shares[0]), None, 0.0, 0.0)
    (after,), (adjustment,) = corrected_pairs(pre_period, (before,), success_outcome=1, critical_value=Z)
    assert adjustment is not None
    assert after.standard_error is not None
    ratio = 1.0 - adjustment.variance_reduction_percent / 100.0
    error = after.standard_error / math.sqrt(ratio)
    return after, Difference(1, 0, before.value, None, error, 0.0)


def test_cells_are_regrouped_by_one_linear_map() -> None:
    """A' = M A and V' = M V M^T, whatever the cells and their noise."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(24, 24))
    aggregate = Aggregate(rng.normal(size=(2, 3, 4)), root @ root.T, 100)
    targets = rng.integers(0, 8, size=24)
    matrix = (targets[None, :] == np.arange(8)[:, None]).astype(float)
    found = regroup(aggregate, targets, (2, 2, 2))
    assert found.reports == 100
    np.testing.assert_allclose(found.estimates.ravel(), matrix @ aggregate.estimates.ravel())
    np.testing.assert_allclose(found.noise_covariance, matrix @ aggregate.noise_covariance @ matrix.T)
    weights = rng.normal(size=8)
    spread = weights @ found.noise_covariance @ weights
    assert spread == pytest.approx(weights[targets] @ aggregate.noise_covariance @ weights[targets])


@pytest.mark.parametrize("targets", [[0] * 23, [8] + [0] * 23, [-1] + [0] * 23])
def test_a_map_to_cells_that_are_not_there_is_refused(targets: list[int]) -> None:
    """Nothing is lost silently."""
    aggregate = Aggregate(np.ones((2, 3, 4)), np.zeros((24, 24)), 24)
    with pytest.raises(AggregateError, match="targets"):
        regroup(aggregate, np.array(targets), (2, 2, 2))


def test_split_gives_what_there_was_without_and_the_joint_histogram() -> None:
    """Every cell of four dimensions is in its place in both; the noise goes along."""
    shape = (2, 3, 5, PRE_BINS)
    counts = np.arange(math.prod(shape), dtype=float).reshape(shape)
    fine = Aggregate(counts.reshape(2, 3, -1), np.diag(counts.ravel()), 10**6)
    plain, pre_period = split_pre_period(fine, EDGES)
    np.testing.assert_array_equal(plain.estimates, counts.sum(axis=3))
    np.testing.assert_array_equal(np.diag(plain.noise_covariance), counts.sum(axis=3).ravel())
    joint = counts.sum(axis=2).transpose(0, 2, 1)
    np.testing.assert_array_equal(pre_period.joint.estimates, joint)
    np.testing.assert_array_equal(np.diag(pre_period.joint.noise_covariance), joint.ravel())
    for edges in ((), (0.5,)):
        with pytest.raises(ArgumentError, match="pre_edges"):
            split_pre_period(fine, edges)


def test_everything_but_the_primary_difference_reads_what_it_read_without(exact: Exact) -> None:
    """Arms, unadjusted differences, sample ratio: to the last bit those of reports without the earlier share."""
    rng = np.random.default_rng(2)
    counts = rng.integers(200, 900, size=(2, 2, 3, PRE_BINS))
    fine = exact(counts.reshape(2, 2, -1))
    plain, pre_period = split_pre_period(fine, EDGES)
    alone = compare(exact(counts.sum(axis=3)), bin_values_ms=(1.0, 2.0, 4.0))
    found = compare(plain, bin_values_ms=(1.0, 2.0, 4.0), pre_period=pre_period)
    assert (found.arms, found.differences, found.sample_ratio) == (alone.arms, alone.differences, alone.sample_ratio)
    assert alone.adjustments == ()
    assert len(found.adjustments) == 1


def test_correction_decides_where_the_plain_difference_cannot() -> None:
    """A gain inside the plain interval and outside the corrected one: the interval that counts is the corrected."""
    arms = arms_of(gain=0.022, correlation=0.9, unknown=0.0)
    counts = np.rint(arms.transpose(0, 2, 1) * 16_000)
    fine = Aggregate(counts, np.zeros((counts.size, counts.size)), int(counts.sum()))
    plain, pre_period = split_pre_period(fine, EDGES)
    without = compare(plain, bin_values_ms=(1.0,))
    found = compare(plain, bin_values_ms=(1.0,), pre_period=pre_period)
    assert without.decision.kind is DecisionKind.INCONCLUSIVE
    assert (found.decision.kind, found.decision.winner) == (DecisionKind.WINNER, 1)
    (adjustment,) = found.adjustments
    assert adjustment is not None
    assert adjustment.variance_reduction_percent > 30
    assert found.primary_pairs[0].interval != found.pairs[0].interval == without.pairs[0].interval


def test_p_values_and_interim_analyses_are_those_of_the_corrected_difference() -> None:
    """The analysis's boundary is laid on the corrected error, and so is the p-value."""
    counts = np.rint(arms_of(gain=0.022, correlation=0.9, unknown=0.0).transpose(0, 2, 1) * 16_000)
    reports = int(counts.sum())
    plain, pre_period = split_pre_period(Aggregate(counts, np.zeros((counts.size, counts.size)), reports), EDGES)
    analysis = GroupSequential((reports,), 2 * reports)
    for at in (None, analysis):
        without = compare(plain, bin_values_ms=(1.0,), test=at)
        found = compare(plain, bin_values_ms=(1.0,), test=at, pre_period=pre_period)
        (before,), (after,) = without.p_values, found.p_values
        assert before is not None
        assert after is not None
        assert after < before
    (pair,) = found.primary_pairs
    assert pair.interval is not None
    assert pair.standard_error is not None
    assert pair.interval.high - pair.interval.low == pytest.approx(
        2 * analysis.critical_value(reports=reports, alpha=0.05) * pair.standard_error, rel=0.005
    )


def test_correction_of_a_latency_is_refused() -> None:
    """What came before is a share of accepted answers; it says nothing of milliseconds."""
    counts = np.full((2, 2, 2 * PRE_BINS), 100.0)
    plain, pre_period = split_pre_period(
        Aggregate(counts, np.zeros((counts.size, counts.size)), int(counts.sum())), EDGES
    )
    with pytest.raises(ArgumentError, match="pre_period"):
        compare(plain, bin_values_ms=(1.0, 2.0), primary=Primary(PrimaryKind.LATENCY_MEAN), pre_period=pre_period)


def test_without_reports_or_history_nothing_is_corrected(exact: Exact) -> None:
    """No report, one arm empty, nobody known: the plain difference, or none."""
    empty = np.zeros((2, 2, PRE_BINS), dtype=np.int64)
    half, unknown = empty.copy(), empty.copy()
    half[0] = 50
    unknown[:, :, 0] = ((60, 40), (50, 50))
    for counts, theta in ((empty, None), (half, None), (unknown, 0.0)):
        plain, pre_period = split_pre_period(exact(counts), EDGES)
        found = compare(plain, bin_values_ms=(1.0,), pre_period=pre_period)
        assert [pair.value for pair in found.primary_pairs] == [pair.value for pair in found.pairs]
        assert [None if one is None else one.theta for one in found.adjustments] == [theta]


def test_unknown_devices_stand_at_the_mean_and_move_nothing() -> None:
    """However unevenly the arms hold them, they neither change the slope nor pull the difference."""
    known = np.array([[40.0, 10.0], [30.0, 30.0], [10.0, 40.0]])
    thetas = []
    for more in (0.0, 30.0):
        joint = np.zeros((2, PRE_BINS, 2))
        joint[:, 1:] = known
        joint[0, 0], joint[1, 0] = 20.0, 20.0 + more
        pre_period = PrePeriod(Aggregate(joint, np.zeros((joint.size, joint.size)), int(joint.sum())), EDGES)
        values = pre_values(pre_period, 1, 0)
        assert values[0] == pytest.approx((0.25 * 50 + 0.65 * 60 + 0.9 * 50) / 160)
        before = Difference(1, 0, 0.0, None, 1.0, 0.0)
        (after,), (adjustment,) = corrected_pairs(pre_period, (before,), success_outcome=1, critical_value=Z)
        assert adjustment is not None
        assert after.value == pytest.approx(0.0, abs=1e-12)
        thetas.append(adjustment.theta)
    assert thetas[0] == pytest.approx(thetas[1])


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_correction_is_unbiased_and_its_error_is_true(mechanism: Mechanism) -> None:
    """Over fleets the mean is the truth, the spread is the error that was stated, and never above the plain one."""
    rng = np.random.default_rng(3)
    found = [correct(draw(rng, arms_of(), 20_000, mechanism)) for _ in range(150)]
    values = np.array([after.value for after, _ in found], dtype=float)
    stated = float(np.mean([after.standard_error or 0.0 for after, _ in found]))
    spread = float(values.std())
    assert abs(float(values.mean()) - 0.05) < 4.0 * spread / math.sqrt(len(found))
    assert 0.8 < stated / spread < 1.25
    for after, before in found:
        assert (after.standard_error or 0.0) <= (before.standard_error or 0.0) * 1.02
    plain = float(np.std([before.value or 0.0 for _, before in found]))
    if mechanism is not Mechanism.RANDOMIZED_RESPONSE:
        assert spread < 0.95 * plain


def test_history_that_the_treatment_moved_would_bias_the_correction() -> None:
    """A test for this test: were answers after the exposure to enter, the difference would be corrected away."""
    arms = arms_of(unknown=0.0, correlation=0.9)
    moved = arms.copy()
    moved[1] = np.vstack([np.zeros((2, 2)), arms[1][1:2] + arms[1][2:3], arms[1][3:]])
    rng = np.random.default_rng(4)
    values = [correct(draw(rng, moved / moved.sum(), 20_000, Mechanism.EXACT))[0].value for _ in range(20)]
    assert abs(float(np.mean(np.array(values, dtype=float))) - 0.05) > 0.03


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize(("devices", "correlation"), [(10_000, 0.2), (10_000, 0.6), (100_000, 0.6)])
def test_95_percent_intervals_cover_95_percent(mechanism: Mechanism, devices: int, correlation: float) -> None:
    """Smaller and larger fleets, weak and strong history, and a slope that had to be estimated through the noise."""
    rng = np.random.default_rng(5)
    runs, covered, read = 1_000, 0, 0
    for _ in range(runs):
        aggregate = draw(rng, arms_of(correlation=correlation), devices, mechanism)
        sizes = aggregate.estimates.sum(axis=(1, 2))
        if sizes.min() < 0.2 * devices:  # `compare` says nothing where the noise hides an arm
            continue
        after, _ = correct(aggregate)
        read += 1
        covered += abs((after.value or 0.0) - 0.05) <= Z * (after.standard_error or 0.0)
    assert read > 0.9 * runs
    assert covered / read > 0.93


@pytest.mark.parametrize("mechanism", [Mechanism.EXACT, Mechanism.PRIO3])
def test_gain_that_is_forecast_is_what_fleets_show(mechanism: Mechanism) -> None:
    """The forecast ratio of errors is that of the spreads over fleets with and without the earlier share."""
    rng = np.random.default_rng(6)
    arms = arms_of(unknown=0.0, gain=0.0)
    found = [correct(draw(rng, arms, 20_000, mechanism))[0] for _ in range(60)]
    stated = float(np.mean([after.standard_error or 0.0 for after in found]))
    without = 2.0 * math.sqrt(0.24 / 20_000)
    forecast = cuped_error_ratio(
        EDGES, rate=0.6, shares=(0.5, 0.5), mechanism=mechanism, epsilon=Fraction(1), devices=20_000
    )
    assert stated / without == pytest.approx(forecast, rel=0.04)


def test_forecast_says_where_it_pays() -> None:
    """Always without noise; with two aggregators from some ten thousand devices; never at what devices may spend."""

    def ratio(mechanism: Mechanism, epsilon: int, devices: int, outcomes: int = 2, latency_bins: int = 1) -> float:
        return cuped_error_ratio(
            EDGES,
            rate=0.6,
            shares=(0.5, 0.5),
            mechanism=mechanism,
            epsilon=Fraction(epsilon),
            devices=devices,
            outcomes=outcomes,
            latency_bins=latency_bins,
        )

    assert ratio(Mechanism.EXACT, 1, 1_000) < 0.85
    assert ratio(Mechanism.PRIO3, 1, 300) > 1.0 > ratio(Mechanism.PRIO3, 1, 10_000)
    randomized = [ratio(Mechanism.RANDOMIZED_RESPONSE, 2, devices) for devices in (1_000, 10**8)]
    assert randomized[0] == pytest.approx(randomized[1])
    assert randomized[0] > 1.5
    more = ratio(Mechanism.PRIO3, 1, 10_000, outcomes=4, latency_bins=4)
    assert more > ratio(Mechanism.PRIO3, 1, 10_000)


def test_forecast_population_correlates_as_it_says() -> None:
    """The accepted share is the rate; finer bins come close to the stated correlation from below."""
    edges = tuple(place / 20 + 0.025 for place in range(20))
    joint = joint_model(edges, 0.7, correlation=0.5)
    assert joint.sum() == pytest.approx(1.0)
    assert joint[:, 1].sum() == pytest.approx(0.7)
    shares = np.concatenate([[0.0], np.arange(21) / 20])
    weights = joint.sum(axis=1)
    mean = float((weights * shares).sum())
    shared = float((joint[:, 1] * (shares - mean)).sum())
    spread = float((weights * (shares - mean) ** 2).sum())
    assert shared / math.sqrt(spread * 0.7 * 0.3) == pytest.approx(0.5)
    for name, arguments in {
        "base_rate": {"rate": 1.0},
        "correlation": {"rate": 0.5, "correlation": 1.0},
        "answers": {"rate": 0.5, "answers": 0},
    }.items():
        with pytest.raises(ArgumentError, match=name):
            joint_model(EDGES, **arguments)  # type: ignore[arg-type]
