"""Error rates at the boundary of each null stay at most nominal; no test needs much more than the best valid one."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.domain.rollouts.analysis import ALPHA as SERVER_ALPHA
from alcove.platform.stats import (
    Aggregate,
    AlwaysValidBound,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    HarmBound,
    Look,
    PlannedBound,
    Stratum,
    evaluate_guardrail,
)

from benchmarks.statistics.boundaries import (
    ALPHA,
    EXACT,
    MARGIN,
    PRIO3,
    RR2,
    Fleet,
    Reading,
    Row,
    Source,
    all_rows,
    failures,
    harm_calls,
    is_harmful,
    is_safe,
    pooled_rate,
    prices,
    ratio_calls,
    safe_calls,
    win_calls,
)

REFUSED = Guardrail(GuardMetric.REFUSED, MARGIN)


@pytest.mark.parametrize(("source", "difference"), [(EXACT, -0.002), (PRIO3, -0.002), (PRIO3, 0.02), (EXACT, 0.025)])
def test_what_is_simulated_is_what_guardrails_say(source: Source, difference: float) -> None:
    """Arrays of runs against aggregates of two stages: the same verdicts, some of which call and some do not."""
    assert ALPHA == SERVER_ALPHA
    fleet = Fleet(source, (600, 1_800), 2, difference, base_rate=0.02)
    *_, readings = fleet.read(np.random.default_rng(20_271_301), 12)
    reports = sum(each.reports for each in readings)
    harm = HarmBound(AlwaysValidBound(ALPHA, reports, 2_000, 9_000))
    safe = PlannedBound(ALPHA, (Look(2, reports),), 2)
    harmful, found_safe = is_harmful(readings, harm), is_safe(readings, safe)
    for run in range(12):
        strata = [Stratum(one_aggregate(each, run)) for each in readings]
        verdict = evaluate_guardrail(strata, REFUSED, control=0, treatment=1, tests=GuardTests(harm, safe))
        assert (verdict.kind is GuardKind.HARMFUL, verdict.kind is GuardKind.SAFE) == (harmful[run], found_safe[run])
    assert 0 < (harmful | found_safe).sum() < 12


def one_aggregate(reading: Reading, run: int) -> Aggregate:
    """Return one run as an aggregate of refused and accepted answers; control is arm 0."""
    events_t, base_t, events_c, base_c = reading.shares.sums[run]
    counts = np.array([[[events_c], [base_c - events_c]], [[events_t], [base_t - events_t]]])
    return Aggregate(counts, np.eye(4) * reading.shares.noise[0, 0], reading.reports)


def small_rows(runs: int) -> Iterator[Row]:
    """Give some rows of the table."""
    rng = np.random.default_rng(20_271_302)
    for source, groups in ((PRIO3, (3_000, 30_000)), (RR2, (20_000, 200_000))):
        for same in (False, True):
            fleet = Fleet(source, groups, 3, MARGIN, same)
            yield Row("harm", source.name, harm_calls(fleet, rng, runs), runs, ALPHA)
            yield Row("safe", source.name, safe_calls(fleet, rng, runs), runs, ALPHA)
    for arms in (2, 3):
        calls = win_calls(arms, 2, rng, runs, epsilon=Fraction(2), is_at_will=False)
        yield Row(f"{arms} arms", "", calls, runs, ALPHA)
    calls = ratio_calls(rng, runs, share=0.5, reports=100_000, epsilon=Fraction(2), cells=8)
    yield Row("sample ratio", "", calls, runs, 0.01)


def test_rows_of_the_boundary_stay_at_most_nominal() -> None:
    """A thousand runs of each kind; what spends its error is near it, so that the test has teeth."""
    rows = list(small_rows(1_000))
    assert failures(rows) == []
    assert sum(row.false for row in rows if row.name in ("safe", "2 arms")) > 0.03 * 5 * 1_000


def test_a_version_beyond_the_margin_is_called_so_that_silence_is_no_proof() -> None:
    """Harm well above and safety well below the margin are found in nearly every run."""
    rng = np.random.default_rng(20_271_303)
    harmful, sound = (Fleet(RR2, (200_000, 400_000), 3, difference) for difference in (0.02, 0.0))
    assert harm_calls(harmful, rng, 200) > 190
    assert safe_calls(sound, rng, 200) > 150


def test_bounds_need_at_most_a_fifth_more_devices_than_the_best_valid_test() -> None:
    """At the horizon and after every stage of a rollout; a third fewer at the early look; four looks cost 3 %."""
    found = [value for _, value in prices()]
    assert max(found) <= 1.2
    assert min(found) == pytest.approx(0.7, abs=0.02)


def test_an_imbalance_of_one_point_is_found_at_a_million_reports() -> None:
    """51 : 49, randomized response at 2, eight cells, four windows, tuned as the plan expects: 95 % and more."""
    rng = np.random.default_rng(20_271_304)
    assert ratio_calls(rng, 1_000, share=0.51, reports=1_000_000, epsilon=Fraction(2), cells=8) >= 950


@pytest.mark.thorough
def test_twenty_thousand_runs_a_row_stay_at_most_nominal() -> None:
    """All rows of the table; the pooled rate is at most nominal and a tenth of a point."""
    rows = all_rows(20_000, 20_271_305)
    assert failures(rows) == []
    assert pooled_rate(row for row in rows if row.name.startswith("safe")) <= ALPHA + 0.001
