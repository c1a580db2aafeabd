"""Integrates what is left of a Brownian motion whose scores are compared with a bound at each of a few analyses.

`Uncalled` is the distribution of S_k = Z_k sqrt(I_k) where no analysis has called yet; the recursion and its sources
are those of `group_sequential.py`. A two-sided test calls beyond a bound on either side, a one-sided one above it only.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self, cast

import numpy as np
from alcove.platform.stats.aggregate import FloatArray

FARTHEST = 8.0
"""Standard deviations; beyond lies less than 1e-15."""

_POINTS_PER_DEVIATION = 6  # Simpson's rule is then good to 1e-6 (tests)
_BOUND_PRECISION = 1e-12  # standard deviations
_LEAST_MASS = 1e-300  # stands for none, which has no logarithm


@dataclass(frozen=True, eq=False)
class Uncalled:
    """The distribution of S among runs that no analysis has called: masses, with Simpson's weights, at points."""

    information: float
    points: FloatArray
    masses: FloatArray

    @classmethod
    def start(cls) -> Self:
        return cls(0.0, np.zeros(1), np.ones(1))

    def beyond(self, information: float, bound: float, *, drift_rate: float = 0.0) -> float:
        """Return the mass whose score at a later time exceeds `bound` standard deviations."""
        from scipy.special import erfc  # noqa: PLC0415 - a quarter of a second, and only analyses need it

        step = information - self.information
        edges = bound * math.sqrt(information) - self.points - drift_rate * step
        return 0.5 * float(self.masses @ erfc(edges / math.sqrt(2.0 * step)))

    def boundary(self, information: float, mass: float) -> float:
        """Return the bound that `mass` exceeds, where S is symmetric; 0 where less than that is left.

        Searched on the logarithm, which is nearly a parabola, below the bound of a run that nothing stopped.
        """
        from scipy.optimize import brentq  # noqa: PLC0415 - a third of a second, and only planned analyses need it

        def excess(bound: float) -> float:
            return math.log(max(self.beyond(information, bound), _LEAST_MASS) / mass)

        if excess(0.0) <= 0.0:
            return 0.0
        highest = 1.0 - NormalDist().inv_cdf(mass)
        return cast("float", brentq(excess, 0.0, highest, xtol=_BOUND_PRECISION))  # without `full_output` it is one

    def after(
        self,
        information: float,
        bound: float,
        *,
        following: float,
        drift_rate: float = 0.0,
        is_one_sided: bool = False,
    ) -> "Uncalled":
        """Return what is left after an analysis, on a grid fine enough for the step to the one `following`."""
        step = information - self.information
        limit = min(bound, FARTHEST) * math.sqrt(information)
        spacing = math.sqrt(min(step, following - information)) / _POINTS_PER_DEVIATION
        centre = drift_rate * information if math.isinf(bound) else 0.0  # only what is not cut off may be moved
        low, high = centre - limit, centre + limit
        if is_one_sided:
            reach, mean = FARTHEST * math.sqrt(information), drift_rate * information
            high = min(bound * math.sqrt(information), mean + reach)
            low = min(mean - reach, high - reach)
        half = max(math.ceil((high - low) / (2.0 * spacing)), 4)
        points = np.linspace(low, high, 2 * half + 1)
        weights = np.full(2 * half + 1, 2.0)
        weights[1::2], weights[0], weights[-1] = 4.0, 1.0, 1.0
        gaps = (points[:, None] - self.points[None, :] - drift_rate * step) ** 2 / (2.0 * step)
        density = np.exp(-gaps) @ self.masses / math.sqrt(2.0 * math.pi * step)
        return Uncalled(information, points, density * weights * ((high - low) / (2 * half) / 3.0))
