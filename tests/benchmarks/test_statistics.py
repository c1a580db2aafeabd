"""On simulated fleets guardrails and comparisons keep their error rates, and naive tests fail the same check."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from alcove.platform.cli.plans import guardrail_of
from alcove.platform.stats import (
    FixedHorizon,
    GroupSequential,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    Mechanism,
    Stratum,
    evaluate_guardrail,
)
from alcove.platform.stats._shares import share_difference
from alcove.platform.stats.aggregate import Aggregate
from alcove.platform.stats.limits import DEFAULT_PLANNED_REPORTS

from benchmarks.statistics.comparison import CASES, comparison_lines, difference_by, read_peers
from benchmarks.statistics.comparison import SECTION as COMPARISON
from benchmarks.statistics.cuped import gains
from benchmarks.statistics.detection import BASE_RATE, WATCHED, detect
from benchmarks.statistics.fleets import two_cell_sums
from benchmarks.statistics.latency import CONTROL_MS, SLOWER_MS, quantile_question, share_question
from benchmarks.statistics.latency import devices_needed as latency_needs
from benchmarks.statistics.metrics import metric_coverage
from benchmarks.statistics.needs import rollout_needs
from benchmarks.statistics.planned import half_widths, measure_planned, simulate
from benchmarks.statistics.plans import SECTION as PLANS
from benchmarks.statistics.plans import need_lines, plan_lines
from benchmarks.statistics.rates import ANALYSES, COHORTS, DEVIATIONS, calls, coverage, false_calls
from benchmarks.statistics.since import compare_designs, devices_before
from tests.platform.stats.comparing import compare

REFUSED = Guardrail(GuardMetric.REFUSED, 0.0)


def keeps(rates: Sequence[float]) -> bool:
    """The check itself: at most 5 % of the runs."""
    return max(rates) <= 0.05


def check_false_calls(runs: int, cells: Sequence[tuple[float, int]], seed: int) -> None:
    """Assert the promise of every cell, and that each naive reading breaks it."""
    rng = np.random.default_rng(seed)
    for deviation, cohort in cells:
        found = false_calls("", rng, runs=runs, cohorts=(cohort,) * ANALYSES, deviation=deviation)
        assert keeps([found.halts, found.wins]), (deviation, cohort, found)
        assert found.covered >= 0.95, (deviation, cohort, found)
        assert not keeps([found.naive_halts]), (deviation, cohort, found)
        if deviation**2 > 0.02 * cohort:  # where the noise is more than the sampling, to leave it out is fatal
            assert not keeps([found.unknown_noise_halts]), (deviation, cohort, found)


@pytest.mark.thorough
def test_equal_arms_are_rarely_halted_or_won_within_30_analyses_where_a_naive_test_fails() -> None:
    """Each noise and each cohort at 250 runs; all cells at 1,000 runs are the thorough test."""
    check_false_calls(250, [(d, c) for d in DEVIATIONS for c in COHORTS], 20_271_101)


@pytest.mark.thorough
def test_equal_arms_are_rarely_halted_or_won_at_full_length() -> None:
    """1,000 runs of every cell, three seeds."""
    for seed in (20_271_102, 20_271_103, 20_271_104):
        check_false_calls(1_000, [(d, c) for d in DEVIATIONS for c in COHORTS], seed)


def test_simulated_calls_are_those_of_the_guardrail_itself() -> None:
    """Arrays and single aggregates, exact and noised, agree on every analysis of some runs, harmful ones among them."""
    rng = np.random.default_rng(20_271_105)
    for deviation in (0.0, 7.5):
        analyses = two_cell_sums(rng, runs=12, cohorts=(700,) * 6, rates=(0.06, 0.02), deviation=deviation)
        called = calls(analyses)
        for run, analysis in np.ndindex(*called.shape):
            events_t, base_t, events_c, base_c = analyses.sums[run, analysis]
            counts = np.array([[[events_c], [base_c - events_c]], [[events_t], [base_t - events_t]]])
            aggregate = Aggregate(counts, np.eye(4) * analyses.noise[analysis, 0, 0], analyses.reports[analysis])
            tests = GuardTests.at_will(0.05, reports=aggregate.reports, planned_reports=DEFAULT_PLANNED_REPORTS)
            verdict = evaluate_guardrail([Stratum(aggregate)], REFUSED, control=0, treatment=1, tests=tests)
            assert (verdict.kind is GuardKind.HARMFUL) is bool(called[run, analysis])
        assert called.any()
        assert not called.all()


@pytest.mark.thorough
def test_intervals_cover_as_often_as_stated() -> None:
    """95 +- 1.4 % of 4,000 runs for shares, and of 1,000 for other metrics within what 1,000 runs can tell."""
    rng = np.random.default_rng(20_271_107)
    for deviation in DEVIATIONS:
        for cohort in COHORTS:
            covered = coverage(rng, runs=4_000, cohort=cohort, windows=ANALYSES, deviation=deviation)
            assert covered is not None
            assert 0.936 <= covered <= 0.964, (deviation, cohort)
    for mechanism in Mechanism:
        for name, part in metric_coverage(rng, mechanism, Fraction(2), runs=400).items():
            assert 0.925 <= part <= 0.975, (mechanism, name)


def test_harm_on_two_per_cent_more_devices_is_halted_within_two_periods() -> None:
    """At the noise of two aggregators and epsilon 1, in at least 95 % of runs; an equal version is let be."""
    rng = np.random.default_rng(20_271_108)
    watched = list(WATCHED)
    found = detect(rng, Mechanism.PRIO3, Fraction(1), watched=watched[-1], runs=400)
    assert found.by_period[-1] >= 0.95
    assert found.harmless <= 0.05
    assert BASE_RATE == 0.01
    weak = detect(rng, Mechanism.RANDOMIZED_RESPONSE, Fraction(1), watched=watched[0], runs=100)
    assert weak.by_period[-1] < 0.5
    assert (found.cells, weak.cells) == (20, 4)


def test_interim_analyses_keep_their_promise_and_find_the_planned_effect_where_repeated_tests_fail() -> None:
    """Even and uneven analyses of private reports; at will costs power at the same reports."""
    rng = np.random.default_rng(20_271_108)
    for cohorts in ((5_000,) * 5, (9_000, 1_000, 5_000, 8_000, 2_000)):
        found = measure_planned("", rng, runs=10_000, cohorts=cohorts, epsilon=Fraction(2))
        assert found.wins == pytest.approx(0.05, abs=0.01)
        assert found.at_will <= 0.02
        assert found.fixed > 0.1
        assert found.power == pytest.approx(0.8, abs=0.02)
        assert found.power_at_will < 0.6
        assert 0.7 < found.used < 0.9
        assert found.half_width < 2.1 < found.half_width_at_will


def test_simulated_interim_analyses_are_the_comparisons_own() -> None:
    """Exact counts with a clear effect: both call a winner at the same analyses of the same runs."""
    rng = np.random.default_rng(20_271_109)
    cohorts = (800, 400, 1_200, 600)
    sums = simulate(rng, runs=25, cohorts=cohorts, effect=0.06, epsilon=None)
    shares, (bounds, _) = share_difference(sums), half_widths(cohorts)
    called = np.abs(shares.value / shares.standard_error) >= bounds
    reports = tuple(int(total) for total in np.cumsum(cohorts))
    differ = 0
    for run, analysis in np.ndindex(*called.shape):
        events_t, base_t, events_c, base_c = sums.sums[run, analysis]
        counts = np.array([[[base_c - events_c], [events_c]], [[base_t - events_t], [events_t]]])
        decision = compare(
            Aggregate(counts, np.zeros((4, 4)), reports[analysis]), bin_values_ms=(1.0,), minimum_cohort=0,
            planned_reports=reports[-1], test=GroupSequential(reports[: analysis + 1], reports[-1]),
        ).decision  # fmt: skip
        differ += (decision.winner is not None) is not bool(called[run, analysis])
    assert called.any()
    assert not called.all()
    assert differ <= 1  # where a score lies on the boundary: the two imagine one more report a little differently


@pytest.mark.thorough
def test_fleets_get_the_errors_that_cuped_was_forecast() -> None:
    """It pays where the table says, by what it says; small fleets aside, whose own errors are rough."""
    found = [one for one in gains(np.random.default_rng(20_271_110), runs=2) if one.devices >= 100_000]
    assert all(one.simulated == pytest.approx(one.forecast, rel=0.05) for one in found)
    assert {one.mechanism for one in found if one.forecast > 1.0} == {Mechanism.RANDOMIZED_RESPONSE}


def test_plans_of_the_page_are_those_of_the_power_model() -> None:
    """The page holds what the command writes today: nobody typed a number of devices."""
    page = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    assert PLANS.replace_in(page, "\n".join([*plan_lines(), *need_lines()])) == page


def test_the_latency_table_names_guardrails_that_can_be_written_and_needs_that_fall_with_less_noise() -> None:
    """A share needs fewer devices than a quantile in ms, and sums of two aggregators fewer than randomized answers."""
    share, quantile = share_question(0.01), quantile_question(5.0)
    assert guardrail_of(share.name.strip("`")).edge_ms == CONTROL_MS
    assert guardrail_of(quantile.name.strip("`")).margin == 5.0
    found = {
        (question.name, mechanism): latency_needs(
            question, GuardKind.HARMFUL, SLOWER_MS, mechanism, epsilon, runs=10, seed=1
        )
        or 0
        for question in (share, quantile)
        for mechanism, epsilon in ((Mechanism.PRIO3, Fraction(1)), (Mechanism.RANDOMIZED_RESPONSE, Fraction(2)))
    }
    for mechanism in (Mechanism.PRIO3, Mechanism.RANDOMIZED_RESPONSE):
        assert 0 < 2 * found[share.name, mechanism] < found[quantile.name, mechanism]
    for question in (share, quantile):
        assert 0 < 2 * found[question.name, Mechanism.PRIO3] < found[question.name, Mechanism.RANDOMIZED_RESPONSE]


def test_the_comparison_with_other_packages_is_what_the_command_writes_today() -> None:
    """From what the others said, as it was kept; and their intervals of the same quantity are ours."""
    page = (Path(__file__).parents[2] / "docs" / "comparison-statistics.md").read_text(encoding="utf-8")
    peers = read_peers()
    assert COMPARISON.replace_in(page, "\n".join(comparison_lines(peers))) == page
    for place, case in enumerate(CASES):
        pair, p, _ = difference_by(case, FixedHorizon(1))
        assert pair.interval is not None
        for name in ("statsmodels", "confidence", "once"):
            said = peers[name][place]
            width = said["high"] - said["low"]
            assert pair.interval == pytest.approx((said["low"], said["high"]), abs=0.015 * width)
            assert p == pytest.approx(said["p"], rel=0.25)  # the least: rare events, arms of unlike size


def test_needs_are_found_as_often_as_promised_and_near_their_floor() -> None:
    """The first stage of a rollout by randomized response: 1,000 runs; a floor is one, and within twice it."""
    rows = rollout_needs(1_000, np.random.default_rng(20_271_130))
    for row in rows:
        assert row.found >= row.promise - 0.06, row
        assert row.floor < row.devices < 1.6 * row.floor, row
    by_response = [row for row in rows if row.way.startswith("randomized response, ε = 2")]
    assert [round(row.devices / 1e5) for row in by_response] == [34, 66]


@pytest.mark.thorough
def test_needs_of_the_first_design_are_those_that_its_documents_print() -> None:
    """Four and thirty-two cells, one report: the table of plans of that commit; today's needs are the planner's."""
    found = [
        devices_before(Fraction(epsilon), outcomes=2, bins=bins, reports=1) for epsilon in (2, 1) for bins in (1, 8)
    ]
    assert found == [91_127, 1_682_352, 475_914, 19_146_830]
    bare, *_, last = compare_designs()
    assert (bare.cells_before, bare.cells_now, last.cells_before, last.cells_now) == (4, 4, 64, 52)
    assert last.now < last.before / 4
    assert all(row.once < row.before for row in (bare, last))
