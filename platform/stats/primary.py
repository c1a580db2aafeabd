"""By which metric is an experiment decided, and by how much do its arms differ in it?

    accepted           share of an arm's devices whose user kept the answer; more is better
    latency_mean       mean of the answers' latency in ms, as far as bins tell; less is better
    latency_quantile   a quantile of it; less is better

The first is `compare`'s own; the others are read from the answers alone (refused and accepted), because errors and
fallbacks have no latency. Each difference is always valid at the alpha it is given.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.confidence_sequence import multiplier
from alcove.platform.stats.decision import Difference
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.metrics import ratio_difference
from alcove.platform.stats.quantiles import quantile_difference
from alcove.registry.policy.outcome import Outcome

_ANSWERS = (Outcome.REFUSED, Outcome.ACCEPTED)


class PrimaryKind(StrEnum):
    """What decides; see the module's docstring."""

    ACCEPTED = "accepted"
    LATENCY_MEAN = "latency_mean"
    LATENCY_QUANTILE = "latency_quantile"


@dataclass(frozen=True)
class Primary:
    """The metric that decides.

    Attributes:
        kind: which.
        quantile: of LATENCY_QUANTILE, in (0, 1); else None.

    Raises:
        ArgumentError: a quantile is missing, out of its bounds or does not belong to the kind.
    """

    kind: PrimaryKind = PrimaryKind.ACCEPTED
    quantile: float | None = None

    def __post_init__(self) -> None:
        if self.kind is PrimaryKind.LATENCY_QUANTILE:
            if self.quantile is None or not 0.0 < self.quantile < 1.0:
                raise ArgumentError("quantile", "in (0, 1)", self.quantile)
        elif self.quantile is not None:
            raise ArgumentError("quantile", f"absent for {self.kind}", self.quantile)

    @property
    def better(self) -> str:
        """How people say that an arm is better by it."""
        return "more accurate" if self.kind is PrimaryKind.ACCEPTED else "faster"

    @property
    def unit(self) -> str:
        """Unit of its differences, with a space before it; "" for shares."""
        return "" if self.kind is PrimaryKind.ACCEPTED else " ms"


def latency_pairs(
    aggregate: Aggregate,
    primary: Primary,
    ordered: Sequence[tuple[int, int]],
    *,
    bin_values_ms: FloatArray,
    edges_ms: Sequence[float],
    alpha: float,
    planned_reports: int,
    reports_per_device: int,
) -> tuple[Difference, ...]:
    """Return the differences of latency in ms, arm minus versus, for pairs (arm, versus).

    Args:
        aggregate: the counts.
        primary: LATENCY_MEAN or LATENCY_QUANTILE.
        ordered: the pairs.
        bin_values_ms: as in `compare`.
        edges_ms: inner edges of the bins, for a quantile.
        alpha: of each difference.
        planned_reports: as in `compare`.
        reports_per_device: as in `compare`.

    Raises:
        ArgumentError: edges or bins that carry no latency.
    """
    if aggregate.bins < 2:
        raise ArgumentError("latency_edges_ms", f"at least one edge for {primary.kind}", "none")
    if primary.quantile is not None:
        return tuple(
            _quantile_pair(
                aggregate,
                primary.quantile,
                pair,
                edges_ms=edges_ms,
                alpha=alpha,
                planned_reports=planned_reports,
                reports_per_device=reports_per_device,
            )
            for pair in ordered
        )
    factor = multiplier(reports=aggregate.reports, alpha=alpha, planned_reports=planned_reports)
    return tuple(
        _mean_pair(aggregate, pair, bin_values_ms, factor=factor, reports_per_device=reports_per_device)
        for pair in ordered
    )


def negated(pair: Difference) -> Difference:
    """Return the difference with its sign turned: what the rules read where less is better."""
    interval = pair.interval
    return replace(
        pair,
        value=None if pair.value is None else -pair.value,
        interval=None if interval is None else Interval(-interval.high, -interval.low),
    )


def _mean_pair(
    aggregate: Aggregate,
    pair: tuple[int, int],
    bin_values_ms: FloatArray,
    *,
    factor: float,
    reports_per_device: int,
) -> Difference:
    arm, versus = pair
    found = None
    base = np.zeros((aggregate.outcomes, aggregate.bins))
    base[list(_ANSWERS)] = 1.0
    weights = base * bin_values_ms
    if math.isfinite(factor):
        found = ratio_difference(
            aggregate, weights, base, arm=arm, versus=versus, multiplier=factor, reports_per_device=reports_per_device
        )
    if found is None:
        return Difference(arm, versus, None, None, None, None)
    is_known = all(_size_variation(aggregate, index, base) <= MAX_SIZE_VARIATION for index in pair)
    return Difference(
        arm, versus, found.value, found.interval if is_known else None, found.standard_error, found.noise_percent
    )


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
    return Difference(arm, versus, found[0], found[1], None, None)


def _size_variation(aggregate: Aggregate, arm: int, base: FloatArray) -> float:
    weights = np.zeros(aggregate.estimates.shape)
    weights[arm] = base
    flat = weights.ravel()
    size = float(flat @ aggregate.estimates.ravel())
    noise = math.sqrt(max(float(flat @ aggregate.noise_covariance @ flat), 0.0))
    return noise / size if size >= 1.0 else math.inf
