"""Reports that name sets of cells are read without bias, with the noise that sets have, and planned by it."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from alcove.platform.stats import ArgumentError, Mechanism, aggregate_from_randomized_response
from alcove.platform.stats.arm_covariance import ReportModel, ratio_covariance
from alcove.platform.stats.metric_model import MetricModel
from alcove.privacy.subset_selection import SubsetSelection
from alcove.registry.policy import HistogramLayout
from numpy.typing import NDArray

LAYOUT = HistogramLayout(2, 2, 3)
ONE = Fraction(1)
SIZE = 3
TRUE = np.array([500, 0, 300, 800, 50, 950, 600, 400, 0, 20, 30, 700]) * 10**6


def expected_counts(mechanism: SubsetSelection, true: NDArray[Any]) -> list[int]:
    """What so many devices report on average, in whole numbers of whole reports."""
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    counts = np.rint(true.sum() * other + (keep - other) * true).astype(int)
    counts[-1] += int(true.sum()) * mechanism.subset_size - counts.sum()
    return [int(count) for count in counts]


def test_estimates_and_noise_are_those_of_sets() -> None:
    """Cells are counted once for each set that has them; the reports are as many as the sets."""
    mechanism = SubsetSelection(12, ONE, SIZE)
    counts = expected_counts(mechanism, TRUE)
    aggregate = aggregate_from_randomized_response(counts, LAYOUT, epsilon=ONE, subset_size=SIZE)
    assert aggregate.reports == TRUE.sum()
    assert aggregate.estimates.ravel() == pytest.approx(TRUE, abs=100)
    assert aggregate.noise_covariance == pytest.approx(mechanism.covariance(counts))


def test_sets_of_one_cell_are_read_as_before() -> None:
    """A task that names no size has reports of one cell."""
    counts = [5, 0, 3, 8, 1, 9, 6, 4, 0, 2, 3, 7]
    one, other = (
        aggregate_from_randomized_response(counts, LAYOUT, epsilon=ONE, **size) for size in ({}, {"subset_size": 1})
    )
    assert np.array_equal(one.noise_covariance, other.noise_covariance)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_plan_has_the_noise_that_an_analysis_reads(size: int) -> None:
    """A contrast of the covariance at the expected counts, for each report, is what the plan computes."""
    probabilities = np.array([0.3, 0.1, 0.25, 0.05, 0.1, 0.2])
    weights = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    model = MetricModel(weights, np.ones(6), probabilities)
    shares = [0.4, 0.6]
    true = np.concatenate([share * probabilities for share in shares]) * 10**9
    mechanism = SubsetSelection(12, ONE, size)
    covariance = mechanism.covariance(expected_counts(mechanism, true))
    residuals = np.zeros((2, 12))
    for arm, share in enumerate(shares):
        residuals[arm, 6 * arm : 6 * arm + 6] = (weights - model.rate) / share
    found = ratio_covariance([model, model], shares, ReportModel(Mechanism.RANDOMIZED_RESPONSE, ONE, None, size))
    assert found.per_report == pytest.approx(residuals @ covariance @ residuals.T / true.sum(), rel=1e-6)


@pytest.mark.parametrize(
    ("counts", "size", "name"),
    [([3, 0] + [0] * 10, 2, "counts"), ([1, 1] + [0] * 10, 0, "counts"), ([2] + [0] * 11, 2, "counts"),
     ([12] + [0] * 11, 12, "subset_size")],
)  # fmt: skip
def test_counts_of_no_whole_sets_are_refused(counts: list[int], size: int, name: str) -> None:
    """A typed error names what is wrong."""
    with pytest.raises(ArgumentError) as caught:
        aggregate_from_randomized_response(counts, LAYOUT, epsilon=ONE, subset_size=size)
    assert caught.value.name == name
