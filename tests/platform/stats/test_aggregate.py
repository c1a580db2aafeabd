"""Aggregates accept sound counts and covariances, name the field that is wrong in others, and are immutable."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from alcove.platform.stats import Aggregate, AggregateError, pool
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray


def arguments(arms: int = 2, outcomes: int = 2, bins: int = 3) -> dict[str, Any]:
    """Sound arguments of an aggregate."""
    cells = arms * outcomes * bins
    return {
        "estimates": np.arange(cells, dtype=np.float64).reshape(arms, outcomes, bins),
        "noise_covariance": np.eye(cells),
        "reports": 100,
    }


def test_each_malformed_field_is_refused_by_name() -> None:
    """A typed error names the field, the bound and the value, and no other exception escapes."""
    asymmetric, indefinite, negative = np.eye(12), np.eye(12), -np.eye(12)
    asymmetric[0, 1] = 0.5
    indefinite[0, 1] = indefinite[1, 0] = 1.5
    cases: list[tuple[str, object, str]] = [
        ("reports", -1, "integer in"),
        ("reports", 10**12 + 1, "integer in"),
        ("reports", True, "integer in"),
        ("reports", 3.0, "integer in"),
        ("estimates", np.zeros((2, 6)), "shape"),
        ("estimates", np.zeros((0, 2, 3)), "shape"),
        ("estimates", np.zeros((2, 1, 6)), "shape"),
        ("estimates", np.zeros((2, 2, 0)), "shape"),
        ("estimates", np.zeros((2, 2, 257)), "at most 1024 cells"),
        ("estimates", np.full((2, 2, 3), np.nan), "finite"),
        ("estimates", np.full((2, 2, 3), -np.inf), "finite"),
        ("estimates", np.full((2, 2, 3), 1e25), "magnitude"),
        ("estimates", np.full((2, 2, 3), "7"), "numbers"),
        ("estimates", np.full((2, 2, 3), 1j), "numbers"),
        ("estimates", np.full((2, 2, 3), True), "numbers"),
        ("estimates", [[[1], [2, 3]]], "numbers"),
        ("noise_covariance", np.eye(11), "shape"),
        ("noise_covariance", np.zeros(12), "shape"),
        ("noise_covariance", np.full((12, 12), np.nan), "finite"),
        ("noise_covariance", asymmetric, "symmetric"),
        ("noise_covariance", indefinite, "positive semidefinite"),
        ("noise_covariance", negative, "positive semidefinite"),
    ]
    for field, value, bound in cases:
        with pytest.raises(AggregateError, match=bound) as caught:
            Aggregate(**(arguments() | {field: value}))
        assert caught.value.name == field
        assert caught.value.value


def test_arrays_are_copied_and_read_only() -> None:
    """Neither the caller's arrays nor the aggregate's can change what was accepted."""
    given_arrays = arguments()
    aggregate = Aggregate(**given_arrays)
    given_arrays["estimates"][0, 0, 0] = 99.0
    given_arrays["noise_covariance"][0, 0] = 99.0
    assert aggregate.estimates[0, 0, 0] == 0.0
    assert aggregate.noise_covariance[0, 0] == 1.0
    for array in (aggregate.estimates, aggregate.noise_covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


def test_covariance_that_is_symmetric_up_to_rounding_becomes_exactly_symmetric() -> None:
    """Rounding in a source is forgiven, and cannot make the order of the arms matter."""
    rounded = arguments()
    rounded["noise_covariance"][0, 1] = 1e-12
    covariance = Aggregate(**rounded).noise_covariance
    assert (covariance == covariance.T).all()
    assert covariance[0, 1] == 5e-13


@given(shape=st.tuples(st.integers(1, 4), st.integers(2, 4), st.integers(1, 5)), seed=st.integers(0, 2**32 - 1))
def test_any_shape_with_any_covariance_of_real_noise_is_accepted(shape: tuple[int, int, int], seed: int) -> None:
    """Whatever the rank of the noise, a true covariance is never refused for its rounding."""
    rng = np.random.default_rng(seed)
    cells = int(np.prod(shape))
    factor = rng.standard_normal((cells, int(rng.integers(1, cells + 1)))) * 10.0 ** rng.integers(-6, 7)
    aggregate = Aggregate(rng.standard_normal(shape) * 1e6, factor @ factor.T, 7)
    assert (aggregate.arms, aggregate.outcomes, aggregate.bins) == shape


def test_pooled_windows_add_counts_noise_and_reports(exact: Callable[[NDArray[np.int64]], Aggregate]) -> None:
    """Independent windows add in all three fields."""
    noisy = Aggregate(**arguments())
    counted = exact(np.full((2, 2, 3), 5))
    both = pool([noisy, counted, noisy])
    assert (both.estimates == 2 * noisy.estimates + 5).all()
    assert (both.noise_covariance == 2 * np.eye(12)).all()
    assert both.reports == 260


def test_pool_refuses_nothing_and_different_shapes() -> None:
    """Windows of different tasks cannot be added."""
    for aggregates in ([], [Aggregate(**arguments()), Aggregate(**arguments(bins=2))]):
        with pytest.raises(AggregateError, match="aggregates"):
            pool(aggregates)
