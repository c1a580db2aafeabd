"""Computes the chance that a sequence of analyses calls a difference, for any size of the difference.

The scores of K analyses are those of a Brownian motion: S_k = Z_k sqrt(t_k), with t_k the information at analysis k in
parts of the last one and a drift of the expected score at the last analysis. A difference is called at the first
analysis with Z_k >= c_k. The density of S where nothing was called yet is found by recursive integration, once for each
sequence of bounds and without drift; a drift theta multiplies it by exp(theta s - theta^2 t / 2) (Girsanov), so that
any number of drifts cost little more than one.

Sources: Armitage, McPherson and Rowe, JRSS A 1969; Jennison and Turnbull, Group Sequential Methods, 2000, chapter 19
(recursion) and section 19.2 (likelihood ratio); Simpson's rule. A call in the wrong direction is not counted as an end:
where power is planned it is rarer than 1 in 10^4.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.errors import ArgumentError

MERGED_INCREMENT = 2e-3
"""Of the information: nearer analyses are read as one, with the lower of their bounds."""

_FARTHEST = 8.0  # standard deviations; beyond lies less than 1e-15
_LARGEST_DRIFT = 12.0  # of what the grids hold; larger ones are called for sure
_POINTS_PER_DEVIATION = 6
_PRECISION = 1e-7


@dataclass(frozen=True, eq=False)
class _Uncalled:
    """The distribution of S without drift where nothing was called: masses, with Simpson's weights, at points."""

    information: float
    points: FloatArray
    masses: FloatArray


class Crossing:
    """The chances of one sequence of analyses.

    Args:
        information: at each analysis, rising, the last of them 1.
        bounds: standard errors that a difference must reach at each; infinite: nothing can be called.

    Raises:
        ArgumentError: no analyses, as many bounds as analyses are not given, or information that does not rise to 1.
    """

    def __init__(self, information: tuple[float, ...], bounds: tuple[float, ...]) -> None:
        rises = all(after > before for before, after in zip((0.0, *information), information, strict=False))
        if not information or len(information) != len(bounds) or not rises or not math.isclose(information[-1], 1.0):
            raise ArgumentError("information", "rising to 1, with one bound each", (information, bounds))
        self._steps: list[tuple[_Uncalled, float, float]] = []
        state = _Uncalled(0.0, np.zeros(1), np.ones(1))
        for place, (reached, bound) in enumerate(zip(information, bounds, strict=True)):
            self._steps.append((state, reached, bound))
            if place + 1 < len(information):
                state = _advance(state, reached, bound, information[place + 1])

    def probability(self, drift: float) -> float:
        """Return the chance that some analysis calls a difference whose expected score at the last one is `drift`."""
        from scipy.special import erfc  # noqa: PLC0415 - a quarter of a second, and only plans need it

        if drift > _LARGEST_DRIFT:
            return 1.0
        total = 0.0
        for state, reached, bound in self._steps:
            if not math.isfinite(bound):
                continue
            step = reached - state.information
            edges = bound * math.sqrt(reached) - state.points - drift * step
            weights = state.masses * np.exp(drift * state.points - drift * drift * state.information / 2.0)
            total += 0.5 * float(weights @ erfc(edges / math.sqrt(2.0 * step)))
        return min(total, 1.0)

    def drift(self, power: float) -> float:
        """Return the expected score at the last analysis of a difference that is called with probability `power`.

        Raises:
            ArgumentError: power not in [0.5, 1).
        """
        if not 0.5 <= power < 1.0:
            raise ArgumentError("power", "in [0.5, 1)", power)
        low, high = 0.0, _LARGEST_DRIFT
        while high - low > _PRECISION:
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.probability(middle) < power else (low, middle)
        return high


@lru_cache(maxsize=512)
def _crossing(information: tuple[float, ...], bounds: tuple[float, ...]) -> Crossing:
    return Crossing(information, bounds)


def crossing_of(information: tuple[float, ...], bounds: tuple[float, ...]) -> Crossing:
    """Return the chances of analyses at any scale of the information, those that are nearly one read as one.

    Args:
        information: at each analysis, never falling, the last > 0.
        bounds: as in `Crossing`.
    """
    kept: list[tuple[float, float]] = []
    for reached, bound in zip(information, bounds, strict=True):
        part = round(reached / information[-1], 4)
        if kept and part - kept[-1][0] < MERGED_INCREMENT:
            kept[-1] = (part, min(bound, kept[-1][1]))
        else:
            kept.append((max(part, 1e-4), bound))
    kept[-1] = (1.0, kept[-1][1])
    return _crossing(tuple(part for part, _ in kept), tuple(round(bound, 9) for _, bound in kept))


def _advance(state: _Uncalled, information: float, bound: float, following: float) -> _Uncalled:
    """Return what is left after an analysis, on a grid fine enough for the steps before and after it."""
    step, deviation = information - state.information, math.sqrt(information)
    spacing = math.sqrt(min(step, following - information)) / _POINTS_PER_DEVIATION
    low = -_FARTHEST * deviation
    high = min(bound * deviation, _FARTHEST * deviation + _LARGEST_DRIFT * information)
    half = max(math.ceil((high - low) / spacing / 2.0), 4)
    points = np.linspace(low, high, 2 * half + 1)
    weights = np.full(2 * half + 1, 2.0)
    weights[1::2], weights[0], weights[-1] = 4.0, 1.0, 1.0
    gaps = (points[:, None] - state.points[None, :]) ** 2 / (2.0 * step)
    density = np.exp(-gaps) @ state.masses / math.sqrt(2.0 * math.pi * step)
    return _Uncalled(information, points, density * weights * ((high - low) / (2 * half) / 3.0))
