"""Tests whether a difference is the same in all strata: Cochran's Q.

With differences d_s of independent strata, standard errors e_s and weights w_s = 1 / e_s^2,

    Q = sum w_s (d_s - d)^2,   d = sum w_s d_s / sum w_s,

has the chi-squared distribution of S - 1 degrees of freedom where all strata have one true difference.  It holds at one
reading, not at many; few strata find little, so that a large p-value does not say that they are alike.

Source: Cochran, "The combination of estimates from different experiments", Biometrics 1954.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alcove.platform.stats.errors import ArgumentError

__all__ = ["Heterogeneity", "cochran_q"]


@dataclass(frozen=True)
class Heterogeneity:
    """Whether an arm's difference from the control is the same in all strata.

    Attributes:
        arm: index of the arm.
        q: Cochran's Q.
        degrees: of freedom, strata less 1.
        p: chance of as large a Q where all strata have one difference.
    """

    arm: int
    q: float
    degrees: int
    p: float


def cochran_q(arm: int, values: Sequence[float], standard_errors: Sequence[float]) -> Heterogeneity:
    """Return Cochran's Q of the differences of an arm.

    Args:
        arm: index of the arm.
        values: difference in each stratum, at least two, finite.
        standard_errors: of each, sampling and noise together, positive and finite.

    Raises:
        ArgumentError: fewer than two strata, another number of standard errors, or a number that is none.
    """
    if len(values) < 2 or len(values) != len(standard_errors):
        raise ArgumentError("values", "at least two, each with its standard error", len(values))
    if not all(map(math.isfinite, values)):
        raise ArgumentError("values", "finite", tuple(values))
    if not all(math.isfinite(error) and error > 0.0 for error in standard_errors):
        raise ArgumentError("standard_errors", "positive and finite", tuple(standard_errors))
    weights = [error**-2 for error in standard_errors]
    mean = math.fsum(w * value for w, value in zip(weights, values, strict=True)) / math.fsum(weights)
    q = math.fsum(w * (value - mean) ** 2 for w, value in zip(weights, values, strict=True))
    degrees = len(values) - 1
    return Heterogeneity(arm, q, degrees, _chi_squared_tail(q, degrees))


def _chi_squared_tail(q: float, degrees: int) -> float:
    """Return the chance that a chi-squared variable exceeds q, by the recursion of the incomplete gamma function."""
    half = 0.5 * q
    if degrees % 2:
        tail, term, place = math.erfc(math.sqrt(half)), math.sqrt(half / math.pi) * 2.0 * math.exp(-half), 1.5
    else:
        tail, term, place = math.exp(-half), half * math.exp(-half), 2.0
    for _ in range((degrees - 1) // 2):
        tail += term
        term *= half / place
        place += 1.0
    return min(tail, 1.0)
