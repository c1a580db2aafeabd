"""Plans of two to five arms find their effect as often as they promise, in simulation by the decision's own rule."""

from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    Mechanism,
    ReasonCode,
    Rules,
    decide,
    estimate,
    share_model,
)
from alcove.platform.stats.estimates import Metric
from alcove.platform.stats.power import PowerModel, analyses_of
from alcove.privacy.randomized_response import RandomizedResponse

from benchmarks.statistics.found import ALPHA, POWER, Plan, beats_all, grid, measure

TWO = Fraction(2)
RESPONSE = Mechanism.RANDOMIZED_RESPONSE
SOME = (
    Plan((0.5, 0.5), 0.005, 0.002, Mechanism.EXACT, TWO, 0, 1),
    Plan((0.8, 0.1, 0.1), 0.5, 0.02, RESPONSE, TWO, 0, 4),
    Plan((0.6, 0.1, 0.1, 0.1, 0.1), 0.8, 0.03, Mechanism.EXACT, TWO, 5, 1),
    Plan((0.2,) * 5, 0.05, 0.01, Mechanism.PRIO3, Fraction(1), 5, 5),
)


@pytest.mark.parametrize("plan", SOME, ids=lambda plan: f"{len(plan.shares)} arms, {plan.mechanism}")
def test_a_plan_finds_its_effect_as_often_as_it_promises(plan: Plan) -> None:
    """Some plans, 4,000 runs each: 80 % within three points."""
    found = measure(plan, np.random.default_rng(20_271_102), runs=4_000)
    assert abs(found.wins - POWER) <= 0.03
    assert found.others <= 0.001


@pytest.mark.thorough
def test_sixty_plans_find_their_effects_as_often_as_they_promise() -> None:
    """Two to five arms, even and uneven, four rates, four mechanisms, three readings; 4,000 runs each."""
    rng = np.random.default_rng(20_271_103)
    plans = grid()
    assert len(plans) == 60
    for plan in plans:
        found = measure(plan, rng, runs=4_000)
        assert abs(found.wins - POWER) <= 0.03, found


def test_the_simulation_calls_what_the_decision_calls() -> None:
    """Two hundred runs of three arms at the brink, by randomized response: the same winner in each."""
    plan = Plan((0.5, 0.25, 0.25), 0.5, 0.03, RESPONSE, TWO, 0, 1)
    devices = plan.model().devices_needed(plan.effect)
    assert devices is not None
    mechanism = RandomizedResponse(6, TWO)
    other = float(mechanism.other_probability)
    answers = other + (float(mechanism.keep_probability) - other) * plan.cells()
    counts = np.random.default_rng(20_271_104).multinomial(devices, answers / answers.sum(), size=200)
    (bound,) = analyses_of(0, 1, ALPHA).bounds
    called = beats_all(plan, counts.astype(np.float64), devices, 1, bound)
    wins = alarms = 0
    for run, each in enumerate(counts):
        aggregate = Aggregate(mechanism.estimate(each).reshape(3, 2, 1), mechanism.covariance(each), devices)
        rules = Rules(minimum_cohort=0, expected_shares=plan.shares)
        found = decide(estimate(aggregate, Metric((1.0,))), AlwaysValid(devices), rules).decision
        if found.code is ReasonCode.SAMPLE_RATIO_MISMATCH:  # its own error, of one in a hundred runs at most
            alarms += 1
            continue
        assert np.flatnonzero(called[:, run]).tolist() == ([] if found.winner is None else [found.winner])
        wins += found.winner == plan.better
    assert alarms <= 4
    assert 100 < wins < 190


def test_an_arm_that_beats_all_needs_more_than_a_pair_and_its_own_variance() -> None:
    """Two arms: textbook sizes with unpooled variances; more arms, uneven shares: more devices."""
    fixed = [
        PowerModel(share_model(rate), (0.5, 0.5), Mechanism.EXACT, TWO, analyses=1).devices_needed(0.002)
        for rate in (0.01, 0.005)
    ]
    assert fixed == pytest.approx([85_380, 46_803], abs=2)  # statsmodels' and the textbook's
    needs = [
        PowerModel(share_model(0.5), shares, RESPONSE, TWO).devices_needed(0.02) or 0
        for shares in ((0.5, 0.5), (1 / 3, 1 / 3, 1 / 3), (0.2,) * 5, (0.6, 0.1, 0.1, 0.1, 0.1))
    ]
    assert needs == sorted(needs)
    assert needs[0] > 0


def test_power_rises_to_its_target_at_the_need_and_mirrors_for_lower_ratios() -> None:
    """At the need it is 80 %; a share that falls from 1 - p is one that rises from p."""
    model = PowerModel(share_model(0.1), (0.8, 0.1, 0.1), RESPONSE, TWO)
    need = model.devices_needed(0.02, 4)
    assert need is not None
    assert model.power(0.02, need, 4) == pytest.approx(0.8, abs=1e-4)
    assert model.detectable(need, 4) == pytest.approx(0.02, rel=1e-4)
    assert model.power(0.02, need // 2, 4) < 0.6
    assert model.power(0.02, 4 * need, 4) > 0.99
    lower = PowerModel(share_model(0.9), (0.8, 0.1, 0.1), Mechanism.EXACT, TWO, is_less_better=True)
    higher = PowerModel(share_model(0.1), (0.8, 0.1, 0.1), Mechanism.EXACT, TWO)
    assert lower.devices_needed(0.02) == higher.devices_needed(0.02)
    assert PowerModel(share_model(0.5), (0.5, 0.5), RESPONSE, Fraction(1, 100)).detectable(100) is None
