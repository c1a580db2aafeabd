"""Plans of a team's own metrics find what they promise, and agree with those of shares where a metric is one."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import (
    AlwaysValid,
    ArgumentError,
    BinMetric,
    Mechanism,
    Metric,
    PowerModel,
    Primary,
    PrimaryKind,
    Rules,
    aggregate_from_randomized_response,
    bin_model,
    decide,
    estimate,
    share_model,
)
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.guardrail_power import GuardrailModel, HarmTest, SafeTest
from alcove.registry.policy.layout import HistogramLayout

from benchmarks.statistics import own

TWO, RESPONSE = Fraction(2), Mechanism.RANDOMIZED_RESPONSE
DONE = BinMetric("done", (0.0, 1.0), is_more_better=True)
FAILED = BinMetric("failed", (0.0, 1.0))


@pytest.mark.thorough
@pytest.mark.parametrize("plan", own.EXPERIMENTS, ids=lambda plan: f"{plan.metric.name}, {plan.effect:g}")
def test_plans_of_own_metrics_find_their_effects_as_often_as_they_promise(plan: own.ExperimentPlan) -> None:
    """At will, several windows, interim analyses, three and uneven arms: 80 % within three points in 4,000 runs."""
    wins, others = own.find_wins(plan, np.random.default_rng(20_271_201), runs=4_000)
    assert abs(wins - own.POWER) <= 0.03
    assert others <= 0.002


@pytest.mark.thorough
@pytest.mark.parametrize("find", [own.find_safe, own.find_harm])
@pytest.mark.parametrize("plan", own.ROLLOUTS, ids=lambda plan: plan.metric.name)
def test_plans_of_own_guardrails_find_safety_and_harm_as_often_as_they_promise(
    plan: own.RolloutPlan, find: Callable[..., float]
) -> None:
    """One to four windows, 4,000 stages each: 80 % within three points, both ways."""
    assert abs(find(plan, np.random.default_rng(20_271_202), runs=4_000) - own.POWER) <= 0.03


def test_the_simulation_calls_what_the_decision_calls() -> None:
    """Thirty experiments of three arms at the brink: the same winner in each."""
    plan = own.ExperimentPlan(own.EDITS, (0.575, 0.2375, 0.1875), 0.1, shares=(0.5, 0.25, 0.25))
    devices = plan.model().devices_needed(plan.effect) or 0
    layout = HistogramLayout.of_groups(3, [[1]], latency_bins=3)
    base = bin_model(plan.metric, plan.parts)
    cells = [share * base.shift(shift).probabilities for share, shift in zip(plan.shares, (0, -0.1, 0), strict=True)]
    other = 1.0 / (8.0 + np.exp(2.0))
    answers = other + (np.exp(2.0) - 1.0) * other * np.concatenate(cells)
    winners = set()
    for counts in np.random.default_rng(20_271_204).multinomial(devices, answers / answers.sum(), size=30).tolist():
        aggregate = aggregate_from_randomized_response(counts, layout, epsilon=TWO)
        primary = Primary(PrimaryKind.METRIC, own=plan.metric)
        estimates = estimate(aggregate, Metric(plan.metric.bin_values, primary=primary, success_outcome=None))
        test = AlwaysValid(devices)
        found = decide(estimates, test, Rules(minimum_cohort=0, expected_shares=plan.shares)).decision.winner
        assert own.winner_of(aggregate, plan.metric, 1, test.critical_value(reports=devices, alpha=0.05)) == found
        winners.add(found)
    assert winners == {1, None}


def test_a_metric_of_two_bins_is_planned_as_the_share_that_it_is() -> None:
    """Devices for an effect, powers of harm and safety: the same numbers, in both directions."""
    share = PowerModel(share_model(0.3), (0.5, 0.5), RESPONSE, TWO)
    metric = PowerModel(bin_model(DONE, (0.7, 0.3)), (0.5, 0.5), RESPONSE, TWO)
    assert metric.devices_needed(0.02) == share.devices_needed(0.02)
    assert metric.detectable(10_000) == pytest.approx(share.detectable(10_000))
    reports = ReportModel(RESPONSE, TWO)
    alike = GuardrailModel(share_model(0.1).at_cells(HistogramLayout.of_groups(2, [[0], [1]])), 0.01, reports)
    less = GuardrailModel(bin_model(FAILED, (0.9, 0.1), as_harm=True), 0.01, reports)
    more = GuardrailModel(bin_model(DONE, (0.1, 0.9), as_harm=True), 0.01, reports)
    safe, harm = SafeTest.each_window(0.05, 4), HarmTest(0.05, 4)
    for model in (less, more):
        assert model.safe_power(400_000, 4, safe) == pytest.approx(alike.safe_power(400_000, 4, safe))
        assert model.harm_power(0.03, 300_000, 4, harm) == pytest.approx(alike.harm_power(0.03, 300_000, 4, harm))
        assert model.detectable(300_000, 4, harm, power=0.95) == pytest.approx(
            alike.detectable(300_000, 4, harm, power=0.95)
        )


def test_a_better_arm_has_the_mean_that_was_asked_for_and_the_same_part_without_a_result() -> None:
    """Up, down, and as far as the bins reach; a spread that no effect changes is refused nowhere and moves nowhere."""
    kept = BinMetric("kept", (0.0, 0.25, 0.75), needs_record=True)
    model = bin_model(kept, (0.4, 0.3, 0.3))
    assert model.rate == pytest.approx(0.5)
    for effect in (0.1, -0.2):
        moved = model.shift(effect)
        assert moved.rate == pytest.approx(0.5 + effect)
        assert moved.probabilities[0] == 0.4
        assert moved.probabilities.sum() == pytest.approx(1.0)
    assert model.shift(3.0).rate == pytest.approx(0.75)
    assert model.range == (0.25, 0.75)
    with pytest.raises(ArgumentError, match="parts"):
        bin_model(kept, (0.5, 0.5))
