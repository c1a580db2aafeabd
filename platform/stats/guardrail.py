"""Tests whether a treatment is harmful to the devices that run it, safe, or neither so far.

A guardrail names a metric and the largest tolerated difference, treatment minus control, the *margin*. Two one-sided
tests look at the same difference, each with a bound of its own (`one_sided.py`):

    HARMFUL       the lower bound of the difference is above the margin
    SAFE          the upper bound is below the margin
    INCONCLUSIVE  neither, or the data don't carry a test; it means hold, never advance

**Error.** A version with several guardrails is called harmful where one of them says so: they share alpha
(`evaluate_guardrails`). It is safe only where all say so: a version that is at one margin would have to be called safe
by that very guardrail, so that each tests at full alpha (intersection-union test: Berger, "Multiparameter hypothesis
testing and acceptance sampling", Technometrics 1982).

**Stages.** Differences of the stages of a rollout are combined, each stage against its own control (`strata.py`).

Shares: with privacy noise, and for planned looks, bounds are the estimate and so many standard errors, the noise's
covariance in them (`_shares.py`); for SAFE the errors are those that a difference at the margin would have.
Always-valid bounds of exact counts come from the exact e-process of `exact_e_process.py`, which needs no burn-in. The
choice depends on the mechanism and the plan alone, never on the counts, so it costs no error.

Latency: the share of answers slower than an edge is a share like any other. A quantile in ms is bounded by the edges of
the bins (`quantiles.py`), whatever latencies are inside them; without an upper end of its last bin a histogram can't
show that a quantile there is safe. Of several stages those are read whose groups are split as now.

Assumed: windows of like size, or growing ones; with the noise drawn once for each window (`Aggregate`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from alcove.platform.stats._shares import ShareSums, sampling_at_margin, share_difference, share_sums
from alcove.platform.stats.aggregate import Aggregate, FloatArray, pool
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.exact_e_process import lower_bound, upper_bound
from alcove.platform.stats.latency_bins import answer_outcomes, validate_edges
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.one_sided import GuardTests
from alcove.platform.stats.quantiles import QuantileComparison
from alcove.platform.stats.strata import Stratum, StratumDifference, combine, combine_weights
from alcove.registry.policy.outcome import Outcome


class GuardMetric(StrEnum):
    """The metric that a guardrail watches; more of it is worse."""

    CRASH_FALLBACK = "crash_fallback"
    """Share of the devices that used the feature which left the version of their arm because it crashed."""
    ERROR = "error"
    """Share of the devices that used the feature of which a prediction was an error."""
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
        low: lower bound, by the test of harm; None where unbounded.
        high: upper bound, by the test of safety; None where unbounded, or where there is no look at it now.
        reason: one sentence for people, with the bound and the values seen.
    """

    kind: GuardKind
    difference: float | None
    low: float | None
    high: float | None
    reason: str


def evaluate_guardrail(
    strata: Sequence[Stratum],
    guardrail: Guardrail,
    *,
    control: int,
    treatment: int,
    tests: GuardTests,
    edges_ms: Sequence[float] = (),
) -> GuardVerdict:
    """Return what one guardrail says.

    Args:
        strata: the reports of each stage, the present one last; at least one.
        guardrail: the limit.
        control: index of the arm without the change.
        treatment: index of the arm with it.
        tests: the bounds of the difference.
        edges_ms: inner edges of the latency bins, rising, one fewer than bins; needed for LATENCY only.

    Raises:
        ArgumentError: an argument is out of its bounds, or the aggregates have no such arm, outcome or edge.
    """
    if not strata:
        raise ArgumentError("strata", "at least one", 0)
    arms = strata[-1].aggregate.arms
    if not (0 <= control < arms and 0 <= treatment < arms and control != treatment):
        raise ArgumentError("control, treatment", f"two arms in [0, {arms})", (control, treatment))
    read = _share_verdict if guardrail.quantile is None else _quantile_verdict
    return read(strata, guardrail, (treatment, control), tests, edges_ms)


def evaluate_guardrails(
    strata: Sequence[Stratum],
    guardrails: Sequence[Guardrail],
    *,
    control: int,
    treatment: int,
    tests: GuardTests,
    edges_ms: Sequence[float] = (),
) -> tuple[GuardVerdict, ...]:
    """Return what each guardrail says, in their order.

    Args:
        strata: as `evaluate_guardrail`.
        guardrails: the limits.
        control: as `evaluate_guardrail`.
        treatment: as `evaluate_guardrail`.
        tests: of all of them together: they share the error of harm, and each is safe at full alpha.
        edges_ms: as `evaluate_guardrail`.

    Raises:
        ArgumentError: as `evaluate_guardrail`.
    """
    return tuple(
        evaluate_guardrail(
            strata,
            guardrail,
            control=control,
            treatment=treatment,
            tests=tests.share(len(guardrails)),
            edges_ms=edges_ms,
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
    if guardrail.metric is GuardMetric.REFUSED:
        base[[Outcome.REFUSED, Outcome.ACCEPTED]] = 1.0
        events[Outcome.REFUSED] = 1.0
        return events, base
    answers = list(answer_outcomes(aggregate.outcomes))
    base[answers] = 1.0
    edges = validate_edges(edges_ms, aggregate.bins)
    if guardrail.edge_ms not in edges:
        raise ArgumentError("edge_ms", f"one of the edges {edges}", guardrail.edge_ms)
    events[answers, edges.index(guardrail.edge_ms) + 1 :] = 1.0
    return events, base


def _share_verdict(
    strata: Sequence[Stratum],
    guardrail: Guardrail,
    arms: tuple[int, int],
    tests: GuardTests,
    edges_ms: Sequence[float],
) -> GuardVerdict:
    events, base = _weights(strata[-1].aggregate, guardrail, edges_ms)
    (treatment, control), harm, safe = arms, tests.harm, tests.safe
    measured = [
        _Measured(stratum, share_sums(stratum.aggregate, events, base, treatment=treatment, control=control))
        for stratum in strata
    ]
    known = [each for each in measured if each.variation <= MAX_SIZE_VARIATION]
    if not known:
        return _unknown(measured[-1].variation)
    differences = [each.difference(None) for each in known]
    weights = combine_weights(differences)
    seen = combine(differences, weights)
    value = float(seen.value)
    sums = tuple(each.exact_sums for each in known)
    is_exact = all(each.shares.is_exact for each in known)
    if is_exact:
        low = lower_bound(sums, alpha=harm.alpha)
    else:
        low = max(value - harm.critical_value() * float(seen.standard_error), -1.0)
    high = math.inf
    if safe is not None and is_exact and safe.is_always_valid:
        high = upper_bound(sums, alpha=safe.alpha)
    elif safe is not None:
        at_margin = combine([each.difference(guardrail.margin) for each in known], weights)
        high = min(value + safe.critical_value() * float(at_margin.standard_error), 1.0)
    return _verdict(guardrail, value, low, high, "")


class _Measured:
    """One stratum's difference of shares."""

    def __init__(self, stratum: Stratum, shares: ShareSums) -> None:
        self._stratum = stratum
        self.shares = shares
        self._found = share_difference(shares, reports_per_device=stratum.reports_per_device)
        self.variation = float(self._found.size_variation)

    @property
    def exact_sums(self) -> tuple[float, float, float, float]:
        """Events and size of the treatment, then of the control, in devices."""
        kt, nt, kc, nc = (max(float(part), 0.0) / self._stratum.reports_per_device for part in self.shares.sums)
        return kt, nt, kc, nc

    def difference(self, margin: float | None) -> StratumDifference:
        """Return it with the variance that was seen, or with the one that a difference of `margin` has."""
        per_device = self._stratum.reports_per_device
        found = self._found
        return StratumDifference(
            value=found.value,
            sampling=found.sampling
            if margin is None
            else sampling_at_margin(self.shares, margin, reports_per_device=per_device),
            noise=found.noise,
            devices=self._stratum.effective_reports / per_device,
        )


def _unknown(variation: float) -> GuardVerdict:
    seen = "an arm has no devices" if math.isinf(variation) else f"noise leaves an arm uncertain by {variation:.0%}"
    reason = f"{seen} of at most {MAX_SIZE_VARIATION:.0%}" if math.isfinite(variation) else seen
    return GuardVerdict(GuardKind.INCONCLUSIVE, None, None, None, reason)


def _quantile_verdict(
    strata: Sequence[Stratum],
    guardrail: Guardrail,
    arms: tuple[int, int],
    tests: GuardTests,
    edges_ms: Sequence[float],
) -> GuardVerdict:
    alike = [stratum for stratum in strata if stratum.treatment_share == strata[-1].treatment_share]
    treatment, control = arms
    compared = QuantileComparison(
        pool([stratum.aggregate for stratum in alike]),
        guardrail.quantile or 0.0,
        edges_ms,
        arm=treatment,
        versus=control,
        reports_per_device=sum(stratum.reports_per_device for stratum in alike),
    )
    if not compared.size_variation <= MAX_SIZE_VARIATION:
        return _unknown(compared.size_variation)
    high = math.inf if tests.safe is None else compared.high(tests.safe)
    return _verdict(guardrail, compared.value, compared.low(tests.harm), high, " ms")


def _verdict(guardrail: Guardrail, value: float, low: float, high: float, unit: str) -> GuardVerdict:
    """Return the verdict; a latency in ms is strictly between its bounds, which may then lie on the margin."""
    margin, is_open = guardrail.margin, guardrail.quantile is not None
    if low > margin or (is_open and low == margin):
        kind, seen = GuardKind.HARMFUL, f"{'more than' if is_open else 'at least'} {low:.5g}{unit}, above"
    elif high < margin or (is_open and high == margin):
        kind, seen = GuardKind.SAFE, f"{'less than' if is_open else 'at most'} {high:.5g}{unit}, below"
    elif math.isinf(high):
        kind, seen = GuardKind.INCONCLUSIVE, f"at least {low:.5g}{unit}, around"
    else:
        kind, seen = GuardKind.INCONCLUSIVE, f"between {low:.5g} and {high:.5g}{unit}, around"
    name = str(guardrail.metric)
    if guardrail.quantile is not None:
        name = f"{name} quantile {guardrail.quantile:g}"
    elif guardrail.edge_ms is not None:
        name = f"{name} share slower than {guardrail.edge_ms:g} ms"
    return GuardVerdict(
        kind,
        value,
        low if math.isfinite(low) else None,
        high if math.isfinite(high) else None,
        f"{name}: treatment minus control is {seen} the margin of {margin:g}{unit}",
    )
