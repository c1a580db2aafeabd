"""Cochran's Q has the size that it states, and finds strata that differ."""

import math

import numpy as np
import pytest
from alcove.platform.stats import ArgumentError, cochran_q
from scipy.stats import chi2


@pytest.mark.parametrize("strata", [2, 3, 4, 7])
def test_q_of_equal_strata_has_its_size_and_tail(strata: int) -> None:
    """Of 4,000 draws 5 % are below 0.05 within five standard errors, whatever the errors; the tail is scipy's."""
    rng = np.random.default_rng(strata)
    errors = rng.uniform(0.01, 0.2, size=strata)
    found = [cochran_q(1, row.tolist(), errors.tolist()) for row in 0.3 + errors * rng.standard_normal((4000, strata))]
    below = sum(one.p < 0.05 for one in found)
    assert abs(below - 200) < 5 * math.sqrt(4000 * 0.05 * 0.95)
    for one in found[:50]:
        assert one.degrees == strata - 1
        assert one.p == pytest.approx(chi2.sf(one.q, strata - 1), rel=1e-9)


def test_q_of_a_worked_example() -> None:
    """Two strata: the squared difference over the sum of the variances."""
    found = cochran_q(2, [0.1, 0.4], [0.06, 0.08])
    assert (found.arm, found.degrees) == (2, 1)
    assert found.q == pytest.approx(9.0)
    assert found.p == pytest.approx(0.0026998, rel=1e-4)
    assert cochran_q(1, [0.2, 0.2, 0.2], [0.1, 0.2, 0.3]).p == 1.0


@pytest.mark.parametrize(
    ("values", "errors"),
    [([0.1], [0.1]), ([0.1, 0.2], [0.1]), ([0.1, math.nan], [0.1, 0.1]), ([0.1, 0.2], [0.1, 0.0]), ([], [])],
)
def test_numbers_that_are_none_are_refused(values: list[float], errors: list[float]) -> None:
    """One stratum, none, a standard error of zero."""
    with pytest.raises(ArgumentError):
        cochran_q(1, values, errors)
