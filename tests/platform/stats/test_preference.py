"""Preference between two versions, whatever the order in which they are shown does."""

import math

import numpy as np
import pytest
from alcove.platform.simulation.own_metric import OwnMetricScenario, preference_parts, simulate_own_metric
from alcove.platform.stats import Interval, Mechanism, read_preference
from alcove.registry.policy.metric import MetricKind
from hypothesis import given
from hypothesis import strategies as st


def simulate(preference: float, *, runs: int, devices: int = 20_000, **how: float) -> list[tuple[float, float, float]]:
    """Share with its interval, of each run of one window by randomized response."""
    parts = preference_parts(preference, **how)
    scenario = OwnMetricScenario(kind=MetricKind.PREFERENCE, parts=parts, runs=runs, devices=devices, seed=7)
    found = []
    for run in simulate_own_metric(scenario):
        assert run.preference is not None
        assert run.preference.interval is not None
        found.append((run.preference.share, *run.preference.interval))
    return found


@given(st.floats(0.2, 0.8), st.floats(0.0, 0.3), st.floats(-0.05, 0.05))
def test_the_order_cancels_in_the_preference_and_has_an_effect_of_its_own(q: float, ties: float, effect: float) -> None:
    """From exact means of both arms the preference and the order's effect come back."""
    scores = [first + tie / 2.0 for _, tie, first in preference_parts(q, ties=ties, order_effect=effect)]
    found = read_preference((scores[1] - scores[0], None), ((scores[0], None), (scores[1], None)))
    assert found.share == pytest.approx(q)
    assert found.order_effect == pytest.approx(effect)
    assert (found.interval, found.order_interval) == (None, None)


def test_the_interval_of_the_difference_becomes_that_of_the_share() -> None:
    """Half of it, around a half, and never beyond 0 and 1; the odds are those of Bradley and Terry."""
    found = read_preference((0.2, Interval(-0.1, 1.5)), ((0.5, Interval(0.4, 0.6)), (0.7, Interval(0.6, 0.8))))
    assert found.interval == pytest.approx((0.45, 1.0))
    assert found.log_odds == pytest.approx(math.log(0.6 / 0.4))
    assert found.order_effect == pytest.approx(0.1)
    assert found.order_interval == pytest.approx((0.1 - math.hypot(0.1, 0.1) / 2, 0.1 + math.hypot(0.1, 0.1) / 2))
    assert read_preference((1.0, None), None).log_odds == math.inf
    assert read_preference((-1.2, None), None).log_odds == -math.inf


def test_intervals_hold_what_people_prefer_with_noise_ties_and_an_order_that_matters() -> None:
    """Of 60 runs at 56 % nearly all hold it, and the mean is it: an interval without noise would hold it in few."""
    found = simulate(0.56, runs=60, ties=0.2, order_effect=0.1)
    assert np.mean([share for share, _, _ in found]) == pytest.approx(0.56, abs=0.004)
    assert sum(low <= 0.56 <= high for _, low, high in found) >= 57
    assert all(high - low < 0.06 for _, low, high in found)


def test_versions_that_are_alike_win_by_chance_alone() -> None:
    """At 50 % an order that matters names no winner: a test that took it for a preference would name one each time."""
    scenario = OwnMetricScenario(
        kind=MetricKind.PREFERENCE, parts=preference_parts(0.5, order_effect=0.1), runs=40, devices=20_000, windows=2
    )
    runs = list(simulate_own_metric(scenario))
    assert sum(run.won_window is not None or run.lost_window is not None for run in runs) <= 4
    effects = [run.preference.order_effect for run in runs if run.preference is not None]
    assert np.mean([effect for effect in effects if effect is not None]) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("mechanism", [Mechanism.RANDOMIZED_RESPONSE, Mechanism.PRIO3])
def test_rated_calls_say_which_of_two_noise_suppressors_is_better(mechanism: Mechanism) -> None:
    """80 % against 88 % of good calls, a third of the devices rating: the better one wins, never the other."""
    scenario = OwnMetricScenario(
        kind=MetricKind.SHARE, parts=((0.2, 0.8), (0.12, 0.88)), answering=0.33, devices=40_000, runs=10,
        mechanism=mechanism, epsilon="1" if mechanism is Mechanism.PRIO3 else "2",
    )  # fmt: skip
    runs = list(simulate_own_metric(scenario))
    assert sum(run.won_window == 1 for run in runs) >= 8
    assert all(run.lost_window is None and run.preference is None for run in runs)


@pytest.mark.parametrize(
    ("preference", "how"), [(1.1, {}), (0.9, {"ties": 0.3}), (0.5, {"order_effect": 0.6}), (0.5, {"ties": 1.2})]
)
def test_parts_that_cannot_be_are_refused(preference: float, how: dict[str, float]) -> None:
    """A part of the comparisons would be below 0."""
    with pytest.raises(ValueError, match="cannot be"):
        preference_parts(preference, **how)


def test_a_scenario_of_other_metrics_or_parts_is_refused() -> None:
    """Counts have no parts; parts are of sum 1."""
    for kind, parts in ((MetricKind.COUNT, (0.5, 0.5)), (MetricKind.SHARE, (0.5, 0.4))):
        with pytest.raises(ValueError, match=r"kind is|of sum 1"):
            OwnMetricScenario(kind=kind, parts=(parts, parts))
