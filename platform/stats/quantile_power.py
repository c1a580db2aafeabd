"""Computes how likely a guardrail of a latency quantile finds harm, or finds a sound version safe.

The test (`quantiles.py`) refuses pairs of bins by the two arms' distribution functions at the edges, so that its power
has no formula in one score. What it reads is nearly normal: the excess G_a(e) - q of each arm a at each edge e has

    at the end of window k   true excess  +  sampling of the devices, the same in each window
                             +  mean of k independent draws of a window's privacy noise

with covariances as in `arm_covariance.py`, of the residuals (1[below e] - G_a(e) b) / size. The chance is that of the
calls among `_DRAWS` such paths, drawn once from a fixed seed and each taken with both signs: the same plan gives the
same numbers, good to about one point. The worse version's latencies are those of the control times a factor.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.arm_covariance import ReportModel, residual_noise
from alcove.platform.stats.guardrail_power import HarmTest, SafeTest
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.quantiles import PARTS_OF_ALPHA, BoolArray

__all__ = ["QuantileModel"]

_DRAWS = 1_500
_SEED = 20_271_210
_MAX_LOOKS = 12
_ROUNDS = 12  # bisections of a difference
_WIDEST = 8.0  # largest difference in the control's quantiles


@dataclass(frozen=True, eq=False)
class QuantileModel:
    """A guardrail of a latency quantile before anything is reported.

    Attributes:
        cells: probability of each cell of an arm whose latencies are the control's times a factor, of sum 1.
        bins: latency bin of each cell; -1: it has none.
        edges_ms: inner edges of the bins.
        quantile: in (0, 1).
        control_ms: the control's quantile.
        margin: largest tolerated treatment minus control, in ms.
        reports: how they are made private.
        shares: of control and treatment, together 1.
    """

    cells: Callable[[float], FloatArray]
    bins: tuple[int, ...]
    edges_ms: tuple[float, ...]
    quantile: float
    control_ms: float
    margin: float
    reports: ReportModel
    shares: tuple[float, float] = (0.5, 0.5)

    @property
    def rate(self) -> float:
        """What is expected of the control, in ms."""
        return self.control_ms

    @property
    def largest_difference(self) -> float:
        """The largest difference that is looked for, in ms."""
        return _WIDEST * self.control_ms

    def harm_power(self, difference: float, devices: float, windows: int, test: HarmTest) -> float:
        """Return the chance that a treatment slower by `difference` is called harmful by the end of `windows`."""
        asked = [_harm_part(test, part).bounds(windows) for part in PARTS_OF_ALPHA]
        return self._chance(difference, devices, np.array(asked), is_harm=True)

    def safe_power(self, devices: float, windows: int, test: SafeTest | HarmTest, *, difference: float = 0.0) -> float:
        """Return the chance that a treatment slower by `difference` is called safe by the end of `windows`."""
        asked = [
            (_harm_part(test, part) if isinstance(test, HarmTest) else replace(test, alpha=test.alpha * part)).bounds(
                windows
            )
            for part in PARTS_OF_ALPHA
        ]
        return self._chance(difference, devices, np.array(asked), is_harm=False)

    def detectable(self, devices: float, windows: int, test: HarmTest, *, power: float) -> float | None:
        """Return the smallest difference that is called harmful with probability `power`; None: none is."""
        low, high = self.margin, self.largest_difference
        if high <= low or self.harm_power(high, devices, windows, test) < power:
            return None
        for _ in range(_ROUNDS):
            middle = math.sqrt(low * high)
            is_found = self.harm_power(middle, devices, windows, test) >= power
            low, high = (low, middle) if is_found else (middle, high)
        return high

    def _chance(self, difference: float, devices: float, asked: FloatArray, *, is_harm: bool) -> float:
        """Return the part of the paths that are called at the end of some window.

        Args:
            difference: treatment minus control, in ms.
            devices: of both groups.
            asked: standard errors for each part of alpha at the end of each window, [parts, windows].
            is_harm: whether harm is asked; else safety.
        """
        model = self._model(difference)
        points = len(self.edges_ms) + 2
        looks = _looks(asked[0])
        sampling, noise = _paths(len(model.excess), looks)
        spread = model.sampling_root / math.sqrt(devices)
        of_window = model.noise_of(devices)
        root = _root(of_window)
        called = np.zeros(2 * _DRAWS, dtype=bool)
        fast, slow = (0, 1) if is_harm else (1, 0)  # arms are control and treatment
        edges = np.array([0.0, *self.edges_ms, math.inf])
        gaps = edges[None, :-1] - edges[1:, None]
        needed = gaps < (self.margin if is_harm else -self.margin)
        total = np.zeros_like(sampling)
        reached = 0
        for place, window in enumerate(looks):
            total = total + noise[place] * math.sqrt(window - reached)
            reached = window
            if not model.is_known(devices, window):
                continue
            excess = model.excess + sampling @ spread.T + (total / window) @ root.T
            variance = model.sampling_variance(devices) + of_window / window
            called |= _is_called(
                excess.reshape(-1, 2, points), variance.reshape(2, points, 2, points), (fast, slow), needed,
                asked[:, window - 1],
            )  # fmt: skip
        return float(called.mean())

    def _model(self, difference: float) -> "_Excess":
        if difference not in self._models:
            arms = [self.cells(1.0), self.cells(1.0 + difference / self.control_ms)]
            self._models[difference] = _Excess(self, np.array(arms))
        return self._models[difference]

    @cached_property
    def _models(self) -> "dict[float, _Excess]":
        return {}


class _Excess:
    """Means and covariances of the excesses of both arms at all edges, [2 * points], of one device and window."""

    def __init__(self, model: QuantileModel, cells: FloatArray) -> None:
        bins, shares = np.array(model.bins), np.array(model.shares)
        points = len(model.edges_ms) + 2
        below = np.array([(bins >= 0) & (bins < last) for last in range(points)], dtype=np.float64)
        base = (bins >= 0).astype(np.float64)
        sizes = cells @ base
        self._quantile, self._answers = model.quantile, shares * sizes
        functions = cells @ below.T / sizes[:, None]
        self.excess = (functions - model.quantile).ravel()
        # Residuals of (answers below an edge - q answers) / answers, as the test takes them, and of the sizes.
        rows = np.zeros((2, points + 1, 2, cells.shape[1]))
        for arm in range(2):
            centered = below - functions[arm][:, None] * base
            rows[arm, :points, arm] = centered / (self._answers[arm])
            rows[arm, points, arm] = base / self._answers[arm]
        flat = rows.reshape(2 * (points + 1), -1)
        probabilities = (shares[:, None] * cells).ravel()
        covariance = (flat * probabilities) @ flat.T
        per_report, per_window = residual_noise(probabilities, flat, model.reports)
        own = np.array([arm * (points + 1) + point for arm in range(2) for point in range(points)])
        ends = np.array([points, 2 * points + 1])
        self.sampling_root = _root(covariance[np.ix_(own, own)])
        self._per_report, self._per_window = per_report[np.ix_(own, own)], per_window[np.ix_(own, own)]
        self._size_report = np.diagonal(per_report)[ends].max()
        self._size_window = np.diagonal(per_window)[ends].max()
        self._points = points

    def noise_of(self, devices: float) -> FloatArray:
        """Return the covariance of one window's noise."""
        found: FloatArray = self._per_report / devices + self._per_window / devices**2
        return found

    def sampling_variance(self, devices: float) -> FloatArray:
        """Return the sampling variance that the test states: that at the quantile, for each arm."""
        arms = np.repeat(self._quantile * (1.0 - self._quantile) / (self._answers * devices), self._points)
        return np.diag(arms)

    def is_known(self, devices: float, windows: int) -> bool:
        """Return whether noise leaves the sizes of both arms known."""
        noise = (self._size_report / devices + self._size_window / devices**2) / windows
        return bool(noise <= MAX_SIZE_VARIATION**2)


def _is_called(
    excess: FloatArray, variance: FloatArray, arms: tuple[int, int], needed: BoolArray, asked: FloatArray
) -> BoolArray:
    """Return which paths refuse all pairs of bins that are needed, [paths]; `quantiles.py` has the rule."""
    fast, slow = arms
    joint, own, other = asked.tolist()
    faster, slower = excess[:, fast, :-1], -excess[:, slow, 1:]
    of_fast = np.diagonal(variance[fast, :, fast, :])[:-1]
    of_slow = np.diagonal(variance[slow, :, slow, :])[1:]
    both = np.sqrt(np.maximum(of_fast[:, None] + of_slow[None, :] - 2.0 * variance[fast, :-1, slow, 1:], 0.0))
    is_fast, is_slow = faster > own * np.sqrt(of_fast), slower > other * np.sqrt(of_slow)
    called = np.ones(len(excess), dtype=bool)
    for one, two in np.argwhere(needed).tolist():
        if not called.any():
            break
        by_both = faster[:, one] + slower[:, two] > joint * both[one, two]
        called &= by_both | is_fast[:, one] | is_slow[:, two]
    return called


def _harm_part(test: HarmTest, part: float) -> HarmTest:
    early = None if test.early is None else replace(test.early, alpha=test.early.alpha * part)
    return replace(test, alpha=test.alpha * part, early=early)


def _looks(bounds: FloatArray) -> tuple[int, ...]:
    """Return the windows whose analyses may call, at most `_MAX_LOOKS` even ones; fewer find less."""
    calling = [window for window, bound in enumerate(bounds.tolist(), 1) if math.isfinite(bound)]
    if len(calling) > _MAX_LOOKS:
        step = (len(calling) - 1) / (_MAX_LOOKS - 1)
        calling = [calling[round(place * step)] for place in range(_MAX_LOOKS)]
    return tuple(calling)


@lru_cache(maxsize=16)
def _paths(size: int, looks: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return normal draws of the sampling, [paths, size], and of each look's noise, [looks, paths, size]."""
    rng = np.random.default_rng(_SEED)
    sampling = rng.standard_normal((_DRAWS, size))
    noise = rng.standard_normal((len(looks), _DRAWS, size))
    return np.concatenate([sampling, -sampling]), np.concatenate([noise, -noise], axis=1)


def _root(covariance: FloatArray) -> FloatArray:
    """Return a matrix whose product with its transpose is the covariance."""
    values, vectors = np.linalg.eigh(covariance)
    found: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    return found
