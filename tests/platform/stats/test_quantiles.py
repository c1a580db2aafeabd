"""Bounds on latency quantiles hold at every analysis, find slower arms, and exist only where data allow."""

from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    ArgumentError,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    Stratum,
    evaluate_guardrail,
    quantile_difference,
)
from alcove.platform.stats.aggregator_noise import aggregate_from_noised_histogram, cell_variance, draw_noise
from numpy.typing import NDArray

EDGES_MS = tuple(float(edge) for edge in range(1, 20))
EPSILON = Fraction(1)


def arm_cells(median_ms: float) -> NDArray[np.float64]:
    """Shares [outcomes, bins] of an arm whose latency is logistic around a median; 90 % accepted."""
    reached = 1.0 / (1.0 + np.exp(-(np.array(EDGES_MS) - median_ms)))
    bins = np.diff(np.concatenate([[0.0], reached, [1.0]]))
    return np.outer([0.1, 0.9], bins)


def windows(
    rng: np.random.Generator, medians_ms: tuple[float, float], *, reports: int, analyses: int, is_noised: bool
) -> list[Aggregate]:
    """Return cumulative aggregates of two arms over `analyses` windows of `reports` each."""
    cells = np.concatenate([arm_cells(median).ravel() for median in medians_ms]) / 2.0
    total = np.zeros((2, 2, len(EDGES_MS) + 1))
    found = []
    for window in range(1, analyses + 1):
        total = total + rng.multinomial(reports, cells).reshape(total.shape)
        variance = 0.0
        if is_noised:
            total = total + draw_noise(rng, total.shape, EPSILON)
            variance = cell_variance(EPSILON) * window
        found.append(Aggregate(total, np.eye(total.size) * variance, reports * window))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("is_noised", [False, True])
def test_equal_latencies_are_rarely_harmful_at_any_of_30_analyses_and_slower_ones_are_found(is_noised: bool) -> None:
    """Half a bin off the edge and on it, exact and noised."""
    rng = np.random.default_rng(20_270_401)
    guardrail = Guardrail(GuardMetric.LATENCY, 0.0, quantile=0.5)

    def harmful(medians_ms: tuple[float, float], runs: int) -> int:
        return sum(
            any(
                evaluate_guardrail(
                    [Stratum(analysis)],
                    guardrail,
                    control=0,
                    treatment=1,
                    tests=GuardTests.at_will(0.05, reports=analysis.reports, planned_reports=5_000),
                    edges_ms=EDGES_MS,
                ).kind
                is GuardKind.HARMFUL
                for analysis in windows(rng, medians_ms, reports=1_000, analyses=30, is_noised=is_noised)
            )
            for _ in range(runs)
        )

    runs = 12 if is_noised else 40
    assert harmful((9.5, 9.5), runs) <= 2
    assert harmful((9.0, 9.0), runs) <= 2
    assert harmful((9.0, 11.5), 4) == 4


@pytest.mark.thorough
def test_intervals_of_quantile_differences_cover_at_all_analyses_and_shrink() -> None:
    """Quantiles within bins and on edges, with noise; the estimate interpolates to a fraction of a bin."""
    rng = np.random.default_rng(20_270_402)
    for quantile, medians_ms in ((0.5, (8.3, 10.0)), (0.9, (7.0, 7.0))):
        truth = medians_ms[1] - medians_ms[0]  # the arms differ by a shift
        missed = 0
        for _ in range(40):
            widths = []
            for analysis in windows(rng, medians_ms, reports=3_000, analyses=8, is_noised=True):
                found = quantile_difference(
                    analysis, quantile, EDGES_MS, arm=1, versus=0, alpha=0.05, planned_reports=10_000
                )
                assert found is not None
                value, interval = found
                missed += not interval.low <= truth <= interval.high
                widths.append(interval.high - interval.low)
            assert abs(value - truth) < 0.5
            assert widths[-1] <= widths[0]
        assert missed <= 2


def test_noise_that_hides_the_answers_gives_no_quantile() -> None:
    """And wrong quantiles and edges are named."""
    rng = np.random.default_rng(20_270_403)
    noised = rng.multinomial(60, arm_cells(5.0).ravel() / 1.0, size=2).reshape(2, 2, 20) + draw_noise(
        rng, (2, 2, 20), EPSILON
    )
    few = aggregate_from_noised_histogram(noised, reports=120, epsilon=EPSILON)
    assert quantile_difference(few, 0.5, EDGES_MS, arm=1, versus=0, alpha=0.05, planned_reports=100) is None
    for name, quantile, edges in (("quantile", 0.0, EDGES_MS), ("edges_ms", 0.5, EDGES_MS[1:])):
        with pytest.raises(ArgumentError) as raised:
            quantile_difference(few, quantile, edges, arm=1, versus=0, alpha=0.05, planned_reports=100)
        assert raised.value.name == name
