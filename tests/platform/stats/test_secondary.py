"""Secondary metrics: p-values of all comparisons adjusted together, at will or at one analysis."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    ArgumentError,
    Estimates,
    FixedHorizon,
    Metric,
    Primary,
    PrimaryKind,
    benjamini_hochberg,
    estimate,
    secondary_differences,
)
from alcove.registry.policy import Outcome
from numpy.typing import NDArray
from scipy import stats as peer

Exact = Callable[[NDArray[np.int64]], Aggregate]
VECTORS = Path(__file__).parent / "vectors"
ERRORS = Primary(PrimaryKind.RATIO, None, (Outcome.ERROR,), tuple(Outcome)[:4], is_less_better=True)
MEAN = Primary(PrimaryKind.LATENCY_MEAN)
COUNTS = np.array(
    [
        [[300, 200], [700, 700], [60, 0], [40, 0]],
        [[280, 160], [800, 700], [20, 0], [40, 0]],
        [[300, 200], [700, 690], [65, 0], [45, 0]],
    ]
)
REPORTS = int(COUNTS.sum())


def by(aggregate: Aggregate, *primaries: Primary) -> list[Estimates]:
    """The same counts by several metrics."""
    return [estimate(aggregate, Metric((5.0, 15.0), (10.0,), primary)) for primary in primaries]


def test_adjusted_p_values_are_statsmodels() -> None:
    """Ties and a single p-value among them."""
    cases = json.loads((VECTORS / "statsmodels.json").read_text(encoding="utf-8"))["corrections"]
    assert {len(case["p"]) for case in cases} == {1, 2, 5, 12}
    for case in cases:
        assert benjamini_hochberg(case["p"]) == pytest.approx(case["benjamini_hochberg"], rel=1e-12)


@pytest.mark.parametrize("p_values", [[0.2, -0.1], [1.1], [math.nan]])
def test_what_is_no_p_value_is_refused(p_values: Sequence[float]) -> None:
    """With the bounds."""
    with pytest.raises(ArgumentError, match=r"\[0, 1\]"):
        benjamini_hochberg(p_values)


def test_every_metric_and_arm_shares_one_adjustment(exact: Exact) -> None:
    """Four comparisons; each adjusted p-value is Benjamini and Hochberg's of the four."""
    found = secondary_differences(by(exact(COUNTS), ERRORS, MEAN), FixedHorizon(REPORTS), alpha=0.05)
    assert [(each.metric, each.difference.arm, each.difference.versus) for each in found] == [
        (0, 1, 0), (0, 2, 0), (1, 1, 0), (1, 2, 0),
    ]  # fmt: skip
    p_values = [each.p for each in found]
    assert all(p is not None for p in p_values)
    assert [each.adjusted_p for each in found] == pytest.approx(
        peer.false_discovery_control([p for p in p_values if p is not None]), rel=1e-12
    )
    assert found[0].adjusted_p is not None
    assert found[1].adjusted_p is not None
    assert found[0].adjusted_p < 0.01 < found[1].adjusted_p


def test_at_the_horizon_p_and_interval_are_the_normal_ones(exact: Exact) -> None:
    """Against the always-valid ones of the same counts, which are wider."""
    (fixed, _) = secondary_differences(by(exact(COUNTS), ERRORS), FixedHorizon(REPORTS), alpha=0.05)
    (at_will, _) = secondary_differences(by(exact(COUNTS), ERRORS), AlwaysValid(REPORTS), alpha=0.05)
    pair = fixed.difference
    assert pair.value is not None
    assert pair.standard_error is not None
    assert pair.interval is not None
    assert pair.score is not None
    assert pair.score == pytest.approx(pair.value / pair.standard_error, rel=0.05)
    assert fixed.p == pytest.approx(2.0 * peer.norm.sf(abs(pair.score)), rel=1e-9)
    width = pair.interval.high - pair.interval.low
    assert width == pytest.approx(2.0 * peer.norm.isf(0.025) * pair.standard_error, rel=0.01)
    assert at_will.p is not None
    assert fixed.p is not None
    assert at_will.p > fixed.p
    assert at_will.difference.interval is not None
    assert at_will.difference.interval.low < pair.interval.low


def test_nothing_is_known_before_the_horizon(exact: Exact) -> None:
    """The planned analysis is the only one: no interval, no p-value."""
    found = secondary_differences(by(exact(COUNTS), ERRORS), FixedHorizon(REPORTS + 1), alpha=0.05)
    assert [(each.difference.interval, each.p, each.adjusted_p) for each in found] == [(None, None, None)] * 2


def test_a_quantile_has_bounds_and_no_p_value_and_counts_as_one(exact: Exact) -> None:
    """It costs the others power, as any comparison does."""
    median = Primary(PrimaryKind.LATENCY_QUANTILE, 0.5)
    with_it = secondary_differences(by(exact(COUNTS), ERRORS, median), AlwaysValid(REPORTS), alpha=0.05)
    without = secondary_differences(by(exact(COUNTS), ERRORS), AlwaysValid(REPORTS), alpha=0.05)
    assert (with_it[2].p, with_it[2].adjusted_p) == (None, None)
    assert without[0].adjusted_p is not None
    assert with_it[0].adjusted_p == pytest.approx(2.0 * without[0].adjusted_p, rel=1e-12)


def test_the_accepted_share_is_one_of_the_answers(exact: Exact) -> None:
    """Errors and crashes have metrics of their own."""
    (found, _) = secondary_differences(by(exact(COUNTS), Primary()), AlwaysValid(REPORTS), alpha=0.05)
    shares = COUNTS[:, 1].sum(axis=1) / COUNTS[:, :2].sum(axis=(1, 2))
    assert found.difference.value == pytest.approx(shares[1] - shares[0], rel=1e-12)


def test_false_discoveries_stay_rare_among_equal_arms(exact: Exact) -> None:
    """Of 300 experiments of equal arms and two metrics, those with any adjusted p below 5 % are about that many."""
    rng = np.random.default_rng(51)
    rates = np.full((2, 4, 2), 1.0 / 16.0)
    hits = 0
    for _ in range(300):
        counts = rng.multinomial(20_000, rates.ravel()).reshape(rates.shape)
        found = secondary_differences(by(exact(counts), ERRORS, MEAN), FixedHorizon(20_000), alpha=0.05)
        hits += any(each.adjusted_p is not None and each.adjusted_p < 0.05 for each in found)
    assert hits <= peer.binom.isf(1e-4, 300, 0.05)
