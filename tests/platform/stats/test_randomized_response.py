"""The covariance in an aggregate is the noise of randomized response, all of it, without the sampling variance."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from alcove.platform.stats import AggregateError, ArgumentError, aggregate_from_randomized_response
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout

LAYOUT = HistogramLayout(2, 2, 2)
EPSILON = Fraction(2)
TRUE_CELLS = np.array([500, 400, 300, 800, 50, 950, 600, 400])


def response_probabilities(mechanism: RandomizedResponse) -> tuple[float, float]:
    """Return p and q."""
    return float(mechanism.keep_probability), float(mechanism.other_probability)


def test_noise_and_sampling_add_up_to_what_varies_over_new_devices() -> None:
    """Law of total variance: our noise + multinomial sampling = multinomial variance of reported counts / (p - q)^2.

    The reported counts are their expectations, rounded, so the identity holds up to that rounding. Had the noise
    contained the sampling of the devices already, the left side would exceed the right by it.
    """
    keep, other = response_probabilities(RandomizedResponse(8, EPSILON))
    scale = 10**6
    reports = int(TRUE_CELLS.sum()) * scale
    counts = np.rint(other * reports + (keep - other) * TRUE_CELLS * scale).astype(np.int64)
    aggregate = aggregate_from_randomized_response(counts.tolist(), LAYOUT, epsilon=EPSILON)
    reports = aggregate.reports
    truth = aggregate.estimates.ravel() / reports
    seen = counts / reports
    total = reports * (np.diag(seen) - np.outer(seen, seen)) / (keep - other) ** 2
    sampling = reports * (np.diag(truth) - np.outer(truth, truth))
    scale_of_entries = np.abs(total).max()
    assert np.abs(aggregate.noise_covariance + sampling - total).max() < 1e-9 * scale_of_entries
    assert np.abs(sampling).max() > 0.01 * scale_of_entries


def test_noise_covariance_equals_the_spread_of_repeated_answers_of_the_same_devices() -> None:
    """With the devices' cells held fixed, repeated answers vary as the covariance says, and are unbiased."""
    rng = np.random.default_rng(20_260_102)
    keep, other = response_probabilities(RandomizedResponse(8, EPSILON))
    repeats = 4_000
    counts = np.zeros((repeats, 8), dtype=np.int64)
    for cell, devices in enumerate(TRUE_CELLS):
        answers = np.full(8, other)
        answers[cell] = keep
        counts += rng.multinomial(int(devices), answers / answers.sum(), size=repeats)
    estimates = (counts - TRUE_CELLS.sum() * other) / (keep - other)
    stated = np.mean(
        [
            aggregate_from_randomized_response(row.tolist(), LAYOUT, epsilon=EPSILON).noise_covariance
            for row in counts[:200]
        ],
        axis=0,
    )
    deviations = np.sqrt(np.diag(stated))
    assert np.abs(estimates.mean(axis=0) - TRUE_CELLS).max() < 4.5 * deviations.max() / np.sqrt(repeats)
    seen = np.cov(estimates.T) / np.outer(deviations, deviations)
    assert np.abs(seen - stated / np.outer(deviations, deviations)).max() < 0.1
    # Counted twice, the sampling of the devices would raise the variances by more than the tolerance.
    assert (TRUE_CELLS * (1 - TRUE_CELLS / TRUE_CELLS.sum()) / np.diag(stated)).max() > 0.15


def test_estimates_have_the_shape_of_the_task_and_sum_to_the_reports() -> None:
    """Cells are flattened arm first, then outcome, then bin."""
    aggregate = aggregate_from_randomized_response(
        [0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0], HistogramLayout(2, 2, 3), epsilon=EPSILON
    )
    assert aggregate.estimates[1, 0, 0] == aggregate.estimates.max()
    assert aggregate.estimates.sum() == pytest.approx(9.0)
    assert aggregate.reports == 9


def test_malformed_counts_and_parameters_are_refused_by_name() -> None:
    """A typed error names what is wrong; the mechanism's own errors don't escape."""
    sound: dict[str, Any] = {"counts": [1] * 8, "layout": LAYOUT, "epsilon": EPSILON}
    for field, value, name in (
        ("counts", [1] * 7, "counts"),
        ("counts", [1] * 9, "counts"),
        ("counts", [], "counts"),
        ("counts", [1] * 7 + [-1], "counts"),
        ("layout", HistogramLayout(2, 1, 4), "layout"),
        ("layout", HistogramLayout(2, 2, 1_000_000), "layout"),
        ("epsilon", Fraction(0), "epsilon"),
        ("epsilon", Fraction(-1), "epsilon"),
        ("epsilon", Fraction(10**6), "epsilon"),
    ):
        with pytest.raises(ArgumentError) as caught:
            aggregate_from_randomized_response(**(sound | {field: value}))
        assert caught.value.name == name
    with pytest.raises(AggregateError, match="reports"):
        aggregate_from_randomized_response(**(sound | {"counts": [10**12] * 8}))
