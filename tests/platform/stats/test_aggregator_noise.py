"""Sums of two aggregators are read without bias and with the variance that they have, a local floor included."""

from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import ArgumentError, Mechanism, PowerModel, pool, share_model
from alcove.platform.stats.aggregator_noise import IdleReports, aggregate_from_noised_histogram, draw_noise
from alcove.privacy.randomized_response import RandomizedResponse
from hypothesis import given
from hypothesis import strategies as st

SHAPE = (2, 2, 2)
TRUE = np.array([400, 300, 200, 100, 150, 250, 350, 250], np.int64)
histograms = st.lists(
    st.lists(st.integers(-50, 10**6), min_size=8, max_size=8).map(lambda cells: np.array(cells).reshape(SHAPE)),
    min_size=1,
    max_size=5,
)


@given(histograms, st.sampled_from([Fraction(1, 2), Fraction(2)]))
def test_windows_added_before_or_after_give_the_same(counts: list[np.ndarray], epsilon: Fraction) -> None:
    """Counts of several windows with their number are what `pool` makes of the windows one by one."""
    one_by_one = pool([aggregate_from_noised_histogram(one, reports=7, epsilon=epsilon) for one in counts])
    at_once = aggregate_from_noised_histogram(
        np.sum(counts, axis=0), reports=7 * len(counts), epsilon=epsilon, windows=len(counts)
    )
    np.testing.assert_allclose(at_once.estimates, one_by_one.estimates)
    np.testing.assert_allclose(at_once.noise_covariance, one_by_one.noise_covariance)
    assert at_once.reports == one_by_one.reports


@pytest.mark.parametrize("local_epsilon", [None, Fraction(1), Fraction(3)])
def test_estimates_are_unbiased_and_their_covariance_is_true(local_epsilon: Fraction | None) -> None:
    """2,000 windows of the same true cells: mean and variance of each cell are those that the aggregate states."""
    rng, runs, epsilon = np.random.default_rng(5), 2000, Fraction(1)
    found, stated = np.zeros((runs, TRUE.size)), np.zeros(TRUE.size)
    for run in range(runs):
        counts = TRUE
        if local_epsilon is not None:
            response = RandomizedResponse(TRUE.size, local_epsilon)
            keep, other = float(response.keep_probability), float(response.other_probability)
            rows = np.full((TRUE.size, TRUE.size), other) + np.eye(TRUE.size) * (keep - other)
            counts = np.sum([rng.multinomial(count, row) for count, row in zip(TRUE, rows, strict=True)], axis=0)
        noised = counts + draw_noise(rng, TRUE.shape, epsilon)
        aggregate = aggregate_from_noised_histogram(
            noised.reshape(SHAPE), reports=int(TRUE.sum()), epsilon=epsilon, local_epsilon=local_epsilon
        )
        found[run] = aggregate.estimates.ravel()
        stated += np.diag(aggregate.noise_covariance) / runs
    errors = np.sqrt(stated / runs)
    assert np.abs((found.mean(axis=0) - TRUE) / errors).max() < 4.5
    np.testing.assert_allclose(found.var(axis=0), stated, rtol=0.2)


def test_idle_reports_are_in_the_floor_and_in_no_estimate() -> None:
    """Devices randomize over one cell more: without noise the histogram comes back, whatever the idle ones are."""
    response = RandomizedResponse(TRUE.size + 1, Fraction(2))
    keep, other = response.keep_probability, response.other_probability
    for idle in (0, 5000):
        released = int(TRUE.sum()) + idle
        named = [round(count * (keep - other) + released * other) for count in (*TRUE.tolist(), idle)]
        found = aggregate_from_noised_histogram(
            np.array(named[:-1]).reshape(SHAPE), reports=int(TRUE.sum()), epsilon=Fraction(1),
            local_epsilon=Fraction(2), idle=IdleReports(named[-1], released),
        )  # fmt: skip
        np.testing.assert_allclose(found.estimates.ravel(), TRUE, atol=2)
        covariance = response.covariance(np.maximum(named, 0))[:-1, :-1]
        assert np.linalg.eigvalsh(found.noise_covariance - covariance)[0] > 0


def test_planned_error_of_a_local_floor_is_that_of_its_aggregate() -> None:
    """A large fleet's expected counts, read as sums with the floor, differ with the error that was planned.

    No device is idle, but others name the cell of idle ones.
    """
    devices, epsilon, local = 10**6, Fraction(1), Fraction(2)
    response = RandomizedResponse(5, local)
    keep, other = float(response.keep_probability), float(response.other_probability)
    true = np.array([0.25, 0.25, 0.25, 0.25]) * devices
    counts = np.rint(true * (keep - other) + devices * other).reshape(2, 2, 1)
    idle = IdleReports(round(devices * other), devices)
    aggregate = aggregate_from_noised_histogram(
        counts, reports=devices, epsilon=epsilon, local_epsilon=local, idle=idle
    )
    rho = np.array([1.0, -1.0, -1.0, 1.0]) / devices  # of the difference of two accepted shares of a half
    noise = float(rho @ aggregate.noise_covariance @ rho)
    sampling = 2 * 0.25 / (devices / 2)
    planned = PowerModel(share_model(0.5), (0.5, 0.5), Mechanism.PRIO3, epsilon, local_epsilon=local)
    assert planned.standard_error(devices) ** 2 == pytest.approx(noise + sampling, rel=1e-6)
    without = PowerModel(share_model(0.5), (0.5, 0.5), Mechanism.PRIO3, epsilon)
    assert without.standard_error(devices) < planned.standard_error(devices)


def test_arguments_out_of_bounds_are_refused_by_name() -> None:
    """Windows below zero, and a floor that no randomized response has."""
    counts = TRUE.reshape(SHAPE)
    with pytest.raises(ArgumentError, match="windows"):
        aggregate_from_noised_histogram(counts, reports=1, epsilon=Fraction(1), windows=-1)
    with pytest.raises(ArgumentError, match="local_epsilon"):
        aggregate_from_noised_histogram(counts, reports=1, epsilon=Fraction(1), local_epsilon=Fraction(17))
    with pytest.raises(ArgumentError, match="epsilon"):
        PowerModel(share_model(0.5), (0.5, 0.5), Mechanism.PRIO3, Fraction(1), local_epsilon=Fraction(0))
