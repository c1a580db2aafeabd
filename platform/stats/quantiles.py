"""Bounds a quantile of an arm's latency and the difference of two arms in it, from binned counts.

Of the answers (refused and accepted) of an arm, F(e) is the part up to the edge e. The quantile q is above e exactly
where F(e) < q. For each edge the sum (answers up to e) - q * answers is linear in the counts, so no ratio is estimated:

    q surely above e:      sum < -critical_value * sd,    sd^2 = r n q (1 - q) + noise;   exact counts: the e-process of
    q surely at most e:    sum > +critical_value * sd                                     `exact_e_process.py`

The lower bound is the highest edge surely below, the upper one the lowest edge surely reached. Each errs only if one
fixed edge does (the one next to the true quantile), so no correction for the number of edges is due. Source: Howard and
Ramdas, "Sequential estimation of quantiles with applications to A/B testing", Bernoulli 2022
(arXiv 1906.09712), Theorem 1 (their bound at one quantile), here on binned counts.
"""

import math
from collections.abc import Sequence

import numpy as np
from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.confidence_sequence import one_sided_critical_value
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.exact_e_process import exceeds
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.registry.policy.outcome import Outcome


class QuantileBounds:
    """A quantile of one arm's latency with its bounds.

    Attributes:
        value: the quantile, as if latencies were spread evenly in their bin; the open last bin is taken as wide as
            the one before it, ms.
        low: lower bound, >= 0, ms.
        high: upper bound, infinite where it lies in the open last bin, ms.
        size_variation: standard error of the arm's answers from noise alone, relative to them; infinite below one.
            Above `MAX_SIZE_VARIATION` nothing should be read.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        arm: int,
        *,
        edges: tuple[float, ...],
        quantile: float,
        critical_value: float,
        alpha: float,
        reports_per_device: int,
    ) -> None:
        answers = [Outcome.REFUSED, Outcome.ACCEPTED]
        up_to = np.zeros((len(edges) + 1, *aggregate.estimates.shape))  # per edge; the last row is the base
        for last in range(len(edges) + 1):
            up_to[last, arm, answers, : last + 1] = 1.0
        flat = up_to.reshape(len(edges) + 1, -1)
        sums, noise = flat @ aggregate.estimates.ravel(), flat @ aggregate.noise_covariance @ flat.T
        size = float(sums[-1])
        self.size_variation = math.inf if size < 1.0 else math.sqrt(max(float(noise[-1, -1]), 0.0)) / size
        self.value, self.low, self.high = 0.0, 0.0, math.inf
        if math.isinf(self.size_variation):
            return
        below = sums[:-1]
        if noise.any():
            contrast = np.hstack([np.eye(len(edges)), np.full((len(edges), 1), -quantile)])
            variances = np.einsum("ei,ij,ej->e", contrast, noise, contrast)
            variances = np.maximum(variances, 0.0) + reports_per_device * size * quantile * (1.0 - quantile)
            half_width = critical_value * np.sqrt(variances)
            excess = below - quantile * size
            is_above, is_reached = excess < -half_width, excess > half_width
        else:
            counts, total = np.clip(below, 0.0, size) / reports_per_device, np.asarray(size / reports_per_device)
            is_above = exceeds(total - counts, total, 1.0 - quantile, alpha=alpha) > 0.0
            is_reached = exceeds(counts, total, quantile, alpha=alpha) > 0.0
        self.low = max((edge for edge, fact in zip(edges, is_above, strict=True) if fact), default=0.0)
        self.high = min((edge for edge, fact in zip(edges, is_reached, strict=True) if fact), default=math.inf)
        self.value = _interpolate(below, size, edges, quantile)


def quantile_difference(
    aggregate: Aggregate,
    quantile: float,
    edges_ms: Sequence[float],
    *,
    arm: int,
    versus: int,
    alpha: float,
    planned_reports: int,
    reports_per_device: int = 1,
) -> tuple[float, Interval] | None:
    """Return `arm` minus `versus` in ms and its always-valid interval; None where noise hides an arm's size.

    The interval's ends may be infinite: the last bin is open. Each of the four bounds gets alpha / 4.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """
    if not 0.0 < quantile < 1.0:
        raise ArgumentError("quantile", "in (0, 1)", quantile)
    edges = validate_edges(edges_ms, aggregate.bins)
    factor = one_sided_critical_value(reports=aggregate.reports, alpha=alpha / 4.0, planned_reports=planned_reports)
    one, other = (
        QuantileBounds(
            aggregate,
            index,
            edges=edges,
            quantile=quantile,
            critical_value=factor,
            alpha=alpha / 4.0,
            reports_per_device=reports_per_device,
        )
        for index in (arm, versus)
    )
    if not max(one.size_variation, other.size_variation) <= MAX_SIZE_VARIATION:
        return None
    return one.value - other.value, Interval(one.low - other.high, one.high - other.low)


def validate_edges(edges_ms: Sequence[float], bins: int) -> tuple[float, ...]:
    """Return the inner edges of the bins in ms, or raise `ArgumentError`."""
    edges = tuple(float(edge) for edge in edges_ms)
    if len(edges) != bins - 1 or not edges:
        raise ArgumentError("edges_ms", f"{max(bins - 1, 1)} edges of {bins} bins", edges)
    if any(low >= high for low, high in zip((0.0, *edges), edges, strict=False)) or not math.isfinite(edges[-1]):
        raise ArgumentError("edges_ms", "positive, finite and rising strictly", edges)
    return edges


def _interpolate(below: FloatArray, size: float, edges: tuple[float, ...], quantile: float) -> float:
    """Return the quantile of counts up to each edge; noise may make them fall, so their running maximum is read."""
    reached = np.clip(np.maximum.accumulate(np.concatenate([[0.0], below, [size]])), 0.0, size)
    wanted = quantile * size
    last = int(np.searchsorted(reached, wanted, side="left"))
    lows = (0.0, *edges)
    highs = (*edges, edges[-1] + (edges[-1] - lows[-2]))
    place = max(last - 1, 0)
    inside = float(reached[place + 1] - reached[place])
    part = (wanted - float(reached[place])) / inside if inside > 0.0 else 0.5
    return lows[place] + min(max(part, 0.0), 1.0) * (highs[place] - lows[place])
