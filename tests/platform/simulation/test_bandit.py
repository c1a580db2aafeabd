"""Simulated bandits lose less than a fixed split where an arm is better, and the same seeds give the same runs."""

import pytest
from alcove.platform.simulation.bandit import BanditScenario, simulate_bandit
from alcove.platform.stats import Mechanism


@pytest.mark.parametrize("mechanism", [Mechanism.RANDOMIZED_RESPONSE, Mechanism.PRIO3])
def test_a_much_better_arm_gets_the_most_it_may_have(mechanism: Mechanism) -> None:
    """In steps of a tenth after the first window is closed: four of them, then nine tenths."""
    scenario = BanditScenario((0.6, 0.8), mechanism, days=12, runs=1)
    (run,) = simulate_bandit(scenario)
    assert run.shares == pytest.approx((0.1, 0.9))
    assert run.fixed_regret == pytest.approx(0.1)
    closed = 4 if mechanism is Mechanism.RANDOMIZED_RESPONSE else 2
    parts = [*[0.5] * closed, 0.4, 0.3, 0.2, *[0.1] * (9 - closed)]
    assert run.regret == pytest.approx(0.2 * sum(parts) / 12)
    assert list(simulate_bandit(scenario)) == [run]


def test_equal_arms_lose_nothing_wherever_they_go() -> None:
    """There is nothing to lose."""
    (run,) = simulate_bandit(BanditScenario((0.7, 0.7, 0.7), Mechanism.PRIO3, days=6, runs=1))
    assert run.regret == run.fixed_regret == 0.0
    assert sum(run.shares) == pytest.approx(1.0)
    assert min(run.shares) >= 0.1 - 1e-3
