"""The chances of analyses are those of simulated Brownian motion, and of the recursion with drift."""

import math

import numpy as np
import pytest
from alcove.platform.stats import ArgumentError
from alcove.platform.stats.confidence_sequence import critical_value
from alcove.platform.stats.group_sequential import boundaries, drift
from alcove.platform.stats.power_curve import PowerCurve, power_curve_of


def test_a_planned_effects_drift_is_that_of_the_recursion_with_drift() -> None:
    """One to twenty even analyses: `group_sequential.drift` integrates each drift by itself."""
    for analyses in (1, 2, 5, 20):
        parts = tuple((place + 1) / analyses for place in range(analyses))
        for power in (0.5, 0.8, 0.95):
            found = PowerCurve(parts, boundaries(parts, 0.05)).score(power)
            assert found == pytest.approx(drift(analyses, alpha=0.05, power=power), abs=2e-6)


def test_the_chance_is_that_of_simulated_paths() -> None:
    """Uneven information and the bounds of a confidence sequence: 40,000 paths, within four of their errors."""
    information = (0.15, 0.2, 0.5, 1.0)
    bounds = tuple(critical_value(reports=round(100 * part), alpha=0.05, planned_reports=100) for part in information)
    steps = np.diff([0.0, *information])
    paths = np.random.default_rng(20_271_101).standard_normal((40_000, 4)) * np.sqrt(steps)
    for expected in (0.0, 2.0, 3.5, 5.0):
        scores = (paths + expected * steps).cumsum(axis=1) / np.sqrt(information)
        called = float((scores >= bounds).any(axis=1).mean())
        found = PowerCurve(information, bounds).power(expected)
        assert abs(found - called) <= 4.0 * math.sqrt(max(found * (1.0 - found), 1e-4) / 40_000)


def test_analyses_that_learn_nothing_new_are_one() -> None:
    """Their lower bound counts; nothing is called where no bound is finite."""
    assert power_curve_of((1.0, 1.0001, 1.0002), (3.0, 2.5, 2.8)).power(2.5) == pytest.approx(0.5)
    assert PowerCurve((0.5, 1.0), (math.inf, math.inf)).power(5.0) == 0.0
    assert PowerCurve((1.0,), (2.0,)).power(50.0) == 1.0
    for wrong in (((), ()), ((0.5, 0.4, 1.0), (1.0, 1.0, 1.0)), ((0.5,), (1.0,)), ((1.0,), ())):
        with pytest.raises(ArgumentError):
            PowerCurve(*wrong)
