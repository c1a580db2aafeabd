"""Equal arms rarely win within 30 analyses, and an effect that was planned for is found as often as planned.

Analyses are cumulative and the decision is taken at each: a run counts as won when any analysis names a winner.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    DecisionKind,
    Mechanism,
    PowerModel,
    ReasonCode,
    pool,
    share_model,
)

from tests.platform.stats.comparing import compare

if TYPE_CHECKING:
    from tests.platform.stats.conftest import Fleet

ANALYSES = 30


def same(aggregate: Aggregate) -> Aggregate:
    """Read an aggregate as it is."""
    return aggregate


def win_rate(fleet: "Fleet", reader: Callable[[Aggregate], Aggregate], *, runs: int, per_analysis: int) -> float:
    """Return the part of runs in which any analysis names a winner; no cohort is asked for, to make it hard."""
    rng = np.random.default_rng(20_260_104)
    won = 0
    for _ in range(runs):
        for counts in np.cumsum(fleet.randomize(rng, per_analysis, ANALYSES), axis=0):
            result = compare(reader(fleet.aggregate(counts)), bin_values_ms=fleet.bin_values_ms, minimum_cohort=0)
            if result.decision.kind is DecisionKind.WINNER:
                won += 1
                break
    return won / runs


@pytest.mark.thorough
def test_equal_arms_rarely_win_within_30_analyses_at_randomized_answers(
    fleet: "type[Fleet]", without_noise: Callable[[Aggregate], Aggregate]
) -> None:
    """At most alpha = 5 % of A/A runs name a winner; a reading that ignores the noise names one nearly always."""
    equal = fleet((0.9, 0.9))
    assert win_rate(equal, same, runs=120, per_analysis=500) <= 0.05
    assert win_rate(equal, without_noise, runs=40, per_analysis=500) > 0.5


@pytest.mark.thorough
def test_equal_arms_rarely_win_within_30_analyses_at_exact_counts(fleet: "type[Fleet]") -> None:
    """Without noise the promise is the same, with rare failures and from small analyses on."""
    assert win_rate(fleet((0.95, 0.95), latencies=(1.0,), epsilon=None), same, runs=150, per_analysis=100) <= 0.05


@pytest.mark.thorough
def test_equal_arms_rarely_win_when_windows_are_noised_by_aggregators(
    fleet: "type[Fleet]", without_noise: Callable[[Aggregate], Aggregate]
) -> None:
    """Each window of 400 devices gets its own noise of deviation 15 per cell; pooled, it is 15 sqrt(windows)."""
    equal = fleet((0.98, 0.98), latencies=(1.0,), epsilon=None)
    rng = np.random.default_rng(20_260_105)
    noise = np.eye(4) * 15.0**2
    runs, won = 100, {"true": 0, "naive": 0}
    for _ in range(runs):
        windows = [
            Aggregate(counts.reshape(2, 2, 1) + rng.normal(0, 15.0, (2, 2, 1)), noise, 400)
            for counts in equal.randomize(rng, 400, ANALYSES)
        ]
        analyses = [pool(windows[: last + 1]) for last in range(ANALYSES)]
        for name, reader in (("true", same), ("naive", without_noise)):
            decisions = (
                compare(reader(analysis), bin_values_ms=(1.0,), minimum_cohort=0).decision for analysis in analyses
            )
            won[name] += any(decision.code is ReasonCode.BETTER for decision in decisions)
    assert won["true"] <= 0.05 * runs
    assert won["naive"] > 0.3 * runs


@pytest.mark.thorough
def test_equal_arms_rarely_win_when_the_same_devices_answer_the_same_in_every_window(fleet: "type[Fleet]") -> None:
    """Persistent devices are the worst case of `reports_per_device`; leaving it at 1 is caught."""
    equal = fleet((0.7, 0.7), latencies=(1.0,), epsilon=Fraction(6))
    assert equal.mechanism is not None
    keep, other = float(equal.mechanism.keep_probability), float(equal.mechanism.other_probability)
    rng = np.random.default_rng(20_260_106)
    runs, windows = 150, 10
    won = {"stated": 0, "unstated": 0}
    for _ in range(runs):
        cells = rng.multinomial(3_000, equal.cell_probabilities())
        randomized = np.zeros((windows, 4), dtype=np.int64)
        for cell, devices in enumerate(cells):
            answers = np.full(4, other)
            answers[cell] = keep
            randomized += rng.multinomial(devices, answers / answers.sum(), size=windows)
        analyses = [equal.aggregate(counts) for counts in np.cumsum(randomized, axis=0)]
        for name, is_stated in (("stated", True), ("unstated", False)):
            decisions = (
                compare(analysis, bin_values_ms=(1.0,), reports_per_device=window if is_stated else 1).decision
                for window, analysis in enumerate(analyses, start=1)
            )
            won[name] += any(decision.kind is DecisionKind.WINNER for decision in decisions)
    assert won["stated"] <= 0.05 * runs
    assert won["unstated"] > 0.15 * runs


@pytest.mark.thorough
def test_sound_shares_are_rarely_called_mismatched_within_30_analyses(
    fleet: "type[Fleet]", without_noise: Callable[[Aggregate], Aggregate]
) -> None:
    """The sample-ratio check is always valid and knows the noise; a naive reading cries wolf."""
    uneven = fleet((0.8, 0.8), latencies=(0.6, 0.4), shares=(0.3, 0.7))
    rng = np.random.default_rng(20_260_107)
    alarms = {"true": 0, "naive": 0}
    runs = 60
    for _ in range(runs):
        analyses = [uneven.aggregate(counts) for counts in np.cumsum(uneven.randomize(rng, 500, ANALYSES), axis=0)]
        for name, reader in (("true", same), ("naive", without_noise)):
            alarms[name] += any(
                compare(reader(analysis), bin_values_ms=(1.0, 2.0), expected_shares=(0.3, 0.7)).sample_ratio.mismatched
                for analysis in analyses
            )
    assert alarms["true"] <= 0.02 * runs
    assert alarms["naive"] > 0.1 * runs


def test_planned_effect_is_found_as_often_as_planned(fleet: "type[Fleet]") -> None:
    """At the detectable difference of the plan, one analysis finds the better arm in about 80 % of runs."""
    rng = np.random.default_rng(20_260_108)
    for epsilon, bins, devices in ((Fraction(2), 4, 20_000), (Fraction(4), 2, 5_000)):
        effect = 0.0
        for _ in range(3):  # a model has one rate for both arms: that halfway between them
            model = share_model(0.8 + effect / 2, bins=bins)
            effect = PowerModel(model, (0.5, 0.5), Mechanism.RANDOMIZED_RESPONSE, epsilon).detectable(devices) or 1.0
        world = fleet((0.8, 0.8 + effect), latencies=(1.0 / bins,) * bins, epsilon=epsilon)
        winners = [
            compare(world.aggregate(counts), bin_values_ms=world.bin_values_ms, planned_reports=devices).decision.winner
            for counts in world.randomize(rng, devices, 400)
        ]
        assert set(winners) == {1, None}
        assert 0.74 < np.mean([winner == 1 for winner in winners]) < 0.86
