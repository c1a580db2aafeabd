"""Simulates the private aggregates of many fleets at once, on arrays.

A run is a fleet of two equal-sized arms that is looked at after each window. Sums are those of
`platform/stats/_shares.py`: events and base of treatment and control, cumulative over the analyses.
"""

import math
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats._shares import ShareSums
from alcove.platform.stats.aggregate import Aggregate, FloatArray


@dataclass(frozen=True, eq=False)
class CumulativeSums:
    """Cumulative sums of many runs.

    Attributes:
        sums: float64 [runs, analyses, 4].
        noise: float64 [analyses, 4, 4]: covariance of the noise in them, the same for every run.
        reports: int [analyses], in both arms.
    """

    sums: FloatArray
    noise: FloatArray
    reports: tuple[int, ...]

    def shares(self, *, is_noise_known: bool = True) -> ShareSums:
        """Return what the statistics read; without the noise for a naive reading."""
        return ShareSums(self.sums, self.noise if is_noise_known else np.zeros_like(self.noise))

    def aggregate(self, run: int, analysis: int) -> Aggregate:
        """Return one analysis as the aggregate [arms, outcomes, 1] of which arm 0 is the control."""
        events_t, base_t, events_c, base_c = self.sums[run, analysis]
        counts = np.array([[[base_c - events_c], [events_c]], [[base_t - events_t], [events_t]]])
        return Aggregate(counts, np.eye(4) * self.noise[analysis, 0, 0], self.reports[analysis])


def two_cell_sums(
    rng: np.random.Generator, *, runs: int, cohorts: tuple[int, ...], rates: tuple[float, float], deviation: float
) -> CumulativeSums:
    """Return analyses of two arms whose event and non-event cells get noise of `deviation` in each window.

    The noise is the sum of two discrete Laplace variables, which has heavier tails than a normal one.

    Args:
        rng: of the simulation.
        runs: how many fleets.
        cohorts: devices per arm in each window; each device falls into either arm by chance.
        rates: of the event in treatment and control.
        deviation: standard deviation of the noise in each cell, in reports; 0 for exact counts.
    """
    treatment, control = rates
    cells = np.array([treatment, 1.0 - treatment, control, 1.0 - control]) / 2.0
    windows = np.stack([rng.multinomial(2 * cohort, cells, size=runs) for cohort in cohorts], axis=1).astype(float)
    if deviation > 0.0:
        half = 2.0 / deviation**2  # 4 a / (1 - a)^2 = deviation^2, solved for a
        stay = 1.0 + half - math.sqrt(half * half + 2.0 * half)
        drawn = rng.geometric(1.0 - stay, (2, 2, *windows.shape))
        windows += (drawn[0] - drawn[1]).sum(axis=0)
    counts = windows.cumsum(axis=1)
    sums = np.stack(
        [counts[..., 0], counts[..., 0] + counts[..., 1], counts[..., 2], counts[..., 2] + counts[..., 3]], axis=-1
    )
    block = np.array([[1.0, 1.0], [1.0, 2.0]]) * deviation**2  # an event is in its base too
    one = np.zeros((4, 4))
    one[:2, :2], one[2:, 2:] = block, block
    analyses = np.arange(1, len(cohorts) + 1)[:, None, None]
    return CumulativeSums(sums, one * analyses, tuple(int(2 * total) for total in np.cumsum(cohorts)))
