"""Guardrails call harmful arms harmful and equal arms safe, and are inconclusive on few devices or much noise."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    ArgumentError,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    GuardVerdict,
    Stratum,
    evaluate_guardrail,
    evaluate_guardrails,
)
from alcove.platform.stats.confidence_sequence import critical_value, one_sided_critical_value

EDGES_MS = (1.0, 2.0, 4.0)

CRASHES = Guardrail(GuardMetric.CRASH_FALLBACK, 0.01)
ERRORS = Guardrail(GuardMetric.ERROR, 0.01)
REFUSALS = Guardrail(GuardMetric.REFUSED, 0.02)
SLOW = Guardrail(GuardMetric.LATENCY, 0.05, edge_ms=2.0)
MEDIAN = Guardrail(GuardMetric.LATENCY, 1.5, quantile=0.5)
ALL = (CRASHES, ERRORS, REFUSALS, SLOW, MEDIAN)

HARMLESS = ((0.1, 0.1, 0.06, 0.04), (0.3, 0.2, 0.1, 0.05), (0.02,), (0.03,))
HARM = {
    CRASHES: ((0.1, 0.1, 0.06, 0.04), (0.27, 0.2, 0.1, 0.05), (0.02,), (0.06,)),
    ERRORS: ((0.1, 0.1, 0.06, 0.04), (0.27, 0.2, 0.1, 0.05), (0.05,), (0.03,)),
    REFUSALS: ((0.3, 0.2, 0.1, 0.05), (0.1, 0.1, 0.06, 0.04), (0.02,), (0.03,)),
    SLOW: ((0.1, 0.1, 0.06, 0.04), (0.2, 0.1, 0.15, 0.2), (0.02,), (0.03,)),
    MEDIAN: ((0.01, 0.01, 0.2, 0.1), (0.02, 0.02, 0.2, 0.39), (0.02,), (0.03,)),
}

Shares = Sequence[Sequence[float]]


def aggregate_of(*arms: Shares, devices: float, deviation: float = 0.0) -> Aggregate:
    """Return the expected counts of arms with these shares per outcome and bin."""
    counts = np.zeros((len(arms), 4, 4))
    for arm, outcomes in enumerate(arms):
        for outcome, bins in enumerate(outcomes):
            counts[arm, outcome, : len(bins)] = np.array(bins) * devices
    return Aggregate(counts, np.eye(counts.size) * deviation**2, round(counts.sum()))


def look(aggregate: Aggregate, guardrail: Guardrail, alpha: float = 0.05, reports_per_device: int = 1) -> GuardVerdict:
    """Examine arm 1 against arm 0."""
    return evaluate_guardrail(
        [Stratum(aggregate, reports_per_device=reports_per_device)],
        guardrail,
        control=0,
        treatment=1,
        tests=at_will(aggregate, alpha),
        edges_ms=EDGES_MS,
    )


def at_will(aggregate: Aggregate, alpha: float = 0.05) -> GuardTests:
    """Return bounds that hold at any time."""
    return GuardTests.at_will(alpha, reports=aggregate.reports, planned_reports=20_000)


@pytest.mark.parametrize("deviation", [0.0, 7.5, 30.0])
@pytest.mark.parametrize("guardrail", ALL, ids=str)
def test_harm_is_harmful_to_its_own_guardrail_and_equal_arms_are_safe(guardrail: Guardrail, deviation: float) -> None:
    """With many devices; the same margin the other way round is safe, and bounds enclose the estimate."""
    equal = aggregate_of(HARMLESS, HARMLESS, devices=200_000, deviation=deviation)
    assert look(equal, guardrail).kind is GuardKind.SAFE
    harmed = aggregate_of(HARMLESS, HARM[guardrail], devices=200_000, deviation=deviation)
    verdict = look(harmed, guardrail)
    assert verdict.kind is GuardKind.HARMFUL
    assert verdict.low is not None
    assert verdict.low > guardrail.margin
    assert f"above the margin of {guardrail.margin:g}" in verdict.reason
    assert evaluate_guardrail(
        [Stratum(harmed)], guardrail, control=1, treatment=0, tests=at_will(harmed), edges_ms=EDGES_MS
    ).kind is (GuardKind.SAFE)


@pytest.mark.parametrize("guardrail", ALL, ids=str)
def test_few_devices_or_much_noise_decide_nothing(guardrail: Guardrail) -> None:
    """Inconclusive, with the reason; no devices at all as well."""
    for aggregate, reason in (
        (aggregate_of(HARMLESS, HARM[guardrail], devices=30), "around the margin"),
        (aggregate_of(HARMLESS, HARM[guardrail], devices=500, deviation=30.0), "of at most 10%"),
        (Aggregate(np.zeros((2, 4, 4)), np.zeros((32, 32)), 0), "an arm has no devices"),
    ):
        verdict = look(aggregate, guardrail)
        assert verdict.kind is GuardKind.INCONCLUSIVE
        assert reason in verdict.reason


def test_noise_windows_and_more_guardrails_only_widen_the_bounds() -> None:
    """Each of them makes each bound no tighter; the estimate stays."""
    for guardrail in ALL:
        plain = look(aggregate_of(HARMLESS, HARMLESS, devices=20_000, deviation=1.0), guardrail)
        noisy = look(aggregate_of(HARMLESS, HARMLESS, devices=20_000, deviation=40.0), guardrail)
        repeated = look(
            aggregate_of(HARMLESS, HARMLESS, devices=20_000, deviation=1.0), guardrail, reports_per_device=7
        )
        exact = look(aggregate_of(HARMLESS, HARMLESS, devices=20_000), guardrail)
        exact_repeated = look(aggregate_of(HARMLESS, HARMLESS, devices=20_000), guardrail, reports_per_device=7)
        for narrow, wide in ((plain, noisy), (plain, repeated), (exact, exact_repeated)):
            assert narrow.difference == pytest.approx(wide.difference)
            assert width(wide) >= width(narrow)
            if guardrail.quantile is None:
                assert width(wide) > 1.2 * width(narrow)
    aggregate = aggregate_of(HARMLESS, HARMLESS, devices=20_000, deviation=5.0)
    together = evaluate_guardrails(
        [Stratum(aggregate)], ALL, control=0, treatment=1, tests=at_will(aggregate), edges_ms=EDGES_MS
    )
    for verdict, guardrail in zip(together, ALL, strict=True):
        shared, alone = look(aggregate, guardrail, alpha=0.05 / len(ALL)), look(aggregate, guardrail)
        assert (verdict.low, verdict.high) == (shared.low, alone.high)  # harm shares its error, safety does not


def width(verdict: GuardVerdict) -> float:
    """Return the width of the bounds; infinite where one is missing."""
    if verdict.low is None or verdict.high is None:
        return math.inf
    return verdict.high - verdict.low


def test_quantile_in_the_open_last_bin_can_be_harmful_but_never_safe() -> None:
    """Its upper end is unknown."""
    slow = ((0.0, 0.0, 0.0, 0.5), (0.0, 0.0, 0.0, 0.5))
    verdict = look(aggregate_of(slow, slow, devices=100_000), MEDIAN)
    assert (verdict.kind, verdict.low, verdict.high) == (GuardKind.INCONCLUSIVE, None, None)
    fast = ((0.5,), (0.5,))
    assert look(aggregate_of(fast, slow, devices=100_000), MEDIAN).kind is GuardKind.HARMFUL


def test_one_sided_bound_is_tighter_than_the_interval_and_wider_than_one_at_twice_the_error() -> None:
    """Half the error of an interval on each side is what it replaces."""
    for reports in (1_000, 10_000, 1_000_000):
        bound = one_sided_critical_value(reports=reports, alpha=0.05, planned_reports=10_000)
        assert bound < critical_value(reports=reports, alpha=0.05, planned_reports=10_000)
        assert bound >= critical_value(reports=reports, alpha=0.1, planned_reports=10_000)
    assert one_sided_critical_value(reports=0, alpha=0.05, planned_reports=10_000) == math.inf


def test_wrong_use_names_the_argument() -> None:
    """Guardrails that mean nothing, arms, outcomes and edges that are not there."""
    latency = GuardMetric.LATENCY
    equal = aggregate_of(HARMLESS, HARMLESS, devices=100)
    wrong: dict[str, Callable[[], object]] = {
        "margin": lambda: Guardrail(GuardMetric.ERROR, -0.1),
        "margin ": lambda: Guardrail(GuardMetric.ERROR, 1.0),
        "margin  ": lambda: Guardrail(latency, math.inf, quantile=0.5),
        "quantile": lambda: Guardrail(latency, 1.0, quantile=1.0),
        "edge_ms": lambda: Guardrail(latency, 0.1, edge_ms=-1.0),
        "guardrail": lambda: Guardrail(latency, 0.1),
        "guardrail ": lambda: Guardrail(latency, 0.1, 0.5, 2.0),
        "guardrail  ": lambda: Guardrail(GuardMetric.ERROR, 0.1, 0.5),
        "edge_ms ": lambda: look(equal, Guardrail(latency, 0.1, edge_ms=3.0)),
        "alpha": lambda: look(equal, ERRORS, alpha=0.5),
        "reports_per_device": lambda: look(equal, ERRORS, reports_per_device=0),
        "control, treatment": lambda: evaluate_guardrail(
            [Stratum(equal)], ERRORS, control=1, treatment=1, tests=at_will(equal), edges_ms=EDGES_MS
        ),
        "strata": lambda: evaluate_guardrail([], ERRORS, control=0, treatment=1, tests=at_will(equal)),
        "edges_ms": lambda: evaluate_guardrail([Stratum(equal)], MEDIAN, control=0, treatment=1, tests=at_will(equal)),
        "edges_ms ": lambda: evaluate_guardrail(
            [Stratum(equal)], SLOW, control=0, treatment=1, tests=at_will(equal), edges_ms=(2.0, 1.0, 3.0)
        ),
        "aggregate": lambda: look(Aggregate(np.ones((2, 2, 4)), np.zeros((16, 16)), 16), ERRORS),
    }
    for name, make in wrong.items():
        with pytest.raises(ArgumentError) as raised:
            make()
        assert raised.value.name == name.strip()
