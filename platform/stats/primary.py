"""Defines the primary metric that decides an experiment, and estimates how arms differ in it.

    accepted           share of the refused and accepted answers that the user kept; more is better
    latency_mean       mean of the answers' latency in ms, as far as bins tell; less is better
    latency_quantile   a quantile of it; less is better
    latency_share      part of the answers that were slower than an edge of the bins; less is better
    ratio              reports with an outcome in `numerator` over those with one in `denominator`; more is better, or
                       less where it is said
    metric             mean of a team's own metric, of the values that stand for its bins (`bin_metric.py`); which
                       direction is better, its definition says

The first is read by `estimate`. Latency is read from the answers alone (refused, accepted or neither), because errors
and fallbacks have none; a ratio from all bins of the outcomes it names. The caller gives the critical value of each
difference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.bin_metric import BinMetric
from alcove.platform.stats.decision import Difference
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.latency_bins import answer_outcomes, validate_edges
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.metrics import ratio_difference
from alcove.platform.stats.quantiles import quantile_difference
from alcove.platform.stats.sequential import AlwaysValid, SequentialTest
from alcove.registry.policy.outcome import Outcome


class PrimaryKind(StrEnum):
    """Kinds of primary metrics; see the module's docstring."""

    ACCEPTED = "accepted"
    LATENCY_MEAN = "latency_mean"
    LATENCY_QUANTILE = "latency_quantile"
    LATENCY_SHARE = "latency_share"
    RATIO = "ratio"
    METRIC = "metric"


@dataclass(frozen=True)
class Primary:
    """The metric that decides.

    Attributes:
        kind: which.
        quantile: of LATENCY_QUANTILE, in (0, 1); else None.
        edge_ms: of LATENCY_SHARE, an edge of the bins; answers above it are slow; else None.
        own: of METRIC, which one; else None.
        numerator: outcomes of RATIO, distinct; else none.
        denominator: outcomes of RATIO, distinct: those of the numerator and at least one more; else none.
        is_less_better: of RATIO: whether the lower ratio wins.

    Raises:
        ArgumentError: a field is missing, out of its bounds or does not belong to the kind.
    """

    kind: PrimaryKind = PrimaryKind.ACCEPTED
    quantile: float | None = None
    numerator: tuple[Outcome, ...] = ()
    denominator: tuple[Outcome, ...] = ()
    is_less_better: bool = False
    edge_ms: float | None = None
    own: BinMetric | None = None

    def __post_init__(self) -> None:
        self._validate_ratio()
        if (self.own is not None) != (self.kind is PrimaryKind.METRIC):
            bound = "given" if self.own is None else "absent"
            raise ArgumentError("own", f"{bound} for {self.kind}", None if self.own is None else self.own.name)
        if self.kind is PrimaryKind.LATENCY_SHARE:
            if self.edge_ms is None or not (math.isfinite(self.edge_ms) and self.edge_ms > 0.0):
                raise ArgumentError("edge_ms", "positive and finite", self.edge_ms)
        elif self.edge_ms is not None:
            raise ArgumentError("edge_ms", f"absent for {self.kind}", self.edge_ms)
        if self.kind is PrimaryKind.LATENCY_QUANTILE:
            if self.quantile is None or not 0.0 < self.quantile < 1.0:
                raise ArgumentError("quantile", "in (0, 1)", self.quantile)
        elif self.quantile is not None:
            raise ArgumentError("quantile", f"absent for {self.kind}", self.quantile)

    @property
    def is_latency(self) -> bool:
        """True where it is read from the bins."""
        return self.is_in_ms or self.kind is PrimaryKind.LATENCY_SHARE

    @property
    def is_in_ms(self) -> bool:
        """True where its differences are milliseconds."""
        return self.kind in (PrimaryKind.LATENCY_MEAN, PrimaryKind.LATENCY_QUANTILE)

    @property
    def is_share(self) -> bool:
        """True where it is a part of something, in [0, 1]."""
        return not self.is_in_ms and self.own is None

    @property
    def is_more_better(self) -> bool:
        """True where the arm with the higher value wins."""
        if self.own is not None:
            return self.own.is_more_better
        return not (self.is_latency or self.is_less_better)

    @property
    def better(self) -> str:
        """The word for an arm that is better by it."""
        if self.kind is PrimaryKind.RATIO:
            above, below = (
                " + ".join(each.name.lower() for each in side) for side in (self.numerator, self.denominator)
            )
            return f"better in {above} / ({below})"
        if self.own is not None:
            return f"better in {self.own.name}"
        return "faster" if self.is_latency else "more accurate"

    @property
    def unit(self) -> str:
        """Unit of its differences, with a space before it; "" for shares and own metrics."""
        return " ms" if self.is_in_ms else ""

    def range_of(self, bin_values: FloatArray) -> tuple[float, float]:
        """Return the lowest and the highest value that an arm can have; `bin_values` as in `Metric`."""
        if self.own is not None:
            return self.own.range
        return (float(bin_values[0]), float(bin_values[-1])) if self.is_in_ms else (0.0, 1.0)

    def _validate_ratio(self) -> None:
        above, below = self.numerator, self.denominator
        if self.kind is not PrimaryKind.RATIO:
            for name, value in (("numerator", above), ("denominator", below), ("less_is_better", self.is_less_better)):
                if value:
                    raise ArgumentError(name, f"absent for {self.kind}", value)
            return
        for name, outcomes in (("numerator", above), ("denominator", below)):
            if not outcomes or len(set(outcomes)) != len(outcomes):
                raise ArgumentError(name, "one or more outcomes, each once", [each.name.lower() for each in outcomes])
        if not set(above) < set(below):
            names = [each.name.lower() for each in above]
            raise ArgumentError("numerator", "some, but not all, of the denominator's outcomes", names)


def primary_pairs(
    aggregate: Aggregate,
    primary: Primary,
    ordered: Sequence[tuple[int, int]],
    *,
    bin_values_ms: FloatArray,
    edges_ms: Sequence[float],
    test: SequentialTest,
    alpha: float,
    reports_per_device: int,
) -> tuple[Difference, ...]:
    """Return the differences in the primary metric, arm minus versus, for pairs (arm, versus).

    Args:
        aggregate: the counts.
        primary: any but ACCEPTED.
        ordered: the pairs.
        bin_values_ms: as in `Metric`.
        edges_ms: inner edges of the bins, for a quantile.
        test: of the differences; a quantile, which has no standard error, takes `AlwaysValid` alone.
        alpha: of each difference.
        reports_per_device: as in `Metric`.

    Raises:
        ArgumentError: edges or bins that carry no latency, outcomes that are not counted, or a quantile with another
            test.
    """
    factor = test.critical_value(reports=aggregate.reports, alpha=alpha)
    if primary.quantile is not None:
        if aggregate.bins < 2:
            raise ArgumentError("latency_edges_ms", f"at least one edge for {primary.kind}", "none")
        if not isinstance(test, AlwaysValid):
            raise ArgumentError("test", f"always valid for {primary.kind}, which has no standard error", test)
        return tuple(
            _quantile_pair(
                aggregate,
                primary.quantile,
                pair,
                edges_ms=edges_ms,
                alpha=alpha,
                planned_reports=test.planned_reports,
                reports_per_device=reports_per_device,
            )
            for pair in ordered
        )
    weights, base = metric_weights(aggregate, primary, bin_values_ms, edges_ms=edges_ms)
    return tuple(
        _ratio_pair(aggregate, pair, weights, base, factor=factor, reports_per_device=reports_per_device)
        for pair in ordered
    )


def metric_weights(
    aggregate: Aggregate,
    primary: Primary,
    bin_values_ms: FloatArray,
    *,
    success_outcome: int = Outcome.ACCEPTED,
    base_outcomes: Sequence[int] | None = None,
    edges_ms: Sequence[float] = (),
) -> tuple[FloatArray, FloatArray]:
    """Return each cell's weight in the numerator and in the denominator of a metric that is a ratio of sums.

    Args:
        aggregate: the counts.
        primary: any but a quantile.
        bin_values_ms: as in `Metric`.
        success_outcome: as in `Metric`.
        base_outcomes: as in `Metric`.
        edges_ms: as in `Metric`, for a share of slow answers.

    Returns:
        Two arrays, [outcomes, bins].

    Raises:
        ArgumentError: bins that carry no latency, outcomes that are not counted, or a quantile, which is no such ratio.
    """
    if primary.kind is PrimaryKind.LATENCY_QUANTILE:
        raise ArgumentError("primary", "a ratio of sums", primary.kind)
    if primary.kind is PrimaryKind.RATIO:
        return _ratio_weights(aggregate, primary)
    if primary.own is not None:
        return primary.own.weights(aggregate)
    weights, base = (np.zeros((aggregate.outcomes, aggregate.bins)) for _ in range(2))
    if primary.kind is PrimaryKind.ACCEPTED:
        weights[success_outcome] = 1.0
        base[list(range(aggregate.outcomes) if base_outcomes is None else base_outcomes)] = 1.0
        return weights, base
    if aggregate.bins < 2:
        raise ArgumentError("latency_edges_ms", f"at least one edge for {primary.kind}", "none")
    base[list(answer_outcomes(aggregate.outcomes))] = 1.0
    if primary.edge_ms is not None:
        return base * _is_slow(edges_ms, aggregate.bins, primary.edge_ms), base
    return base * bin_values_ms, base


def negate(pair: Difference) -> Difference:
    """Return the difference with its sign turned, without a lift: what the rules read where less is better."""
    interval = pair.interval
    return replace(
        pair,
        value=None if pair.value is None else -pair.value,
        interval=None if interval is None else Interval(-interval.high, -interval.low),
        score=None if pair.score is None else -pair.score,
        lift=None,
        lift_interval=None,
    )


def hide_interval(pair: Difference) -> Difference:
    """Return the difference without its intervals, where noise leaves an arm unknown."""
    return replace(pair, interval=None, lift_interval=None)


def _is_slow(edges_ms: Sequence[float], bins: int, edge_ms: float) -> FloatArray:
    """Return 1 for each bin above the edge and 0 for the others, [bins]."""
    edges = validate_edges(edges_ms, bins)
    if edge_ms not in edges:
        raise ArgumentError("edge_ms", f"one of the edges {edges}", edge_ms)
    return (np.arange(bins) > edges.index(edge_ms)).astype(np.float64)


def _ratio_weights(aggregate: Aggregate, primary: Primary) -> tuple[FloatArray, FloatArray]:
    """Return which cells, [outcomes, bins], are in the numerator and in the denominator."""
    if max(primary.denominator) >= aggregate.outcomes:
        raise ArgumentError("denominator", f"of the {aggregate.outcomes} outcomes counted", primary.denominator)
    weights, base = (np.zeros((aggregate.outcomes, aggregate.bins)) for _ in range(2))
    weights[list(primary.numerator)] = 1.0
    base[list(primary.denominator)] = 1.0
    return weights, base


def _ratio_pair(
    aggregate: Aggregate,
    pair: tuple[int, int],
    weights: FloatArray,
    base: FloatArray,
    *,
    factor: float,
    reports_per_device: int,
) -> Difference:
    arm, versus = pair
    found = None
    if math.isfinite(factor):
        found = ratio_difference(
            aggregate,
            weights,
            base,
            arm=arm,
            versus=versus,
            critical_value=factor,
            reports_per_device=reports_per_device,
        )
    if found is None:
        return Difference(arm, versus, None, None, None, None)
    difference = Difference(
        arm,
        versus,
        found.value,
        found.interval,
        found.standard_error,
        found.noise_percent,
        score=found.score,
        lift=found.lift,
        lift_interval=found.lift_interval,
    )
    is_known = all(_size_variation(aggregate, index, base) <= MAX_SIZE_VARIATION for index in pair)
    return difference if is_known and math.isfinite(sum(found.interval)) else hide_interval(difference)


def _quantile_pair(
    aggregate: Aggregate,
    quantile: float,
    pair: tuple[int, int],
    *,
    edges_ms: Sequence[float],
    alpha: float,
    planned_reports: int,
    reports_per_device: int,
) -> Difference:
    arm, versus = pair
    found = quantile_difference(
        aggregate,
        quantile,
        edges_ms,
        arm=arm,
        versus=versus,
        alpha=alpha,
        planned_reports=planned_reports,
        reports_per_device=reports_per_device,
    )
    if found is None:
        return Difference(arm, versus, None, None, None, None)
    return Difference(arm, versus, found[0], found[1], None, None, excludes_ends=True)


def _size_variation(aggregate: Aggregate, arm: int, base: FloatArray) -> float:
    weights = np.zeros(aggregate.estimates.shape)
    weights[arm] = base
    flat = weights.ravel()
    size = float(flat @ aggregate.estimates.ravel())
    noise = math.sqrt(max(float(flat @ aggregate.noise_covariance @ flat), 0.0))
    return noise / size if size >= 1.0 else math.inf
