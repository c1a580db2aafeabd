"""Computes how likely a guardrail finds harm, or finds a sound version safe, by the tests that will run.

Treatment and control have a rate of the metric each, which differ by `difference`; with e the standard error of their
estimated difference (`arm_covariance.py`, the treatment at its own rate) and f the one that the test states, an
analysis at the end of a window calls

    HARMFUL   where (estimate - margin) / f reaches the bound of the test of harm; f = e
    SAFE      where (margin - estimate) / f reaches that of the test of safety; f as a difference at the margin has it

(`guardrail.py`, `one_sided.py`). The scores are those of a Brownian motion with bounds multiplied by f / e, so that the
chance that one of the analyses calls is read from `power_curve.py`. Nothing is called before noise leaves the size of
both groups certain up to `MAX_SIZE_VARIATION`. Reports of earlier stages are left out: they only add to the power.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from alcove.platform.stats.arm_covariance import ArmCovariance, ReportModel, ratio_covariance, size_covariance
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.limits import MAX_REPORTS, MAX_SIZE_VARIATION
from alcove.platform.stats.metric_model import MetricModel
from alcove.platform.stats.one_sided import AlwaysValidBound, Look, PlannedBound
from alcove.platform.stats.power import MAX_DEVICES
from alcove.platform.stats.power_curve import power_curve_of

_MAX_LOOKS = 12  # of a power that is integrated over analyses; each costs as much as the last
_MAX_SAFE_LOOKS = 20  # as `domain/rollouts/looks.py` makes
_ROUNDS = 50  # bisections of a difference
_CONTRAST = np.array([-1.0, 1.0])
_SCALE = 1000  # reports of one window, where only their ratio to the planned ones counts


@dataclass(frozen=True)
class HarmTest:
    """The test of harm, asked at the end of each window.

    Attributes:
        alpha: of this guardrail at any time, in (0, 0.5).
        planned_windows: in whose reports it is sharpest, > 0.
        later_windows: in whose reports it shall be sharp too; 0: nowhere.
        early: the test of the first windows, with an error of its own; None: there is none.
    """

    alpha: float
    planned_windows: float
    later_windows: float = 0.0
    early: "SafeTest | None" = None

    def bounds(self, windows: int) -> tuple[float, ...]:
        """Return how many standard errors each of the first `windows` analyses asks for."""
        planned, later = max(1, round(self.planned_windows * _SCALE)), round(self.later_windows * _SCALE)
        at_will = tuple(_harm_bound(self.alpha, planned, later, window) for window in range(1, windows + 1))
        if self.early is None:
            return at_will
        return tuple(map(min, at_will, self.early.bounds(windows)))


@dataclass(frozen=True)
class SafeTest:
    """The test at the ends of windows up to a horizon: of safety, or of harm early in a rollout.

    Attributes:
        alpha: of this guardrail, in (0, 0.5).
        ends: windows that are over when the first, second, ... report of a device is in; rising, >= 1.
        horizon_windows: after which nothing is called, >= the last of `ends`.
    """

    alpha: float
    ends: tuple[int, ...]
    horizon_windows: int

    @classmethod
    def each_window(cls, alpha: float, windows: int) -> "SafeTest":
        """Return the test where a device reports in each window up to the horizon."""
        return cls(alpha, tuple(range(1, windows + 1)), windows)

    def bounds(self, windows: int) -> tuple[float, ...]:
        """Return how many standard errors each of the first analyses asks for; infinite: it calls nothing."""
        return _safe_bounds(self.alpha, self.ends, self.horizon_windows, windows)


@dataclass(frozen=True, eq=False)
class GuardrailModel:
    """A guardrail before anything is reported.

    Attributes:
        metric: of the control, a share, or a mean in [0, 1] whose differences move devices (`MetricModel.is_tilted`).
        margin: largest tolerated treatment minus control, in [0, 1).
        reports: how they are made private.
        shares: of control and treatment, together 1.
    """

    metric: MetricModel
    margin: float
    reports: ReportModel
    shares: tuple[float, float] = (0.5, 0.5)

    def harm_power(self, difference: float, devices: float, windows: int, test: HarmTest) -> float:
        """Return the chance that a treatment worse by `difference` is called harmful by the end of `windows`.

        Args:
            difference: treatment minus control.
            devices: in both groups together, each of which reports in every window.
            windows: >= 1.
            test: of harm.

        Raises:
            ArgumentError: no devices or windows, or more reports than an aggregate holds.
        """
        _validate_reports(devices, windows)
        own = self.covariance(difference)
        return self._power(difference - self.margin, own, own, devices, test.bounds(windows))

    def safe_power(self, devices: float, windows: int, test: SafeTest | HarmTest, *, difference: float = 0.0) -> float:
        """Return the chance that a treatment worse by `difference` is called safe by the end of `windows`.

        Where there is no horizon the bounds of safety are as those of harm.

        Raises:
            ArgumentError: as `harm_power`.
        """
        _validate_reports(devices, windows)
        own = self.covariance(difference)
        return self._power(self.margin - difference, own, self._at_margin(own), devices, test.bounds(windows))

    def detectable(self, devices: float, windows: int, test: HarmTest, *, power: float) -> float | None:
        """Return the smallest difference that is called harmful with probability `power`; None: none is.

        Raises:
            ArgumentError: as `harm_power`.
        """
        low, high = self.margin, self.largest_difference
        if high <= low or self.harm_power(high, devices, windows, test) < power:
            return None
        for _ in range(_ROUNDS):
            middle = (low + high) / 2.0
            is_found = self.harm_power(middle, devices, windows, test) >= power
            low, high = (low, middle) if is_found else (middle, high)
        return high

    @property
    def rate(self) -> float:
        """What is expected of the control."""
        return self.metric.rate

    @property
    def largest_difference(self) -> float:
        """By how much worse a treatment can be."""
        return (self.metric.range or (0.0, 1.0))[1] - self.metric.rate

    def covariance(self, difference: float) -> ArmCovariance:
        """Return the covariance of the ratios of control and treatment, which is worse by `difference`."""
        if difference not in self._covariances:
            models = (self.metric, self.metric.shift(difference))
            self._covariances[difference] = ratio_covariance(models, self.shares, self.reports)
        return self._covariances[difference]

    def _at_margin(self, own: ArmCovariance) -> ArmCovariance:
        """Return what the test of safety states: sampling as at the margin, never less than is seen.

        The two rates are the margin apart and have the groups' rate together, as `sampling_at_margin` sets them; a mean
        has the part of the largest variance that it has in the control (`own_metric.py`), a share all of it.
        """
        treatment_share = self.shares[1]
        control = min(max(self.metric.rate - treatment_share * self.margin, 0.0), 1.0 - self.margin)
        size = float((self.metric.probabilities * self.metric.base).sum())
        rates = np.array([control, control + self.margin])
        spread = self.metric.variance / max(self.metric.rate * (1.0 - self.metric.rate), 1e-12)
        stated = np.diag(spread * rates * (1.0 - rates) / size / np.asarray(self.shares))
        widest = stated if float(np.trace(stated)) > float(np.trace(own.sampling)) else own.sampling
        return ArmCovariance(widest, own.per_report, own.per_window)

    @cached_property
    def _covariances(self) -> dict[float, ArmCovariance]:
        """Those that were computed: a search over devices asks for one again and again."""
        return {}

    @cached_property
    def _sizes(self) -> ArmCovariance:
        return size_covariance((self.metric, self.metric), self.shares, self.reports)

    def _power(
        self, distance: float, own: ArmCovariance, stated: ArmCovariance, devices: float, bounds: tuple[float, ...]
    ) -> float:
        if distance <= 0.0:
            return 0.0
        variances, asked = [], []
        for window in _integrated_looks(bounds):
            bound = bounds[window - 1]
            variance = _variance(own, devices, window)
            is_known = float(np.diag(self._sizes.noise(devices, window)).max()) <= MAX_SIZE_VARIATION**2
            asked.append(bound * math.sqrt(_variance(stated, devices, window) / variance) if is_known else math.inf)
            variances.append(variance)
        curve = power_curve_of(tuple(1.0 / variance for variance in variances), tuple(asked))
        return curve.power(distance / math.sqrt(variances[-1]))


def _integrated_looks(bounds: tuple[float, ...]) -> list[int]:
    """Return the windows whose analyses enter a power: the last one, and of those that may call the even ones.

    Fewer analyses find less, so that a plan of hundreds of windows asks for a few devices too many, never too few.
    """
    calling = [window for window, bound in enumerate(bounds, 1) if math.isfinite(bound)]
    return sorted({*_even(calling, _MAX_LOOKS), len(bounds)})


def _even(windows: Sequence[int], most: int) -> list[int]:
    """Return at most so many of the windows, evenly spaced, the first and the last among them."""
    if len(windows) <= most:
        return list(windows)
    step = (len(windows) - 1) / (most - 1)
    return [windows[round(place * step)] for place in range(most)]


def devices_for(chance: Callable[[int], float], power: float, *, least: int = 1) -> int | None:
    """Return the fewest devices with which `chance`, rising with them, reaches `power`, to five digits; None: none do.

    Args:
        chance: of a number of devices.
        power: in (0, 1).
        least: devices to begin with, >= 1.
    """
    low, high = least - 1, least
    while chance(high) < power:
        low, high = high, high * 2
        if high > MAX_DEVICES:
            return None
    while high - low > max(1, high // 10**5):
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high


def _variance(covariance: ArmCovariance, devices: float, windows: int) -> float:
    return float(_CONTRAST @ covariance.total(devices, windows) @ _CONTRAST)


def _validate_reports(devices: float, windows: int) -> None:
    if not devices > 0 or windows < 1 or devices * windows > MAX_REPORTS:
        raise ArgumentError("devices * windows", f"in [1, {MAX_REPORTS}]", devices * windows)


@lru_cache(maxsize=16_384)
def _harm_bound(alpha: float, planned: int, later: int, window: int) -> float:
    return AlwaysValidBound(alpha, window * _SCALE, planned, later).critical_value()


@lru_cache(maxsize=1024)
def _safe_bounds(alpha: float, ends: tuple[int, ...], horizon: int, windows: int) -> tuple[float, ...]:
    looks = [
        Look(ends[place - 1], place) for place in _even(range(1, len(ends) + 1), _MAX_SAFE_LOOKS) if place <= windows
    ]
    bounds = [math.inf] * windows
    if looks:
        for look, bound in zip(looks, PlannedBound(alpha, tuple(looks), horizon).critical_values(), strict=True):
            bounds[int(look.reports) - 1] = bound
    return tuple(bounds)
