"""Simulates how soon a version that crashes on more devices is halted, under each privacy mechanism."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from alcove.platform.stats import Mechanism
from alcove.platform.stats._shares import ShareSums, share_difference
from alcove.platform.stats.confidence_sequence import one_sided_critical_value
from alcove.platform.stats.limits import MAX_SIZE_VARIATION

from benchmarks.statistics.fleets import CrashFleet

FLEET_DEVICES = 1_000_000
EXPOSURE = 0.05
BASE_RATE = 0.01
MORE_CRASHES = 0.02
MARGIN = 0.005
PERIODS = 2
ALPHA = 0.05


@dataclass(frozen=True)
class Detection:
    """Parts of the runs that were halted.

    Attributes:
        mechanism: how reports are private.
        epsilon: of a report, or of a window.
        bins: latency bins.
        by_period: harmful version halted by the end of each check-in period.
        harmless: an equal version halted by the last period.
        half_width: standard error of the difference after the last period, mean over runs; None where nothing is read.
    """

    mechanism: Mechanism
    epsilon: Fraction
    bins: int
    by_period: tuple[float, ...]
    harmless: float
    half_width: float | None


def detect(
    rng: np.random.Generator, mechanism: Mechanism, epsilon: Fraction, *, bins: int, runs: int, periods: int = PERIODS
) -> Detection:
    """Simulate a guardrail on crash fallbacks with equal treatment and control, 5 % of the fleet each."""
    devices = round(FLEET_DEVICES * EXPOSURE)
    found = {}
    half_width = None
    for name, more in (("harmful", MORE_CRASHES), ("harmless", 0.0)):
        fleet = CrashFleet(devices, (BASE_RATE + more, BASE_RATE), bins)
        cells = fleet.true_cells(rng, runs)
        draw = fleet.randomize if mechanism is Mechanism.RANDOMIZED_RESPONSE else fleet.aggregate
        analyses = draw(rng, cells, periods, epsilon)
        called = [is_harmful(analysis, period, 2 * devices) for period, analysis in enumerate(analyses, start=1)]
        found[name] = tuple(float(np.any(called[:period], axis=0).mean()) for period in range(1, periods + 1))
        last = share_difference(analyses[-1], reports_per_device=periods)
        is_read = float((last.size_variation <= MAX_SIZE_VARIATION).mean()) > 0.5
        half_width = float(last.standard_error.mean()) if is_read else None
    return Detection(mechanism, epsilon, bins, found["harmful"], found["harmless"][-1], half_width)


def is_harmful(
    analysis: ShareSums, period: int, reports_a_period: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return per run whether `evaluate_guardrail` says HARMFUL; every device has reported in every period so far."""
    found = share_difference(analysis, reports_per_device=period)
    factor = one_sided_critical_value(reports=reports_a_period * period, alpha=ALPHA, planned_reports=reports_a_period)
    return np.asarray(
        (found.value - factor * found.standard_error > MARGIN) & (found.size_variation <= MAX_SIZE_VARIATION)
    )
