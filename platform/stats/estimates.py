"""Estimates what an aggregate says of each arm by one metric, before any test or rule is applied to it.

`estimate` reads an `Aggregate` and nothing else: it does not know whether the counts are exact, randomized on the
devices or noised by aggregators.  Which outcome is a success and what a bin stands for are fields of the `Metric`.  The
variances are in `_ratio.py`.
"""

from dataclasses import dataclass

import numpy as np
from alcove.platform.stats._ratio import Moments, Ratio
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.pre_period import PrePeriod
from alcove.platform.stats.primary import Primary, PrimaryKind


@dataclass(frozen=True)
class Metric:
    """A metric: what is read from the counts, and how.

    Attributes:
        bin_values_ms: latency that stands for each bin, in ms, >= 0, rising strictly; where a team's own metric
            decides, the results that stand for its bins.
        edges_ms: inner edges of the latency bins, for a primary metric that is a quantile.
        primary: what decides.
        success_outcome: index of the outcome that counts as success; None: the counts do not tell it from others.
        base_outcomes: outcomes of which the accepted share is a part; None: all.
        reports_per_device: how many reports of the aggregate may come from one device, >= 1: windows that were
            pooled, as far as a device's ledger pays for them.
        pre_period: what the same reports say of the time before; the accepted share is corrected by it (CUPED), and
            no other primary metric can be.

    Raises:
        ArgumentError: a field is out of its bounds, or does not go with the primary metric.
    """

    bin_values_ms: tuple[float, ...]
    edges_ms: tuple[float, ...] = ()
    primary: Primary = Primary()  # noqa: RUF009 - immutable
    success_outcome: int | None = 1
    base_outcomes: tuple[int, ...] | None = None
    reports_per_device: int = 1
    pre_period: PrePeriod | None = None

    def __post_init__(self) -> None:
        if self.reports_per_device < 1:
            raise ArgumentError("reports_per_device", "at least 1", self.reports_per_device)
        if self.pre_period is not None and self.primary.kind is not PrimaryKind.ACCEPTED:
            raise ArgumentError("pre_period", "absent unless the accepted share decides", self.primary.kind)
        if self.success_outcome is None and self.primary.kind is PrimaryKind.ACCEPTED:
            raise ArgumentError("success_outcome", "an outcome where the accepted share decides", None)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates from the counts, with variances and without a test.

    Attributes:
        aggregate: what was read.
        metric: how it was read.
        moments: sums, variances and ratios of the aggregate.
        bin_values_ms: float64 [bins].
        success: weights of the successful outcome, float64 [outcomes * bins].
        accepted_parts: per arm, the share of the successful outcome; None where the arm's size is below one report, or
            no outcome counts as success.
        latencies: per arm, the mean of the bins' values; None where the arm's size is below one report, or the bins are
            those of a team's own metric.
        own_means: per arm, the mean of a team's own metric where one decides; None else, and where no report has it.
    """

    aggregate: Aggregate
    metric: Metric
    moments: Moments
    bin_values_ms: FloatArray
    success: FloatArray
    accepted_parts: tuple[Ratio | None, ...]
    latencies: tuple[Ratio | None, ...]
    own_means: tuple[Ratio | None, ...]

    @property
    def arms(self) -> int:
        """Number of arms."""
        return self.aggregate.arms

    @property
    def reports(self) -> int:
        """Reports read."""
        return self.aggregate.reports


def estimate(aggregate: Aggregate, metric: Metric) -> Estimates:
    """Return what `aggregate` says by `metric`; exchanging arms exchanges their estimates, bit for bit.

    Raises:
        ArgumentError: fewer than two arms, or a metric of bins or outcomes that the aggregate does not have.
    """
    if aggregate.arms < 2:
        raise ArgumentError("aggregate", "of at least two arms", f"of {aggregate.arms}")
    unread = int(metric.primary.own is not None and metric.primary.own.needs_record)
    values = _checked_bin_values(metric.bin_values_ms, aggregate.bins, unread)
    success_outcome, base_outcomes = metric.success_outcome, metric.base_outcomes
    if base_outcomes is not None and not set(base_outcomes) <= set(range(aggregate.outcomes)):
        raise ArgumentError("base_outcomes", f"outcomes in [0, {aggregate.outcomes})", base_outcomes)
    if success_outcome is not None and not 0 <= success_outcome < aggregate.outcomes:
        raise ArgumentError("success_outcome", f"an outcome in [0, {aggregate.outcomes})", success_outcome)
    moments = Moments(aggregate, metric.reports_per_device)
    shape = (aggregate.outcomes, aggregate.bins)
    success = np.zeros(shape)
    if success_outcome is not None:
        success[success_outcome] = 1.0
    base = np.zeros(shape)
    base[list(range(aggregate.outcomes) if base_outcomes is None else base_outcomes)] = 1.0
    latency = np.broadcast_to(values, shape)
    own = None if metric.primary.own is None else metric.primary.own.weights(aggregate)
    return Estimates(
        aggregate=aggregate,
        metric=metric,
        moments=moments,
        bin_values_ms=values,
        success=success.ravel(),
        accepted_parts=tuple(
            None if success_outcome is None else moments.ratio(arm, success.ravel(), base.ravel())
            for arm in range(aggregate.arms)
        ),
        latencies=tuple(None if own else moments.ratio(arm, latency.ravel()) for arm in range(aggregate.arms)),
        own_means=tuple(
            None if own is None else moments.ratio(arm, own[0].ravel(), own[1].ravel()) for arm in range(aggregate.arms)
        ),
    )


def _checked_bin_values(bin_values_ms: tuple[float, ...], bins: int, unread: int) -> FloatArray:
    """Return the values; of the first `unread` bins none is read, so that they need not rise."""
    values = np.array([float(value) for value in bin_values_ms], dtype=np.float64)
    if len(values) != bins:
        raise ArgumentError("bin_values_ms", f"one for each of {bins} bins", f"{len(values)} values")
    if not np.isfinite(values).all() or values[0] < 0.0 or (np.diff(values[unread:]) <= 0.0).any():
        raise ArgumentError("bin_values_ms", "finite, at least 0 and rising strictly", values.tolist())
    return values
