"""Tests whether a treatment is harmful to the devices that run it, safe, or neither so far.

A guardrail names a metric and the largest tolerated difference, treatment minus control, the *margin*. Two one-sided
tests look at the same difference, each always valid at `alpha`, so that a person or a rollout may look every minute:

    HARMFUL       the lower bound of the difference is above the margin
    SAFE          the upper bound is below the margin
    INCONCLUSIVE  neither, or the data don't carry a test; it means hold, never advance

Shares: with privacy noise the bounds are those of a one-sided asymptotic confidence sequence, the noise's covariance in
the standard error (`_shares.py`, `confidence_sequence.py`); without noise they come from the exact e-process of
`exact_e_process.py`, which needs no burn-in. The choice depends on the mechanism alone, never on the counts, so it
costs no error.

Latency quantiles: bounds of each arm at alpha / 2 (`quantiles.py`). Without an upper end of its last bin a histogram
can't show that a quantile there is safe.

Assumed: windows of like size, or growing ones; with the noise drawn once for each window (`Aggregate`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from alcove.platform.stats._shares import ShareSums, share_difference, share_sums
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.confidence_sequence import one_sided_critical_value
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.exact_e_process import difference_bounds
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.quantiles import QuantileBounds, validate_edges
from alcove.registry.policy.outcome import Outcome


class GuardMetric(StrEnum):
    """The metric that a guardrail watches; more of it is worse."""

    CRASH_FALLBACK = "crash_fallback"
    """Share of devices that left the version of their arm because it crashed."""
    ERROR = "error"
    """Share of devices whose prediction was an error."""
    REFUSED = "refused"
    """Share of answers that the user refused, among refused and accepted ones: the business metric."""
    LATENCY = "latency"
    """Share of answers slower than an edge, or a quantile of the answers' latency in ms."""


class GuardKind(StrEnum):
    """The kinds of a guardrail's verdict; see the module's docstring."""

    HARMFUL = "harmful"
    SAFE = "safe"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Guardrail:
    """One limit that a treatment must keep.

    Attributes:
        metric: what is watched.
        margin: largest tolerated treatment minus control: a share in [0, 1), or ms >= 0 for a latency quantile.
        quantile: for LATENCY in ms: which quantile, in (0, 1); else None.
        edge_ms: for LATENCY as a share: answers above this edge of the histogram are slow; else None.

    Raises:
        ArgumentError: a field is out of its bounds, or does not belong to the metric.
    """

    metric: GuardMetric
    margin: float
    quantile: float | None = None
    edge_ms: float | None = None

    def __post_init__(self) -> None:
        is_latency = self.metric is GuardMetric.LATENCY
        if is_latency and (self.quantile is None) == (self.edge_ms is None):
            raise ArgumentError("guardrail", "a latency with either quantile or edge_ms", self)
        if not is_latency and (self.quantile is not None or self.edge_ms is not None):
            raise ArgumentError("guardrail", f"without quantile and edge_ms for {self.metric}", self)
        if self.quantile is not None and not 0.0 < self.quantile < 1.0:
            raise ArgumentError("quantile", "in (0, 1)", self.quantile)
        if self.edge_ms is not None and not (math.isfinite(self.edge_ms) and self.edge_ms > 0.0):
            raise ArgumentError("edge_ms", "positive and finite", self.edge_ms)
        if not (math.isfinite(self.margin) and self.margin >= 0.0):
            raise ArgumentError("margin", "finite and at least 0", self.margin)
        if self.quantile is None and self.margin >= 1.0:
            raise ArgumentError("margin", "below 1 for a share", self.margin)


@dataclass(frozen=True)
class GuardVerdict:
    """The verdict of one guardrail in one analysis.

    Attributes:
        kind: harmful, safe or inconclusive.
        difference: estimate of treatment minus control, a share or ms; None where the data don't carry one.
        low: lower bound, always valid at alpha; None where unbounded.
        high: upper bound, always valid at alpha; None where unbounded.
        reason: one sentence for people, with the bound and the values seen.
    """

    kind: GuardKind
    difference: float | None
    low: float | None
    high: float | None
    reason: str


def evaluate_guardrail(
    aggregate: Aggregate,
    guardrail: Guardrail,
    *,
    control: int,
    treatment: int,
    alpha: float,
    planned_reports: int,
    edges_ms: Sequence[float] = (),
    reports_per_device: int = 1,
) -> GuardVerdict:
    """Return what one guardrail says; it may be asked at every analysis.

    Args:
        aggregate: the windows so far, pooled.
        guardrail: the limit.
        control: index of the arm without the change.
        treatment: index of the arm with it.
        alpha: chance over all analyses that a treatment exactly at the margin is called harmful, and the chance that it
            is called safe; each in (0, 0.5).
        planned_reports: reports of both arms at which the bounds are tightest, >= 1; fixed at the start.
        edges_ms: inner edges of the latency bins, rising, one fewer than bins; needed for LATENCY only.
        reports_per_device: how many of the reports may come from one device, >= 1: the windows pooled. The sampling
            part grows by it, the worst case.

    Raises:
        ArgumentError: an argument is out of its bounds, or the aggregate has no such arm, outcome or edge.
    """
    if not (0 <= control < aggregate.arms and 0 <= treatment < aggregate.arms and control != treatment):
        raise ArgumentError("control, treatment", f"two arms in [0, {aggregate.arms})", (control, treatment))
    if reports_per_device < 1:
        raise ArgumentError("reports_per_device", "at least 1", reports_per_device)
    critical_value = one_sided_critical_value(reports=aggregate.reports, alpha=alpha, planned_reports=planned_reports)
    if guardrail.quantile is not None:
        edges = validate_edges(edges_ms, aggregate.bins)
        half = one_sided_critical_value(reports=aggregate.reports, alpha=alpha / 2.0, planned_reports=planned_reports)
        arms = [
            QuantileBounds(
                aggregate,
                arm,
                edges=edges,
                quantile=guardrail.quantile,
                critical_value=half,
                alpha=alpha / 2.0,
                reports_per_device=reports_per_device,
            )
            for arm in (treatment, control)
        ]
        return _quantile_verdict(guardrail, *arms)
    events, base = _weights(aggregate, guardrail, edges_ms)
    shares = share_sums(aggregate, events, base, treatment=treatment, control=control)
    return _share_verdict(guardrail, shares, critical_value, alpha, reports_per_device)


def evaluate_guardrails(
    aggregate: Aggregate,
    guardrails: Sequence[Guardrail],
    *,
    control: int,
    treatment: int,
    alpha: float,
    planned_reports: int,
    edges_ms: Sequence[float] = (),
    reports_per_device: int = 1,
) -> tuple[GuardVerdict, ...]:
    """Return what each guardrail says, in their order; together they err with `alpha` (Bonferroni).

    Raises:
        ArgumentError: as `evaluate_guardrail`.
    """
    return tuple(
        evaluate_guardrail(
            aggregate,
            guardrail,
            control=control,
            treatment=treatment,
            alpha=alpha / len(guardrails),
            planned_reports=planned_reports,
            edges_ms=edges_ms,
            reports_per_device=reports_per_device,
        )
        for guardrail in guardrails
    )


def _weights(aggregate: Aggregate, guardrail: Guardrail, edges_ms: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return which cells, [outcomes, bins], are events and which are the base of a share."""
    shape = (aggregate.outcomes, aggregate.bins)
    events, base = np.zeros(shape), np.zeros(shape)
    if guardrail.metric in (GuardMetric.CRASH_FALLBACK, GuardMetric.ERROR):
        outcome = Outcome.FALLBACK if guardrail.metric is GuardMetric.CRASH_FALLBACK else Outcome.ERROR
        if aggregate.outcomes <= outcome:
            raise ArgumentError("aggregate", f"of more than {outcome.value} outcomes for {guardrail.metric}", shape[0])
        events[outcome] = 1.0
        base[:] = 1.0
        return events, base
    base[[Outcome.REFUSED, Outcome.ACCEPTED]] = 1.0
    if guardrail.metric is GuardMetric.REFUSED:
        events[Outcome.REFUSED] = 1.0
        return events, base
    edges = validate_edges(edges_ms, aggregate.bins)
    if guardrail.edge_ms not in edges:
        raise ArgumentError("edge_ms", f"one of the edges {edges}", guardrail.edge_ms)
    events[[Outcome.REFUSED, Outcome.ACCEPTED], edges.index(guardrail.edge_ms) + 1 :] = 1.0
    return events, base


def _share_verdict(
    guardrail: Guardrail, shares: ShareSums, critical_value: float, alpha: float, reports_per_device: int
) -> GuardVerdict:
    found = share_difference(shares, reports_per_device=reports_per_device)
    variation = float(found.size_variation)
    if not variation <= MAX_SIZE_VARIATION:
        return _unknown(variation)
    value = float(found.value)
    if shares.is_exact:
        sums = [max(float(part), 0.0) / reports_per_device for part in shares.sums]
        low, high = difference_bounds((sums[0], sums[1]), (sums[2], sums[3]), alpha=alpha)
    else:
        half_width = critical_value * float(found.standard_error)
        low, high = max(value - half_width, -1.0), min(value + half_width, 1.0)
    return _verdict(guardrail, value, low, high, "")


def _unknown(variation: float) -> GuardVerdict:
    seen = "an arm has no devices" if math.isinf(variation) else f"noise leaves an arm uncertain by {variation:.0%}"
    reason = f"{seen} of at most {MAX_SIZE_VARIATION:.0%}" if math.isfinite(variation) else seen
    return GuardVerdict(GuardKind.INCONCLUSIVE, None, None, None, reason)


def _quantile_verdict(guardrail: Guardrail, treatment: QuantileBounds, control: QuantileBounds) -> GuardVerdict:
    variation = max(treatment.size_variation, control.size_variation)
    if not variation <= MAX_SIZE_VARIATION:
        return _unknown(variation)
    return _verdict(
        guardrail,
        treatment.value - control.value,
        treatment.low - control.high,
        treatment.high - control.low,
        " ms",
    )


def _verdict(guardrail: Guardrail, value: float, low: float, high: float, unit: str) -> GuardVerdict:
    if low > guardrail.margin:
        kind, seen = GuardKind.HARMFUL, f"at least {low:.5g}{unit}, above"
    elif high < guardrail.margin:
        kind, seen = GuardKind.SAFE, f"at most {high:.5g}{unit}, below"
    else:
        kind, seen = GuardKind.INCONCLUSIVE, f"between {low:.5g} and {high:.5g}{unit}, around"
    name = guardrail.metric if guardrail.quantile is None else f"{guardrail.metric} quantile {guardrail.quantile:g}"
    return GuardVerdict(
        kind,
        value,
        low if math.isfinite(low) else None,
        high if math.isfinite(high) else None,
        f"{name}: treatment minus control is {seen} the margin of {guardrail.margin:g}{unit}",
    )
