"""Observes an activation's values, and chooses the range that its 256 int8 steps cover.

An observer sees a tensor sample by sample: first its extremes, then how its elements are spread between them.
"""

from typing import Any

import numpy as np
from alcove.runtime.compiler.quantize.options import Clipping
from numpy.typing import NDArray

BINS = 2048
STEPS = 255
MOST_ELEMENTS = 1 << 17
_CANDIDATES = 64

Doubles = NDArray[np.float64]


def spread_sample(x: NDArray[Any]) -> NDArray[Any]:
    """Return the elements of an array, of a large one about `MOST_ELEMENTS` that lie evenly in it."""
    flat = x.reshape(-1)
    step = -(-flat.size // MOST_ELEMENTS)
    return flat[:: step | 1] if step > 1 else flat  # an odd step meets all channels


class Observer:
    """What calibration has seen of one tensor.

    Attributes:
        low: least element.
        high: greatest element.
        counts: elements in each of `BINS` equal parts of [low, high]; filled in a second pass.
        samples: tensors seen in the first pass.
    """

    def __init__(self) -> None:
        self.low = np.inf
        self.high = -np.inf
        self.counts = np.zeros(BINS)
        self.samples = 0
        self._channel_sums: Doubles | None = None
        self._rows = 0
        self._ranges: dict[Clipping, tuple[float, float]] = {}

    def see(self, x: NDArray[np.float32]) -> None:
        """Take the extremes and the sums by channel (the last dimension) of a tensor without NaN."""
        self.low = min(self.low, float(x.min()))
        self.high = max(self.high, float(x.max()))
        self.samples += 1
        rows = x.reshape(-1, x.shape[-1] if x.ndim else 1)
        sums = np.asarray(rows.sum(axis=0, dtype=np.float64))
        self._channel_sums = sums if self._channel_sums is None else self._channel_sums + sums
        self._rows += len(rows)

    def count(self, x: NDArray[np.float32]) -> None:
        """Take the spread of a tensor that `see` has had."""
        if self._is_spread:
            self.counts += np.histogram(spread_sample(x), BINS, (self.low, self.high))[0]

    @property
    def _is_spread(self) -> bool:
        """Whether float32 has numbers enough between the extremes to tell `BINS` parts apart; a constant has none."""
        most = np.float32(max(abs(self.low), abs(self.high)))
        return bool(self.high - self.low > 2 * BINS * np.spacing(most))

    @property
    def channel_means(self) -> Doubles:
        """The mean of each channel over all samples."""
        if self._channel_sums is None:
            raise ValueError("nothing was seen")
        return np.asarray(self._channel_sums / self._rows)

    def range(self, clipping: Clipping) -> tuple[float, float]:
        """Return the range to quantize, within what was seen."""
        if clipping == "minmax" or not self._is_spread:
            return self.low, self.high
        if clipping not in self._ranges:
            self._ranges[clipping] = least_squares(self) if clipping == "mse" else least_divergence(self)
        return self._ranges[clipping]


def _centres(observer: Observer) -> Doubles:
    width = (observer.high - observer.low) / BINS
    return np.asarray(observer.low + (np.arange(BINS) + 0.5) * width, np.float64)


def _candidates(observer: Observer) -> list[tuple[float, float]]:
    """Return ranges that hold zero, shrinking from both ends at once, then each end alone."""
    low, high = min(observer.low, 0.0), max(observer.high, 0.0)
    shares = np.linspace(1.0, 1.0 / _CANDIDATES, _CANDIDATES)
    found = [(low * share, high * share) for share in shares]
    if low < 0 < high:
        found += [(low * share, high) for share in shares] + [(low, high * share) for share in shares]
    return found


def least_squares(observer: Observer) -> tuple[float, float]:
    """Return the range with the least squared error of rounding and clipping together.

    Elements inside err by step**2 / 12 on average; those outside by their distance to the end.
    """
    centres, counts = _centres(observer), observer.counts
    best, least = (observer.low, observer.high), np.inf
    for low, high in _candidates(observer):
        outside = np.maximum(low - centres, 0) + np.maximum(centres - high, 0)
        error = float((counts * np.where(outside > 0, outside**2, ((high - low) / STEPS) ** 2 / 12)).sum())
        if error < least:
            best, least = (low, high), error
    return best


def least_divergence(observer: Observer) -> tuple[float, float]:
    """Return the range whose 256 steps lose the least information (KL divergence from the whole spread).

    Source: Migacz, "8-bit inference with TensorRT", GTC 2017: what lies outside is counted at the ends; each step
    spreads its elements evenly over those of its bins that had any.  Zeros are left out: every range has a step for
    them.
    """
    centres, counts = _centres(observer), observer.counts.copy()
    width = (observer.high - observer.low) / BINS
    counts[np.abs(centres) <= width / 2] = 0
    if not counts.any():
        return observer.low, observer.high
    best, least = (observer.low, observer.high), np.inf
    for low, high in _candidates(observer):
        inside = (centres >= low) & (centres <= high)
        if inside.sum() < STEPS // 2:
            continue
        seen = counts[inside].copy()
        seen[0] += counts[centres < low].sum()
        seen[-1] += counts[centres > high].sum()
        step = np.clip(((centres[inside] - low) / (high - low) * STEPS).astype(int), 0, STEPS)
        divergence = _divergence(seen, counts[inside], step)
        if divergence < least:
            best, least = (low, high), divergence
    return best


def _divergence(seen: Doubles, inside: Doubles, step: NDArray[np.int_]) -> float:
    """Return KL(seen || what is left of `inside` when all bins of a step look the same)."""
    has_any = inside > 0
    sums = np.bincount(step, inside, STEPS + 1)
    used = np.bincount(step, has_any.astype(float), STEPS + 1)
    spread = np.where(has_any, sums[step] / np.maximum(used[step], 1), 0)
    p, q = seen / seen.sum(), spread / spread.sum() if spread.sum() > 0 else spread
    tiny = 1e-10
    return float((p[p > 0] * np.log(p[p > 0] / np.maximum(q[p > 0], tiny))).sum())
