"""Boundaries of interim analyses match the published ones, and keep their error rate and power in simulation."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from alcove.platform.stats import Aggregate, ArgumentError, GroupSequential, Mechanism, PowerModel, share_model
from alcove.platform.stats.confidence_sequence import critical_value
from alcove.platform.stats.group_sequential import P_HIGHEST, P_LOWEST, boundaries, drift, repeated_p, spend_error
from alcove.platform.stats.primary import Primary, PrimaryKind
from numpy.typing import NDArray

from tests.platform.stats.comparing import compare

if TYPE_CHECKING:
    from tests.platform.stats.conftest import Fleet

Z_TWO_SIDED = 1.959963984540054
PUBLISHED = {
    2: (2.9626, 1.9686),
    3: (3.7103, 2.5114, 1.9930),
    4: (4.3326, 2.9631, 2.3590, 2.0141),
    5: (4.8769, 3.3569, 2.6803, 2.2898, 2.0310),
}
"""Two-sided alpha 0.05, equal analyses, O'Brien-Fleming type spending: those of Lan and DeMets' program."""


def evenly(analyses: int) -> tuple[float, ...]:
    """Information at equally spaced analyses."""
    return tuple((analysis + 1) / analyses for analysis in range(analyses))


def paths(rng: np.random.Generator, information: tuple[float, ...], runs: int) -> NDArray[np.float64]:
    """Scores of Brownian motions at the analyses, [runs, analyses]."""
    steps = np.diff((0.0, *information))
    return np.cumsum(rng.normal(size=(runs, len(steps))) * np.sqrt(steps), axis=1) / np.sqrt(information)


def test_boundaries_are_the_published_ones() -> None:
    """Two to five equal analyses; one analysis is the fixed test."""
    for analyses, printed in PUBLISHED.items():
        assert boundaries(evenly(analyses), 0.05) == pytest.approx(printed, abs=2e-4)
    assert boundaries((1.0,), 0.05) == pytest.approx((Z_TWO_SIDED,))


@pytest.mark.parametrize(
    "information",
    [(0.13, 0.5, 0.55, 1.1), (0.3, 0.3011, 0.98, 1.0), (0.02, 0.6), (1.4,), tuple((k + 1) / 20 for k in range(20))],
)
def test_analyses_at_uneven_times_spend_what_they_may(information: tuple[float, ...]) -> None:
    """Simulated motions cross for the first time as often as each analysis may spend; beyond the horizon too."""
    rng = np.random.default_rng(20_270_401)
    runs, alpha = 200_000, 0.1
    crossed = np.abs(paths(rng, information, runs)) >= boundaries(information, alpha)
    by_now = np.logical_or.accumulate(crossed, axis=1).mean(axis=0)
    for reached, part in zip(information, by_now, strict=True):
        promised = spend_error(reached, alpha)
        assert part == pytest.approx(promised, abs=4.0 * math.sqrt(promised / runs) + 1e-6)


def test_information_that_comes_sooner_than_reports_makes_false_calls_rarer() -> None:
    """Devices that say the same in each window: most of what they say is known at the first analysis."""
    rng = np.random.default_rng(20_270_405)
    bounds = boundaries(evenly(5), 0.05)
    rates = [
        (np.abs(paths(rng, tuple(part**power for part in evenly(5)), 100_000)) >= bounds).any(axis=1).mean()
        for power in (1.0, 0.5, 0.1)
    ]
    assert 0.052 > rates[0] > rates[1] > rates[2]


def test_an_analysis_too_early_to_call_anything_leaves_its_part_to_the_next() -> None:
    """At a hundredth of the information the boundary is infinite, and the later ones are as without it."""
    early, *later = boundaries((0.01, 0.5, 1.0), 0.05)
    assert math.isinf(early)
    assert later == pytest.approx(boundaries((0.5, 1.0), 0.05), abs=1e-4)


def test_p_values_invert_the_boundaries() -> None:
    """The alpha whose boundary is the score; more surprising scores have smaller ones, to the ends given."""
    for information in (evenly(5), (0.2, 0.31), (0.4, 1.3)):
        for alpha in (1e-6, 0.001, 0.05, 0.15):
            score = boundaries(information, alpha)[-1]
            if math.isinf(score):  # so early that nothing is that surprising
                assert repeated_p(score, information) > alpha
                continue
            assert repeated_p(-score, information) == pytest.approx(alpha, rel=3e-4)
            assert repeated_p(score, information) >= alpha * (1.0 - 1e-6)
        found = [repeated_p(score, information) for score in (0.0, 1.0, 2.0, 3.0, 5.0, 50.0)]
        assert all(low >= high for low, high in pairwise(found))
        assert found[0] == 1.0
        assert P_LOWEST <= found[-1] < 1e-4  # nothing smaller can be called at an early analysis
        assert not any(P_HIGHEST < p < 1.0 for p in found)


def test_the_planned_drift_is_called_as_often_as_planned() -> None:
    """Simulated with its own sign; a few analyses cost little more than one, and much less than any number of them."""
    rng = np.random.default_rng(20_270_402)
    assert drift(1, alpha=0.05, power=0.8) == pytest.approx(Z_TWO_SIDED + 0.8416212, abs=1e-4)
    for analyses, power in ((2, 0.9), (5, 0.8), (20, 0.8)):
        wanted = drift(analyses, alpha=0.05, power=power)
        scores = paths(rng, evenly(analyses), 100_000) + wanted * np.sqrt(evenly(analyses))
        called = (scores >= boundaries(evenly(analyses), 0.05)).any(axis=1).mean()
        assert called == pytest.approx(power, abs=0.006)
    price = (drift(5, alpha=0.05, power=0.8) / drift(1, alpha=0.05, power=0.8)) ** 2
    at_will = (critical_value(reports=1, alpha=0.05, planned_reports=1) + 0.8416212) ** 2
    assert 1.0 < price < 1.03
    assert at_will > 1.5 * drift(5, alpha=0.05, power=0.8) ** 2


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: boundaries((), 0.05), "information"),
        (lambda: boundaries((0.5, 0.5), 0.05), "information"),
        (lambda: boundaries((0.5, 0.4), 0.05), "information"),
        (lambda: boundaries((0.0, 0.4), 0.05), "information"),
        (lambda: boundaries((math.nan,), 0.05), "information"),
        (lambda: boundaries((math.inf,), 0.05), "information"),
        (lambda: boundaries((0.5,), 0.0), "alpha"),
        (lambda: boundaries((0.5,), 1.0), "alpha"),
        (lambda: spend_error(0.0, 0.05), "fraction"),
        (lambda: repeated_p(math.nan, (0.5,)), "score"),
        (lambda: drift(0, alpha=0.05, power=0.8), "analyses"),
        (lambda: drift(2, alpha=0.05, power=0.4), "power"),
        (lambda: GroupSequential((), 100), "information"),
        (lambda: GroupSequential((10,), 0), "horizon"),
        (lambda: GroupSequential((10, 10), 100), "information"),
    ],
)
def test_an_argument_out_of_its_bounds_is_named(call: Callable[[], object], name: str) -> None:
    """Typed, with the bound."""
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name


def test_a_comparison_at_an_analysis_reaches_as_far_as_the_analysis_says(
    exact: Callable[[NDArray[np.int64]], Aggregate],
) -> None:
    """Intervals of the pairs are the analysis's, those of the arms stay; another number of reports is refused."""
    counts = exact(np.array([[[300], [700]], [[270], [730]]]))
    analysis = GroupSequential((600, 2000), 4000)
    planned = compare(counts, bin_values_ms=(1.0,), test=analysis, planned_reports=4000)
    at_will = compare(counts, bin_values_ms=(1.0,), planned_reports=4000)
    (pair,), (wide,) = planned.pairs, at_will.pairs
    assert (pair.value, planned.arms, planned.sample_ratio) == (wide.value, at_will.arms, at_will.sample_ratio)
    assert pair.interval is not None
    assert pair.standard_error is not None
    half_width = (pair.interval.high - pair.interval.low) / 2.0
    assert half_width == pytest.approx(boundaries((0.15, 0.5), 0.05)[-1] * pair.standard_error, rel=0.005)
    with pytest.raises(ArgumentError, match="reports"):
        compare(counts, bin_values_ms=(1.0,), test=GroupSequential((600, 2001), 4000))
    halves = exact(np.full((2, 2, 2), 100))
    quantile = Primary(PrimaryKind.LATENCY_QUANTILE, 0.5)
    with pytest.raises(ArgumentError, match="standard error"):
        compare(halves, bin_values_ms=(1, 2), edges_ms=(1.5,), primary=quantile, test=GroupSequential((800,), 800))


def win_rates(fleet: "Fleet", runs: int, readers: dict[str, Callable[[Aggregate], Aggregate]]) -> dict[str, float]:
    """Return how often any of five interim analyses names a winner, and how often a fixed test at each of them does."""
    rng = np.random.default_rng(20_270_403)
    cohorts = (900, 300, 1500, 700, 1600)
    horizon = 5_000
    won = dict.fromkeys([*readers, "fixed test at each analysis"], 0)
    for _ in range(runs):
        randomized = np.cumsum([fleet.randomize(rng, cohort, 1)[0] for cohort in cohorts], axis=0)
        reports = tuple(int(counts.sum()) for counts in randomized)
        aggregates = [fleet.aggregate(counts) for counts in randomized]
        fixed = False
        for name, reader in readers.items():
            found = [
                compare(
                    reader(aggregate),
                    bin_values_ms=fleet.bin_values_ms,
                    minimum_cohort=0,
                    planned_reports=horizon,
                    test=GroupSequential(reports[: place + 1], horizon),
                )
                for place, aggregate in enumerate(aggregates)
            ]
            won[name] += any(each.decision.winner is not None for each in found)
            fixed = fixed or (name == "true" and any(_score(each.pairs[0]) > Z_TWO_SIDED for each in found))
        won["fixed test at each analysis"] += fixed
    return {name: count / runs for name, count in won.items()}


def _score(pair: object) -> float:
    value, error = getattr(pair, "value", None), getattr(pair, "standard_error", None)
    return 0.0 if value is None or error is None else abs(value) / error


@pytest.mark.thorough
def test_equal_arms_rarely_win_at_interim_analyses(
    fleet: "type[Fleet]", without_noise: Callable[[Aggregate], Aggregate]
) -> None:
    """Uneven analyses of randomized answers: 5 %, as promised; a fixed test, or without the noise, is caught."""
    runs = 150
    equal = fleet((0.7, 0.7), latencies=(1.0,))
    rates = win_rates(equal, runs, {"true": lambda aggregate: aggregate, "noise ignored": without_noise})
    highest = 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / runs)
    assert rates["true"] <= highest
    assert rates["fixed test at each analysis"] > highest
    assert rates["noise ignored"] > highest


@pytest.mark.thorough
def test_equal_arms_rarely_win_at_interim_analyses_in_a_thousand_runs(fleet: "type[Fleet]") -> None:
    """The same, with less chance in it."""
    rates = win_rates(fleet((0.7, 0.7), latencies=(1.0,)), 1000, {"true": lambda aggregate: aggregate})
    assert 0.03 <= rates["true"] <= 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / 1000)
    assert rates["fixed test at each analysis"] > 0.1


@pytest.mark.thorough
def test_interim_analyses_need_fewer_devices_and_find_the_effect_as_often_as_planned(fleet: "type[Fleet]") -> None:
    """About 80 % of simulated experiments with the planned effect are won by the better arm by the fifth analysis."""
    epsilon, analyses = Fraction(2), 5
    rate = share_model(0.7)
    model = PowerModel(rate, (0.5, 0.5), Mechanism.RANDOMIZED_RESPONSE, epsilon, analyses=analyses)
    at_will = PowerModel(rate, (0.5, 0.5), Mechanism.RANDOMIZED_RESPONSE, epsilon)
    needed, more = model.devices_needed(0.1), at_will.devices_needed(0.1)
    assert needed is not None
    assert more is not None
    assert more > 1.5 * needed
    world = fleet((0.65, 0.75), latencies=(1.0,), epsilon=epsilon)
    rng = np.random.default_rng(20_270_404)
    won, runs = 0, 200
    reports = tuple(needed * (analysis + 1) // analyses for analysis in range(analyses))
    for _ in range(runs):
        randomized = np.cumsum([world.randomize(rng, size, 1)[0] for size in np.diff((0, *reports)).tolist()], axis=0)
        won += any(
            compare(
                world.aggregate(counts), bin_values_ms=(1.0,), minimum_cohort=0, planned_reports=needed,
                test=GroupSequential(reports[: place + 1], needed),
            ).decision.winner == 1
            for place, counts in enumerate(randomized)
        )  # fmt: skip
    assert 0.72 < won / runs < 0.88
