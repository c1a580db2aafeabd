"""Latency is resolved as far as its bins allow: harm and safety in ms, shares slower than an edge, honest bounds."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    ArgumentError,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    GuardVerdict,
    Look,
    PlannedBound,
    Primary,
    PrimaryKind,
    QuantileComparison,
    Stratum,
    evaluate_guardrail,
    is_resolved,
    propose_edges,
)
from alcove.platform.stats.aggregator_noise import cell_variance, draw_noise
from numpy.typing import NDArray
from scipy.stats import lognorm

from tests.platform.stats.comparing import compare

Floats = NDArray[np.float64]
Below = Callable[[Floats], Floats]
"""Gives the part of the answers that took less than each of some milliseconds."""

COARSE_MS = (10.0, 20.0, 40.0, 80.0, 160.0)
FINE_MS = propose_edges(10.0, 57.0)
EPSILON = Fraction(1)


def log_normal(quantile: float, value_ms: float, spread: float = 0.4) -> Below:
    """Latencies with this quantile."""
    median = value_ms / math.exp(spread * NormalDist().inv_cdf(quantile))
    return lambda edges: np.asarray(lognorm.cdf(edges, spread, scale=median))


def cells_of(below: Below, edges_ms: Sequence[float]) -> Floats:
    """Shares [outcomes, bins] of an arm; 80 % accepted."""
    reached = below(np.array(edges_ms))
    return np.outer([0.2, 0.8], np.diff(np.concatenate([[0.0], reached, [1.0]])))


def expectation(control: Below, treatment: Below, edges_ms: Sequence[float], devices: int) -> Aggregate:
    """Exact counts of two arms of so many devices each, as many as are expected."""
    counts = np.round(np.stack([cells_of(each, edges_ms) for each in (control, treatment)]) * devices)
    return Aggregate(counts, np.zeros((counts.size, counts.size)), int(counts.sum()))


def look(aggregate: Aggregate, guardrail: Guardrail, edges_ms: Sequence[float]) -> GuardVerdict:
    """Examine arm 1 against arm 0 as a rollout with three watched stages does."""
    tests = GuardTests.at_will(0.05 / 3.0, reports=aggregate.reports, planned_reports=2_000)
    return evaluate_guardrail([Stratum(aggregate)], guardrail, control=0, treatment=1, tests=tests, edges_ms=edges_ms)


def test_equal_versions_are_safe_and_one_that_is_102_ms_slower_is_harmful_where_bins_show_the_margin() -> None:
    """2,000,000 devices a group, margin of 10 ms at the 95th percentile of 57 ms; bins of 10 to 80 ms show no such."""
    guardrail = Guardrail(GuardMetric.LATENCY, 10.0, quantile=0.95)
    control = log_normal(0.95, 57.0)
    assert not is_resolved(COARSE_MS, 10.0)
    assert is_resolved(FINE_MS, 10.0)
    for value_ms, kind in (
        (57.0, GuardKind.SAFE),
        (61.0, GuardKind.SAFE),
        (76.0, GuardKind.HARMFUL),
        (57.0 + 102.0, GuardKind.HARMFUL),
    ):
        verdict = look(expectation(control, log_normal(0.95, value_ms), FINE_MS, 2_000_000), guardrail, FINE_MS)
        assert verdict.kind is kind, (value_ms, verdict)
        if verdict.high is not None and verdict.low is not None:
            assert verdict.low < value_ms - 57.0 < verdict.high


def test_the_share_slower_than_an_edge_finds_the_same_slowness_in_coarse_bins_with_fewer_devices() -> None:
    """102 ms more: a tenth of a per cent of the devices is enough; equal versions are safe."""
    guardrail = Guardrail(GuardMetric.LATENCY, 0.01, edge_ms=80.0)
    control = log_normal(0.95, 57.0)
    slow = look(expectation(control, log_normal(0.95, 159.0), COARSE_MS, 200), guardrail, COARSE_MS)
    assert slow.kind is GuardKind.HARMFUL
    assert "share slower than 80 ms" in slow.reason
    equal = look(expectation(control, control, COARSE_MS, 20_000), guardrail, COARSE_MS)
    assert equal.kind is GuardKind.SAFE


@pytest.mark.parametrize("medians_ms", [(17.0, 28.0), (15.0, 25.0), (28.0, 17.0)])
def test_the_arm_whose_median_an_edge_parts_from_the_others_wins(medians_ms: tuple[float, float]) -> None:
    """A million devices, an edge at 20 ms: the difference is above 0 for sure, whatever latencies are in the bins."""
    control, treatment = (log_normal(0.5, median) for median in medians_ms)
    median = Primary(PrimaryKind.LATENCY_QUANTILE, quantile=0.5)
    counts = expectation(control, treatment, COARSE_MS, 500_000)
    found = compare(counts, bin_values_ms=(5, 15, 30, 60, 120, 200), edges_ms=COARSE_MS, primary=median)
    assert found.decision.winner == int(np.argmin(medians_ms))
    assert "faster than the other arm by more than 0.0000 ms" in found.decision.reason
    (pair,) = found.primary_pairs
    assert pair.excludes_ends
    assert pair.interval == ((0.0, 30.0) if medians_ms[1] > medians_ms[0] else (-30.0, 0.0))


def test_arms_whose_medians_share_a_bin_have_no_winner_and_the_slow_share_finds_one() -> None:
    """22 and 38 ms lie between the same edges; the share that took 20 ms or longer tells them apart."""
    counts = expectation(log_normal(0.5, 38.0), log_normal(0.5, 22.0), COARSE_MS, 500_000)
    values = (5, 15, 30, 60, 120, 200)
    median = Primary(PrimaryKind.LATENCY_QUANTILE, quantile=0.5)
    assert compare(counts, bin_values_ms=values, edges_ms=COARSE_MS, primary=median).decision.winner is None
    slow = Primary(PrimaryKind.LATENCY_SHARE, edge_ms=40.0)
    found = compare(counts, bin_values_ms=values, edges_ms=COARSE_MS, primary=slow)
    assert found.decision.winner == 1
    assert "faster" in found.decision.reason
    assert " ms" not in found.decision.reason
    with pytest.raises(ArgumentError, match="edge_ms"):
        compare(
            counts, bin_values_ms=values, edges_ms=COARSE_MS, primary=Primary(PrimaryKind.LATENCY_SHARE, edge_ms=30.0)
        )


def test_proposed_edges_resolve_their_difference_wherever_it_is_asked_for() -> None:
    """Near zero too; wrong arguments are named."""
    for difference, around in ((10.0, 57.0), (10.0, 3.0), (0.5, 1000.0), (0.001, 0.001)):
        edges = propose_edges(difference, around)
        assert is_resolved(edges, difference)
        assert edges[0] > 0.0
        assert edges[0] <= max(around, difference / 2.0) < edges[-1]
    assert not is_resolved((), 1.0)
    assert not is_resolved((1.0, 2.0, 3.0, 4.0), 1.0)
    for difference, around in ((0.0, 1.0), (1.0, math.inf)):
        with pytest.raises(ArgumentError):
            propose_edges(difference, around)


def mixture(*parts: tuple[float, Below]) -> Below:
    """Latencies of several kinds."""
    return lambda edges: np.sum([share * below(edges) for share, below in parts], axis=0)


def point(value_ms: float) -> Below:
    """All answers take the same time; an edge at it is not below it."""
    return lambda edges: (edges > value_ms).astype(np.float64)


def pareto(quantile: float, value_ms: float, power: float = 1.5) -> Below:
    """A heavy tail: the mean of the slowest is three times their least."""
    scale = value_ms * (1.0 - quantile) ** (1.0 / power)
    return lambda edges: np.where(edges > scale, 1.0 - (scale / np.maximum(edges, scale)) ** power, 0.0)


WORLDS: dict[str, tuple[float, float, Below, Below]] = {
    "lognormal, equal": (0.95, 0.0, log_normal(0.95, 57.0), log_normal(0.95, 57.0)),
    "lognormal, equal, on an edge": (0.5, 0.0, log_normal(0.5, 52.0), log_normal(0.5, 52.0)),
    "lognormal, 7 ms": (0.95, 7.0, log_normal(0.95, 56.0), log_normal(0.95, 63.0)),
    "heavy tail, 8 ms": (0.9, 8.0, pareto(0.9, 60.0), pareto(0.9, 68.0)),
    "two modes, the quantile between them": (
        0.5,
        0.0,
        mixture((0.5, log_normal(0.5, 25.0, 0.05)), (0.5, log_normal(0.5, 90.0, 0.05))),
        mixture((0.5, log_normal(0.5, 25.0, 0.05)), (0.5, log_normal(0.5, 90.0, 0.05))),
    ),
    "points at both ends of a bin": (
        0.95,
        4.999,
        mixture((0.5, point(20.0)), (0.5, point(57.0))),
        mixture((0.5, point(20.0)), (0.5, point(61.999))),
    ),
    "points on edges, the quantile where they meet": (
        0.95,
        0.0,
        mixture((0.95, point(57.0)), (0.05, point(62.0))),
        mixture((0.95, point(57.0)), (0.05, point(62.0))),
    ),
}


def misses(name: str, *, reports: int, runs: int, is_noised: bool, is_noise_known: bool = True) -> tuple[int, int]:
    """Return how often the lower and the upper bound at one look, 5 % each, are on the wrong side of the truth."""
    quantile, truth, control, treatment = WORLDS[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    cells = np.concatenate([cells_of(each, FINE_MS).ravel() for each in (control, treatment)]) / 2.0
    shape = (2, 2, len(FINE_MS) + 1)
    missed = [0, 0]
    bound = PlannedBound(0.05, (Look(1, reports),), 1)
    for counts in rng.multinomial(reports, cells, size=runs):
        total, variance = counts.reshape(shape).astype(np.float64), 0.0
        if is_noised:
            total += draw_noise(rng, shape, EPSILON)
            variance = cell_variance(EPSILON) if is_noise_known else 0.0
        aggregate = Aggregate(total, np.eye(total.size) * variance, reports)
        found = QuantileComparison(aggregate, quantile, FINE_MS, arm=1, versus=0)
        missed[0] += not found.low(bound) < truth
        missed[1] += not truth < found.high(bound)
    return missed[0], missed[1]


@pytest.mark.parametrize("name", WORLDS)
def test_bounds_in_ms_hold_for_every_distribution_inside_the_bins(name: str) -> None:
    """A bound at 5 % errs in at most 5 % of the runs, up to chance: 99.9 % of the time at most 15 of 120."""
    for is_noised in (False, True):
        assert max(misses(name, reports=2_000, runs=120, is_noised=is_noised)) <= 15


def test_bounds_in_ms_that_leave_the_noise_out_are_caught() -> None:
    """The same check, of a wrong reading: one run in eight errs."""
    assert max(misses("lognormal, equal", reports=400, runs=200, is_noised=True, is_noise_known=False)) > 15


@pytest.mark.thorough
@pytest.mark.parametrize("name", WORLDS)
def test_bounds_in_ms_hold_for_every_distribution_at_full_length(name: str) -> None:
    """4,000 runs of fleets small and large: at most 5 % and 4 standard errors."""
    for reports in (400, 5_000, 100_000):
        for is_noised in (False, True):
            assert max(misses(name, reports=reports, runs=4_000, is_noised=is_noised)) <= 255, (reports, is_noised)
