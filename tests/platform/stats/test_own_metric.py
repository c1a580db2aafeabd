"""Guardrails of a team's own metric: harm and safety by the mean of bins, and never "safe" where nothing is seen."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    ArgumentError,
    BinMetric,
    GuardKind,
    GuardTests,
    GuardVerdict,
    Stratum,
    aggregate_from_randomized_response,
    evaluate_bin_guardrail,
)
from alcove.registry.policy.layout import HistogramLayout

EDITS = BinMetric("undone_edits", (0.0, 1.5, 3.5))
SENT = BinMetric("sent", (0.0, 1.5, 3.5), is_more_better=True)
KEPT = BinMetric("kept", (0.0, 0.25, 0.75), is_more_better=True, needs_record=True)
FEW, MANY, NONE = (0.8, 0.15, 0.05), (0.6, 0.25, 0.15), (1.0, 0.0, 0.0)


def aggregate_of(
    control: Sequence[float], treatment: Sequence[float], *, devices: float, noise: float = 0.0
) -> Aggregate:
    """Expected counts of both arms, in the outcome that has a metric's bins."""
    counts = np.zeros((2, 2, 3))
    counts[:, 1] = np.array([control, treatment]) * devices
    covariance = np.diag((np.arange(12) // 3 % 2) * noise**2)  # the other outcome cannot occur
    return Aggregate(counts, covariance, round(counts.sum()))


def look(aggregate: Aggregate, metric: BinMetric, margin: float, *, reports_per_device: int = 1) -> GuardVerdict:
    """Examine arm 1 against arm 0."""
    return evaluate_bin_guardrail(
        [Stratum(aggregate, reports_per_device=reports_per_device)],
        metric,
        margin,
        control=0,
        treatment=1,
        tests=GuardTests.at_will(0.05, reports=aggregate.reports, planned_reports=aggregate.reports),
    )


@pytest.mark.parametrize("noise", [0.0, 100.0])
@pytest.mark.parametrize(
    ("metric", "control", "treatment", "kind"),
    [
        (EDITS, FEW, FEW, GuardKind.SAFE),
        (EDITS, FEW, MANY, GuardKind.HARMFUL),
        (EDITS, MANY, FEW, GuardKind.SAFE),
        (SENT, MANY, FEW, GuardKind.HARMFUL),
        (SENT, FEW, MANY, GuardKind.SAFE),
        (SENT, MANY, NONE, GuardKind.HARMFUL),
        (KEPT, (0.5, 0.1, 0.4), (0.5, 0.4, 0.1), GuardKind.HARMFUL),
        (KEPT, (0.5, 0.1, 0.4), (0.9, 0.02, 0.08), GuardKind.SAFE),
    ],
)
def test_a_worse_mean_is_harm_and_an_equal_or_better_one_is_safe(
    metric: BinMetric, control: Sequence[float], treatment: Sequence[float], kind: GuardKind, noise: float
) -> None:
    """By the direction that the metric has; a share leaves out devices that recorded nothing, a count does not."""
    assert look(aggregate_of(control, treatment, devices=50_000, noise=noise), metric, 0.05).kind is kind


def test_the_difference_is_that_of_the_means_in_the_metrics_unit() -> None:
    """0.4 in one arm, 0.9 in the other; more is worse, so that a metric that should rise is turned round."""
    few, many = (sum(p * v for p, v in zip(arm, EDITS.bin_values, strict=True)) for arm in (FEW, MANY))
    aggregate = aggregate_of(FEW, MANY, devices=50_000)
    found = look(aggregate, EDITS, 0.05)
    assert found.difference == pytest.approx(many - few)
    assert found.low is not None
    assert found.high is not None
    assert found.low < many - few < found.high
    assert "undone_edits: treatment minus control" in found.reason
    turned = look(aggregate, SENT, 0.05)
    assert turned.difference == pytest.approx(few - many)
    assert "sent: control minus treatment" in turned.reason


def test_the_variance_is_that_of_the_values_not_of_the_extremes() -> None:
    """As Welch's test has it for many devices, and larger by what one device may have sent."""
    aggregate = aggregate_of(FEW, FEW, devices=1e6)
    mean = 0.15 * 1.5 + 0.05 * 3.5
    variance = 0.15 * 1.5**2 + 0.05 * 3.5**2 - mean**2
    tests = GuardTests.at_will(0.05, reports=aggregate.reports, planned_reports=aggregate.reports)
    found = look(aggregate, EDITS, 0.05)
    assert found.low == pytest.approx(-tests.harm.critical_value() * (2 * variance / 1e6) ** 0.5, rel=1e-3)
    several = look(aggregate, EDITS, 0.05, reports_per_device=4)
    assert several.low == pytest.approx(2 * (found.low or 0.0), rel=1e-3)


@pytest.mark.parametrize("noise", [0.0, 100.0])
@pytest.mark.parametrize("metric", [EDITS, SENT, KEPT])
def test_what_nobody_records_is_never_safe(metric: BinMetric, noise: float) -> None:
    """However many devices say nothing: the verdict holds, and says what to look for."""
    found = look(aggregate_of(NONE, NONE, devices=1e6, noise=noise), metric, 0.05)
    assert found.kind is GuardKind.INCONCLUSIVE
    assert "is it recorded under this name?" in found.reason


def test_reports_that_are_all_in_one_bin_are_never_safe() -> None:
    """The edges lie below all that is recorded, so that no difference can be seen."""
    found = look(aggregate_of((0, 0, 1), (0, 0, 1), devices=1e6), EDITS, 0.05)
    assert found.kind is GuardKind.INCONCLUSIVE
    assert "all reports are in the bin of 3.5" in found.reason


@pytest.mark.parametrize(("devices", "words"), [(0, "no result"), (100, "noise leaves an arm uncertain")])
def test_few_reports_are_inconclusive(devices: float, words: str) -> None:
    """Noise may be all that there is."""
    found = look(aggregate_of(FEW, MANY, devices=devices, noise=50.0), EDITS, 0.05)
    assert (found.kind, found.difference) == (GuardKind.INCONCLUSIVE, None)
    assert words in found.reason


@pytest.mark.parametrize("values", [(), (0.0,), (0.0, 0.0), (1.0, 0.5), (-1.0, 1.0), (0.0, float("inf"))])
def test_values_that_are_none_are_refused(values: tuple[float, ...]) -> None:
    """They rise, from 0 or more."""
    with pytest.raises(ArgumentError, match="bin_values"):
        BinMetric("m", values)


def test_margins_and_bins_that_do_not_fit_are_refused() -> None:
    """A margin is below the highest value; values are of the aggregate's bins."""
    aggregate = aggregate_of(FEW, FEW, devices=100)
    for margin in (-0.1, 3.5, float("nan")):
        with pytest.raises(ArgumentError, match="margin"):
            look(aggregate, EDITS, margin)
    with pytest.raises(ArgumentError, match="bin_values"):
        look(aggregate, BinMetric("m", (0.0, 1.0)), 0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("control", [FEW, (0.98, 0.015, 0.005)], ids=["often", "rarely"])
def test_a_version_at_the_margin_is_rarely_called_harmful_or_safe(control: Sequence[float]) -> None:
    """At will, over 20 analyses of randomized responses, at most 5 % of 500 runs each (and three standard errors)."""
    rng = np.random.default_rng(53)
    layout = HistogramLayout.of_groups(2, ((1,),), latency_bins=3)
    margin, epsilon = 0.1, Fraction(2)
    moved = margin / EDITS.bin_values[-1]
    treatment = np.add(control, (-moved, 0.0, moved))
    keep, other = np.exp(2.0), 1.0
    responses = (np.full((6, 6), other) + np.eye(6) * (keep - other)) / (keep + 5 * other)
    harmful = safe = 0
    runs, looks, devices = 500, 20, 2000
    for _ in range(runs):
        counts, kinds = np.zeros(6, np.int64), set()
        for _ in range(looks):
            true = np.concatenate([rng.multinomial(devices, control), rng.multinomial(devices, treatment)])
            counts += sum(rng.multinomial(number, row) for number, row in zip(true, responses, strict=True))
            aggregate = aggregate_from_randomized_response(counts.tolist(), layout, epsilon=epsilon)
            tests = GuardTests.at_will(0.05, reports=aggregate.reports, planned_reports=2 * devices * looks)
            kinds.add(
                evaluate_bin_guardrail(
                    [Stratum(aggregate)], EDITS, margin, control=0, treatment=1, tests=tests
                ).kind
            )  # fmt: skip
        harmful += GuardKind.HARMFUL in kinds
        safe += GuardKind.SAFE in kinds
    bound = 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    assert max(harmful, safe) / runs < bound
