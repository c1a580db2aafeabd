"""Standard errors are true, and intervals cover as often as promised, on simulated fleets with known effects."""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from alcove.platform.stats import Aggregate, Comparison
from numpy.typing import NDArray

from tests.platform.stats.comparing import compare
from tests.selection import quick_every

if TYPE_CHECKING:
    from tests.platform.stats.conftest import Fleet

RUNS = 600


class Case(NamedTuple):
    """One kind of fleet: two accuracies, privacy loss, latencies, devices."""

    accuracies: tuple[float, float]
    epsilon: Fraction | None
    latencies: tuple[float, ...]
    devices: int


CASES = {
    "exact": Case((0.7, 0.75), None, (0.4, 0.3, 0.2, 0.1), 2_000),
    "exact, rare failures": Case((0.98, 0.985), None, (0.5, 0.5), 4_000),
    "k = 16, epsilon 2": Case((0.8, 0.9), Fraction(2), (0.4, 0.3, 0.2, 0.1), 20_000),
    "k = 8, epsilon 2, rare failures": Case((0.96, 0.99), Fraction(2), (0.7, 0.3), 10_000),
    "k = 8, epsilon 4": Case((0.5, 0.6), Fraction(4), (0.2, 0.8), 3_000),
    "k = 16, epsilon 2, few devices": Case((0.8, 0.8), Fraction(2), (0.4, 0.3, 0.2, 0.1), 3_000),
}


def as_it_is(aggregate: Aggregate) -> Aggregate:
    """Read an aggregate as it is."""
    return aggregate


def comparisons(fleet: "Fleet", devices: int, reader: Callable[[Aggregate], Aggregate] = as_it_is) -> list[Comparison]:
    """Compare the arms of many such fleets."""
    rng = np.random.default_rng(20_260_103)
    return [
        compare(reader(fleet.aggregate(counts)), bin_values_ms=fleet.bin_values_ms)
        for counts in fleet.randomize(rng, devices, RUNS)
    ]


def scores_of(results: list[Comparison], truth: float) -> NDArray[np.float64]:
    """Return how many of its standard errors each difference is from the truth."""
    scores = []
    for (difference,) in (result.differences for result in results):
        assert difference.value is not None
        assert difference.standard_error is not None
        scores.append((difference.value - truth) / difference.standard_error)
    return np.array(scores)


@pytest.mark.parametrize("name", quick_every(CASES, 3))
def test_standard_errors_are_true_and_intervals_cover(fleet: "type[Fleet]", name: str) -> None:
    """Scores have a spread of one, and each kind of interval covers its truth at least as often as promised."""
    case = CASES[name]
    world = fleet(case.accuracies, latencies=case.latencies, epsilon=case.epsilon)
    results = comparisons(world, case.devices)
    mean_ms = float(np.dot(world.bin_values_ms, case.latencies))
    median_ms = world.bin_values_ms[int(np.searchsorted(np.cumsum(case.latencies), 0.5))]
    truth = case.accuracies[1] - case.accuracies[0]

    scores = scores_of(results, truth)
    assert 0.92 < scores.std() < 1.08
    assert abs(scores.mean()) < 0.2
    assert 0.92 < (np.abs(scores) < 1.96).mean() < 0.98

    for arm in range(2):
        estimates = [result.arms[arm] for result in results]
        for kind, value in (
            ("share", 0.5),
            ("accepted", case.accuracies[arm]),
            ("latency", mean_ms),
            ("median_latency", median_ms),
        ):
            intervals = [getattr(estimate, f"{kind}_interval") for estimate in estimates]
            covered = np.mean([interval is None or interval.low <= value <= interval.high for interval in intervals])
            assert covered >= 0.97, kind
            assert sum(interval is not None for interval in intervals) >= 0.99 * RUNS, kind


@pytest.mark.thorough
def test_standard_errors_that_ignore_the_noise_are_caught(
    fleet: "type[Fleet]", without_noise: Callable[[Aggregate], Aggregate]
) -> None:
    """The same check fails for a reading that takes randomized answers for exact counts."""
    case = CASES["k = 16, epsilon 2"]
    results = comparisons(fleet(case.accuracies), case.devices, without_noise)
    truth = case.accuracies[1] - case.accuracies[0]
    scores = scores_of(results, truth)
    assert scores.std() > 3.0
