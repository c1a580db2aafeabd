"""Computes how likely a guardrail finds harm, or finds a sound version safe, by the tests that will run.

Treatment and control have a rate of the metric each, which differ by `difference`; with e the standard error of their
difference at the last analysis (`arm_covariance.py`, the treatment at its own rate), an analysis calls

    HARMFUL   where (estimate - margin) / its standard error reaches the bound: expected score (difference - margin) / e
    SAFE      where (margin - estimate) / its standard error reaches it: expected score (margin - difference) / e

at the end of each window, by the bounds of `guardrail.py`; the chance that one of the analyses does is that of a
Brownian motion (`crossing.py`). Nothing is called before noise leaves the size of both groups certain up to
`MAX_SIZE_VARIATION`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from alcove.platform.stats.arm_covariance import ReportModel, ratio_covariance, size_covariance
from alcove.platform.stats.crossing import crossing_of
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.limits import MAX_REPORTS, MAX_SIZE_VARIATION
from alcove.platform.stats.metric_model import MetricModel
from alcove.platform.stats.power import MAX_DEVICES, Analyses

WindowAnalyses: TypeAlias = Callable[[int], Analyses]
"""The analyses of a guardrail's test when that many windows are pooled at the last one."""


@dataclass(frozen=True, eq=False)
class GuardrailModel:
    """A guardrail before anything is reported.

    Attributes:
        metric: of the control.
        margin: as in `Guardrail`: a share, or what the metric's unit is.
        reports: how they are made private.
        shares: of control and treatment, together 1.
    """

    metric: MetricModel
    margin: float
    reports: ReportModel
    shares: tuple[float, float] = (0.5, 0.5)

    def harm_power(self, difference: float, devices: float, windows: int, analyses: WindowAnalyses) -> float:
        """Return the chance that a treatment worse by `difference` is called harmful by the end of `windows`.

        Args:
            difference: treatment minus control.
            devices: in both groups together.
            windows: >= 1.
            analyses: of the test for harm.
        """
        return self._chance(difference - self.margin, difference, devices, analyses(windows), windows)

    def safe_power(self, devices: float, windows: int, analyses: WindowAnalyses, *, difference: float = 0.0) -> float:
        """Return the chance that a treatment worse by `difference`, or as good, is called safe; as `harm_power`."""
        return self._chance(self.margin - difference, difference, devices, analyses(windows), windows)

    def detectable(self, devices: float, windows: int, analyses: WindowAnalyses, *, power: float) -> float | None:
        """Return the smallest difference that is called harmful with probability `power`; None: none is."""
        low, high = self.margin, 1.0 - self.metric.rate
        if high <= low or self.harm_power(high, devices, windows, analyses) < power:
            return None
        for _ in range(50):
            middle = (low + high) / 2.0
            is_found = self.harm_power(middle, devices, windows, analyses) >= power
            low, high = (low, middle) if is_found else (middle, high)
        return high

    def standard_error(self, devices: float, windows: int, *, difference: float = 0.0) -> float:
        """Return the standard error of treatment minus control."""
        return math.sqrt(self._variances(difference, devices, (windows,))[0])

    def _variances(self, difference: float, devices: float, windows: Sequence[float]) -> list[float]:
        covariance = ratio_covariance((self.metric, self.metric.shift(difference)), self.shares, self.reports)
        contrast = np.array([-1.0, 1.0])
        return [float(contrast @ covariance.total(devices, reached) @ contrast) for reached in windows]

    def _chance(self, distance: float, difference: float, devices: float, analyses: Analyses, windows: int) -> float:
        if not devices > 0 or windows < 1 or devices * windows > MAX_REPORTS:
            raise ArgumentError("devices * windows", f"in [1, {MAX_REPORTS}]", devices * windows)
        reached = [part * windows for part in analyses.parts]
        sizes = size_covariance((self.metric, self.metric), self.shares, self.reports)
        is_read = [float(np.diag(sizes.noise(devices, part)).max()) <= MAX_SIZE_VARIATION**2 for part in reached]
        if distance <= 0.0 or not any(is_read):
            return 0.0
        bounds = [bound if known else math.inf for bound, known in zip(analyses.bounds, is_read, strict=True)]
        variances = self._variances(difference, devices, reached)
        found = crossing_of(tuple(1.0 / variance for variance in variances), tuple(bounds))
        return found.probability(distance / math.sqrt(variances[-1]))


def devices_for(chance: Callable[[float], float], power: float) -> int | None:
    """Return the fewest devices with which `chance`, rising with them, reaches `power`; None where none do."""
    low, high = 0, 1
    while chance(high) < power:
        low, high = high, high * 2
        if high > MAX_DEVICES:
            return None
    while high - low > max(1, high // 10**5):  # five digits are enough for a plan
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high
