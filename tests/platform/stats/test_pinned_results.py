"""Comparisons of 250 made-up aggregates give the figures that they always gave (vectors/comparisons.json)."""

import itertools
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    Comparison,
    GroupSequential,
    Interval,
    Primary,
    PrimaryKind,
    split_pre_period,
)
from alcove.platform.stats.randomized_response import aggregate_from_randomized_response
from alcove.registry.policy import HistogramLayout, Outcome

from tests.platform.stats.comparing import compare

CASES = 250
FIGURES = Path(__file__).parent / "vectors" / "comparisons.json"
EDGES = (0.25, 0.5, 0.75)
PRIMARIES = (
    Primary(),
    Primary(),
    Primary(PrimaryKind.LATENCY_MEAN),
    Primary(PrimaryKind.LATENCY_QUANTILE, quantile=0.5),
    Primary(
        PrimaryKind.RATIO,
        numerator=(Outcome.REFUSED,),
        denominator=(Outcome.REFUSED, Outcome.ACCEPTED, Outcome.ERROR),
        is_less_better=True,
    ),
)


def comparison_of(number: int) -> Comparison:
    """Return the comparison of case `number`: mechanism, sizes, metric, test and rules are drawn with it as seed."""
    rng = random.Random(number)
    primary = rng.choice(PRIMARIES)
    has_covariate = primary.kind is PrimaryKind.ACCEPTED and rng.random() < 0.3
    arms = rng.choice((2, 2, 2, 3, 4))
    layout = HistogramLayout(
        arms,
        outcomes=4 if primary.kind is PrimaryKind.RATIO else rng.choice((2, 2, 4)),
        latency_bins=rng.choice((2, 3, 4)) if primary.is_latency else rng.choice((1, 2, 4)),
        covariate_bins=len(EDGES) + 2 if has_covariate else 1,
    )
    typical = rng.choice((0, 20, 900, 5000, 20_000, 20_000))
    lift = [rng.choice((0.0, 0.0, 0.03, 0.3)) for _ in range(arms)]
    spread = rng.choice((0.002, 0.002, 0.02, 0.2))
    counts = [
        round(
            typical
            * rng.uniform(1.0 - spread, 1.0 + spread)
            * (1.0 + (lift[place.arm] if place.outcome == Outcome.ACCEPTED else -lift[place.arm]))
        )
        for place in map(layout.axes, range(layout.cell_count))
    ]
    aggregate = aggregate_from_randomized_response(counts, layout, epsilon=Fraction(rng.choice((1, 2, 4))))
    if rng.random() < 0.3:
        cells = np.array(counts, dtype=float).reshape(aggregate.estimates.shape)
        aggregate = Aggregate(cells, np.zeros((cells.size, cells.size)), sum(counts))
    plain, covariate = split_pre_period(aggregate, EDGES) if has_covariate else (aggregate, None)
    horizon = rng.choice((500, 10_000)) + plain.reports * rng.choice((1, 2, 6)) // 2
    analysis = None
    if primary.quantile is None and plain.reports > 10 and rng.random() < 0.4:
        analysis = GroupSequential((plain.reports // 3, plain.reports), horizon)
    parts = [rng.choice((1, 1, 2)) for _ in range(arms)] if rng.random() < 0.1 else [1] * arms
    edges_ms = tuple(10.0 * 2**place for place in range(layout.latency_bins - 1))
    return compare(
        plain,
        bin_values_ms=[5.0 * 2**place for place in range(layout.latency_bins)],
        alpha=rng.choice((0.05, 0.01)),
        minimum_cohort=rng.choice((0, 100, 1000)),
        control=rng.randrange(arms),
        expected_shares=[part / sum(parts) for part in parts],
        planned_reports=horizon,
        reports_per_device=rng.choice((1, 1, 3)),
        primary=primary,
        edges_ms=edges_ms,
        test=analysis,
        pre_period=covariate,
    )


def figures_of(found: Comparison) -> dict[str, Any]:
    """Return what a comparison says: the decision, and its numbers in a fixed order."""

    def ends(interval: Interval | None) -> list[float | None]:
        return [None, None] if interval is None else list(interval)

    arms = [
        [one.devices, *ends(one.accepted_interval), *ends(one.latency_interval), *ends(one.median_latency_interval)]
        for one in found.arms
    ]
    pairs = [
        [pair.value, *ends(pair.interval), pair.standard_error, pair.noise_percent]
        for pair in (found.pairs[0], *found.primary_pairs)
    ]
    corrected = [[one.theta, one.variance_reduction_percent] for one in found.adjustments if one is not None]
    numbers = itertools.chain(*arms, *pairs, found.p_values, *map(ends, found.sample_ratio.intervals), *corrected)
    decision = found.decision
    return {
        "decision": [str(decision.kind), decision.winner, str(decision.code), decision.reason],
        "numbers": list(numbers),
    }


def test_cases_reach_every_rule() -> None:
    """The pinned figures have winners, every reason to hold that counts can give, and both directions of a metric."""
    pinned = json.loads(FIGURES.read_text(encoding="utf-8"))
    assert len(pinned) == CASES
    assert {"better", "no_reports", "sample_ratio_mismatch", "below_minimum_cohort", "privacy_noise"} <= {
        one["decision"][2] for one in pinned
    }
    assert "interval_includes_zero" in {one["decision"][2] for one in pinned}


@pytest.mark.parametrize("start", range(0, CASES, 25))
def test_pinned_figures(start: int) -> None:
    """Decisions to the letter; numbers to 1e-9, for sums of products are not the same bits on every processor."""
    pinned = json.loads(FIGURES.read_text(encoding="utf-8"))
    for number in range(start, start + 25):
        expected, found = pinned[number], figures_of(comparison_of(number))
        assert found["decision"] == expected["decision"], number
        assert [one is None for one in found["numbers"]] == [one is None for one in expected["numbers"]], number
        seen, known = ([one for one in side["numbers"] if one is not None] for side in (found, expected))
        np.testing.assert_allclose(seen, known, rtol=1e-9, atol=1e-9, err_msg=str(number))
