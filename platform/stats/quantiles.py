"""Bounds how two arms differ in a quantile of their latency, in ms, from binned counts.

G_a(e) is the part of an arm's answers that took less than e. Where G_a(e) < q the quantile q of the arm is e or more,
and where G_a(e) > q it is less than e. Counts tell G at the edges of the bins and nothing in between, so that what they
can show is in which bin each arm's quantile lies. Nothing is assumed of the latencies inside a bin: the bounds hold for
every distribution, and are as fine as the edges are.

A lower bound of Q_T - Q_C goes through all pairs (i, j) of "Q_C in bin i, Q_T in bin j" with edges e_0 = 0, ...,
e_m+1 = infinity. Such a pair implies G_C(e_i) <= q and G_T(e_j+1) >= q, and is refused by any test of these two:

    with noise    G_C(e_i) - G_T(e_j+1) <= 0,   G_C(e_i) <= q,   G_T(e_j+1) >= q
                  each a one-sided test of sums that are linear in the counts (sampling variance q (1 - q) / n of each
                  arm, noise by its covariance), at the parts `PARTS_OF_ALPHA` of alpha
    exact counts  the product of two e-processes of `exact_e_process.py`, one for each arm

The bound is the least e_j - e_i+1 of the pairs that are not refused. It errs only where the one true pair is refused,
with probability alpha at most, so no correction for the number of edges or pairs is due. The difference is *above* the
bound: Q_T is e_j or more, and Q_C less than e_i+1. Two arms whose quantiles an edge parts thus differ by more than 0.

Sources: Howard and Ramdas, "Sequential estimation of quantiles with applications to A/B testing", Bernoulli 2022
(arXiv 1906.09712), for quantiles by tests of the distribution function; Berger 1982 for the union of such tests.
"""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.exact_e_process import log_share_evidence
from alcove.platform.stats.latency_bins import answer_outcomes, validate_edges
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.one_sided import AlwaysValidBound, OneSidedBound
from numpy.typing import NDArray

BoolArray: TypeAlias = NDArray[np.bool_]

PARTS_OF_ALPHA: Final = (0.5, 0.25, 0.25)
"""Parts of alpha: the two arms' difference, which sees a small shift, and each arm alone, which sees its own bin."""


class QuantileComparison:
    """A quantile of the latency in two arms.

    Args:
        aggregate: the counts.
        quantile: in (0, 1).
        edges_ms: inner edges of the bins, rising, one fewer than bins.
        arm: index of one arm.
        versus: index of the other.
        reports_per_device: how many of the reports may come from one device; the sampling part grows by it.

    Attributes:
        value: `arm` minus `versus` in ms, as if latencies were spread evenly in their bin; the open last bin is taken
            as wide as the one before it. 0 where `size_variation` is infinite.
        size_variation: standard error of the smaller-known arm's answers from noise alone, relative to them; infinite
            below one. Above `MAX_SIZE_VARIATION` nothing should be read.
        is_exact: whether the counts hold no noise.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        quantile: float,
        edges_ms: Sequence[float],
        *,
        arm: int,
        versus: int,
        reports_per_device: int = 1,
    ) -> None:
        if not 0.0 < quantile < 1.0:
            raise ArgumentError("quantile", "in (0, 1)", quantile)
        edges = validate_edges(edges_ms, aggregate.bins)
        self._quantile, self._design_effect = quantile, float(reports_per_device)
        self._edges = np.array([0.0, *edges, math.inf])
        points = len(self._edges)
        rows = np.zeros((2, points, *aggregate.estimates.shape))  # of answers below each edge, in each arm
        answers = list(answer_outcomes(aggregate.outcomes))
        for place, index in enumerate((arm, versus)):
            for last in range(1, points):
                rows[place, last, index, answers, :last] = 1.0
        flat = rows.reshape(2 * points, -1)
        self._below = (flat @ aggregate.estimates.ravel()).reshape(2, points)
        self._noise = (flat @ aggregate.noise_covariance @ flat.T).reshape(2, points, 2, points)
        self._sizes = self._below[:, -1]
        self.is_exact = not self._noise.any()
        deviations = np.sqrt(np.maximum(self._noise[[0, 1], -1, [0, 1], -1], 0.0))
        is_empty = bool((self._sizes < 1.0).any())
        self.size_variation = math.inf if is_empty else float((deviations / self._sizes).max())
        self.value = 0.0
        if not is_empty:
            one, other = (_interpolate(below[1:-1], float(below[-1]), edges, quantile) for below in self._below)
            self.value = one - other

    def low(self, bound: OneSidedBound) -> float:
        """Return what the difference is above by this test, in ms; -infinity where that is nothing.

        Always-valid bounds of exact counts come from e-processes, others from standard errors.
        """
        return self._lowest(0, 1, bound)

    def high(self, bound: OneSidedBound) -> float:
        """Return what the difference is below by this test, in ms; infinity where that is nothing."""
        return -self._lowest(1, 0, bound)

    def _lowest(self, slow: int, fast: int, bound: OneSidedBound) -> float:
        """Return what the quantile of `slow` minus that of `fast` is above."""
        if self.is_exact and bound.is_always_valid:
            refused = self._evidence(slow, fast) >= -math.log(bound.alpha)
        else:
            refused = self._is_refused(slow, fast, bound)
        gaps = self._edges[None, :-1] - self._edges[1:, None]  # [bin of the fast arm, bin of the slow one]
        return float(gaps[~refused].min()) if not refused.all() else -math.inf

    def _evidence(self, slow: int, fast: int) -> FloatArray:
        """Return the log evidence against each pair of bins, [fast, slow]."""
        below, sizes, share = self._below / self._design_effect, self._sizes / self._design_effect, self._quantile
        below = np.clip(below, 0.0, sizes[:, None])
        is_fast = log_share_evidence(below[fast, :-1], np.asarray(sizes[fast]), share)
        is_slow = log_share_evidence(sizes[slow] - below[slow, 1:], np.asarray(sizes[slow]), 1.0 - share)
        evidence: FloatArray = is_fast[:, None] + is_slow[None, :]
        return evidence

    def _is_refused(self, slow: int, fast: int, bound: OneSidedBound) -> BoolArray:
        share, sizes = self._quantile, self._sizes
        excess = self._below / sizes[:, None] - share  # of the distribution function over the quantile
        noise = self._scaled_noise()
        spread = self._design_effect * share * (1.0 - share)
        faster, slower = excess[fast, :-1], -excess[slow, 1:]
        of_fast = np.diagonal(noise[fast, :, fast, :])[:-1]
        of_slow = np.diagonal(noise[slow, :, slow, :])[1:]
        shared = noise[fast, :-1, slow, 1:]
        both = np.maximum(of_fast[:, None] + of_slow[None, :] - 2.0 * shared, 0.0) + spread * (1.0 / sizes).sum()
        one = np.sqrt(np.maximum(of_fast, 0.0) + spread / sizes[fast])
        other = np.sqrt(np.maximum(of_slow, 0.0) + spread / sizes[slow])
        joint, own, own_other = (bound.critical_value(part=part) for part in PARTS_OF_ALPHA)
        by_both: FloatArray = faster[:, None] + slower[None, :] > joint * np.sqrt(both)
        refused = by_both | (faster > own * one)[:, None] | (slower > own_other * other)[None, :]
        return np.asarray(refused)

    def _scaled_noise(self) -> FloatArray:
        """Return the noise covariance of (answers below an edge - quantile * answers) / answers."""
        last, sizes = self._noise[..., -1:], self._sizes
        centered = self._noise - self._quantile * last
        centered = centered - self._quantile * centered[:, -1:, :, :]
        return centered / (sizes[:, None, None, None] * sizes[None, None, :, None])


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

    The interval is open, its ends are outside, and they may be infinite: the last bin is open. Each end gets alpha / 2.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """
    found = QuantileComparison(
        aggregate, quantile, edges_ms, arm=arm, versus=versus, reports_per_device=reports_per_device
    )
    if not found.size_variation <= MAX_SIZE_VARIATION:
        return None

    bound = AlwaysValidBound(alpha / 2.0, aggregate.reports, planned_reports)
    return found.value, Interval(found.low(bound), found.high(bound))


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
