"""One-sided bounds spend what they may, whatever the looks; plans that use them find what they promise."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from alcove.platform.stats import AlwaysValidBound, ArgumentError, GuardTests, HarmBound, Look, PlannedBound
from alcove.platform.stats.group_sequential import boundaries
from alcove.platform.stats.one_sided import LEAST_STEP, crossing_probability, spend
from numpy.typing import NDArray

EVEN = tuple(Look(window, 1000.0 * window) for window in range(1, 5))
UNEVEN = (Look(1, 5_000.0), Look(3, 5_600.0), Look(4, 9_000.0))
POOLED = tuple(Look(window, 40_000.0 + 10_000.0 * window) for window in range(1, 5))


def paths(rng: np.random.Generator, looks: tuple[Look, ...], runs: int) -> NDArray[np.float64]:
    """Scores of Brownian motions at the looks, [runs, looks]."""
    reports = np.array([look.reports for look in looks])
    steps = np.diff(reports, prepend=0.0)
    moved = np.cumsum(rng.normal(size=(runs, len(steps))) * np.sqrt(steps), axis=1)
    scores: NDArray[np.float64] = moved / np.sqrt(reports)
    return scores


def test_one_look_is_the_fixed_test_and_two_sided_boundaries_are_nearly_those_of_half_the_error() -> None:
    """A horizon of one window; at four, the other side's stops matter to one part in a thousand."""
    assert PlannedBound(0.05, (Look(1, 77.0),), 1).critical_value() == pytest.approx(1.6448536)
    two_sided = boundaries((0.25, 0.5, 0.75, 1.0), 0.1)
    assert PlannedBound(0.05, EVEN, 4).critical_values() == pytest.approx(two_sided, rel=1e-3)
    assert spend(1.0, 0.05) == pytest.approx(0.05)
    assert spend(7.0, 0.05) == pytest.approx(0.05)


@pytest.mark.parametrize("looks", [EVEN, UNEVEN, POOLED])
def test_looks_spend_what_they_may(looks: tuple[Look, ...]) -> None:
    """Simulated paths cross first as often as each look may spend: even, late, and after earlier stages."""
    rng, runs = np.random.default_rng(20_271_201), 200_000
    crossed = paths(rng, looks, runs) >= PlannedBound(0.05, looks, 4).critical_values()
    by_now = np.logical_or.accumulate(crossed, axis=1).mean(axis=0)
    for look, part in zip(looks, by_now, strict=True):
        promised = spend(look.windows / 4, 0.05)
        assert part == pytest.approx(promised, abs=4.0 * math.sqrt(promised / runs) + 1e-6)


def test_a_bound_of_earlier_looks_is_not_changed_by_later_ones() -> None:
    """What a look said stays what it was."""
    values = PlannedBound(0.05, UNEVEN, 4).critical_values()
    for count in range(1, len(UNEVEN) + 1):
        alone = PlannedBound(0.05, UNEVEN[:count], 4).critical_value()
        assert alone == pytest.approx(values[count - 1], abs=1e-6)


def test_a_window_without_new_reports_is_a_look_like_any_other() -> None:
    """Devices whose budget is spent: the information hardly moves, and the last look spends the rest."""
    looks = (*EVEN[:3], Look(4, 3_000.0))
    bound = PlannedBound(0.05, looks, 4)
    assert bound.information[-1] / bound.information[-2] == pytest.approx(1.0 + LEAST_STEP)
    rng = np.random.default_rng(20_271_202)
    scores = paths(rng, looks[:3], 100_000)
    crossed = np.hstack([scores, scores[:, -1:]]) >= bound.critical_values()
    assert 0.03 < crossed.any(axis=1).mean() <= 0.052


def test_expected_scores_are_found_as_often_as_planned() -> None:
    """Simulated drifts of both kinds of bounds; four looks cost little more than one, at will much more."""
    rng = np.random.default_rng(20_271_203)
    planned, at_will = PlannedBound.plan(0.05, 4), AlwaysValidBound(0.05, 4_000.0, 4_000)
    for wanted, bounds in (
        (planned.critical_score(0.8), planned.critical_values()),
        (
            at_will.critical_score(0.8, looks=4),
            tuple(AlwaysValidBound(0.05, look.reports, 4_000).critical_value() for look in EVEN),
        ),
    ):
        scores = paths(rng, EVEN, 100_000) + wanted * np.sqrt(np.arange(1, 5) / 4.0)
        found = (scores >= bounds).any(axis=1).mean()
        assert found == pytest.approx(0.8, abs=0.006)
        assert crossing_probability(wanted, (1.0, 2.0, 3.0, 4.0), bounds) == pytest.approx(0.8, abs=1e-4)
    single = PlannedBound.plan(0.05, 1).critical_score(0.8)
    assert single == pytest.approx(1.6448536 + 0.8416212, abs=1e-4)
    assert 1.0 < (planned.critical_score(0.8) / single) ** 2 < 1.03
    assert at_will.critical_score(0.8, looks=4) > 1.15 * single
    assert PlannedBound.plan(0.05, 4, earlier=2.0).critical_score(0.8) < planned.critical_score(0.8) + 0.05


def test_guardrails_share_the_error_of_harm_and_not_that_of_safety() -> None:
    """Each of several is safe at full alpha."""
    tests = GuardTests.at_will(0.05, reports=1000, planned_reports=1000)
    assert tests.share(4).harm.alpha == pytest.approx(0.0125)
    assert tests.share(4).safe == tests.safe
    both = HarmBound(AlwaysValidBound(0.035, 1000, 1000), PlannedBound.plan(0.015, 2))
    assert both.share(4).alpha == pytest.approx(0.0125)


def test_harm_is_called_by_the_nearer_of_two_bounds() -> None:
    """At an early look by the planned one; else by the one that holds at any time; together they have all of alpha."""
    at_will, early = AlwaysValidBound(0.035, 1000, 1000), PlannedBound.plan(0.015, 2)
    both, alone = HarmBound(at_will, early), HarmBound(at_will)
    assert both.alpha == pytest.approx(0.05)
    assert alone.alpha == 0.035
    assert both.is_always_valid
    for part in (1.0, 0.5):
        assert both.critical_value(part=part) == early.critical_value(part=part)
        assert alone.critical_value(part=part) == at_will.critical_value(part=part) > both.critical_value(part=part)
    assert HarmBound(at_will, PlannedBound(0.015, EVEN[:1], 20)).critical_value() == at_will.critical_value()
    assert both.critical_score(0.8) == pytest.approx(both.critical_value() + 0.8416212, abs=1e-4)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: PlannedBound(0.0, EVEN, 4), "alpha"),
        (lambda: PlannedBound(0.5, EVEN, 4), "alpha"),
        (lambda: PlannedBound(0.05, EVEN, 0), "horizon_windows"),
        (lambda: PlannedBound(0.05, (), 4), "looks"),
        (lambda: PlannedBound(0.05, (Look(1, 0.0),), 4), "looks"),
        (lambda: PlannedBound(0.05, (Look(0, 5.0),), 4), "looks"),
        (lambda: PlannedBound(0.05, (Look(2, 5.0), Look(2, 6.0)), 4), "looks"),
        (lambda: PlannedBound(0.05, (Look(2, 5.0), Look(3, 4.0)), 4), "looks"),
        (lambda: PlannedBound.plan(0.05, 4).critical_score(0.4), "power"),
        (lambda: AlwaysValidBound(0.05, 10, 10).critical_score(0.8, looks=0), "looks"),
        (lambda: spend(0.0, 0.05), "fraction"),
        (lambda: spend(0.5, 1.0), "alpha"),
        (lambda: GuardTests.at_will(0.05, reports=1, planned_reports=1).share(0), "guardrails"),
    ],
)
def test_an_argument_out_of_its_bounds_is_named(call: Callable[[], object], name: str) -> None:
    """Typed, with the bound."""
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
