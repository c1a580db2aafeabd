"""Computes the chance that a sequence of analyses calls a difference, for any size of the difference.

The scores of K analyses are those of a Brownian motion: S_k = Z_k sqrt(t_k), with t_k the information at analysis k in
parts of the last one and a drift of the expected score at the last analysis. A difference is called at the first
analysis with Z_k >= c_k. What is left where nothing was called yet is integrated once for each sequence of bounds, and
without drift (`_crossing.py`); a drift theta multiplies its density by exp(theta s - theta^2 t / 2) (Girsanov), so that
any number of differences cost little more than one.

Sources: Armitage, McPherson and Rowe, JRSS A 1969; Jennison and Turnbull, Group Sequential Methods, 2000, chapter 19. A
call in the wrong direction is not counted as an end: where power is planned it is rarer than 1 in 10^4.
"""

import math
from functools import lru_cache

import numpy as np
from alcove.platform.stats._crossing import Uncalled
from alcove.platform.stats.errors import ArgumentError

MERGED_INCREMENT = 2e-3
"""Of the information: nearer analyses are read as one, with the lower of their bounds."""

_LARGEST_SCORE = 12.0  # larger ones are called for sure
_PRECISION = 1e-7


class PowerCurve:
    """The chance that one of several analyses calls a difference, by the score that is expected of it at the last.

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
        self._steps: list[tuple[Uncalled, float, float]] = []
        state = Uncalled.start()
        for place, (reached, bound) in enumerate(zip(information, bounds, strict=True)):
            self._steps.append((state, reached, bound))
            if place + 1 < len(information):
                state = state.after(reached, bound, following=information[place + 1], is_one_sided=True)

    def power(self, score: float) -> float:
        """Return the chance that some analysis calls a difference whose expected score at the last one is `score`."""
        from scipy.special import erfc  # noqa: PLC0415 - a quarter of a second, and only plans need it

        if score > _LARGEST_SCORE and any(map(math.isfinite, [bound for _, _, bound in self._steps])):
            return 1.0
        total = 0.0
        for state, reached, bound in self._steps:
            if not math.isfinite(bound):
                continue
            step = reached - state.information
            edges = bound * math.sqrt(reached) - state.points - score * step
            weights = state.masses * np.exp(score * state.points - score * score * state.information / 2.0)
            total += 0.5 * float(weights @ erfc(edges / math.sqrt(2.0 * step)))
        return min(total, 1.0)

    def score(self, power: float) -> float:
        """Return the expected score at the last analysis of a difference that is called with probability `power`.

        Raises:
            ArgumentError: power not in [0.5, 1).
        """
        if not 0.5 <= power < 1.0:
            raise ArgumentError("power", "in [0.5, 1)", power)
        low, high = 0.0, _LARGEST_SCORE
        while high - low > _PRECISION:
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.power(middle) < power else (low, middle)
        return high


@lru_cache(maxsize=512)
def _power_curve(information: tuple[float, ...], bounds: tuple[float, ...]) -> PowerCurve:
    return PowerCurve(information, bounds)


def power_curve_of(information: tuple[float, ...], bounds: tuple[float, ...]) -> PowerCurve:
    """Return the curve of analyses at any scale of the information, those that are nearly one read as one.

    Args:
        information: at each analysis, never falling, the last > 0.
        bounds: as in `PowerCurve`.
    """
    kept: list[tuple[float, float]] = []
    for reached, bound in zip(information, bounds, strict=True):
        part = round(reached / information[-1], 4)
        if kept and part - kept[-1][0] < MERGED_INCREMENT:
            kept[-1] = (part, min(bound, kept[-1][1]))
        else:
            kept.append((max(part, 1e-4), bound))
    kept[-1] = (1.0, kept[-1][1])
    return _power_curve(tuple(part for part, _ in kept), tuple(round(bound, 9) for _, bound in kept))
