"""Computes p-values of differences that hold at every analysis.

Source: Johari, Koomen, Pekelis and Walsh, "Always valid inference", Operations Research 2022: the smallest alpha at
which the confidence sequence of `confidence_sequence.py` (its rho fixed) leaves zero out: one over the mixture's
likelihood ratio.
"""

import math

from alcove.platform.stats.confidence_sequence import rho_squared
from alcove.platform.stats.errors import ArgumentError


def always_valid_p(
    value: float, standard_error: float, *, reports: int, planned_reports: int, alpha: float = 0.05
) -> float:
    """Return the two-sided p-value of "no difference", valid at every analysis.

    Args:
        value: the estimated difference.
        standard_error: of it, sampling and noise, > 0.
        reports: so far, >= 0.
        planned_reports: where the test is sharpest; fixed at the start.
        alpha: the error that rho is tuned for; fixed at the start.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """
    if not (standard_error > 0.0 and math.isfinite(value)):
        raise ArgumentError("standard_error", "positive, of a finite value", (value, standard_error))
    if reports < 0:
        raise ArgumentError("reports", "at least 0", reports)
    m = reports * rho_squared(alpha=alpha, planned_reports=planned_reports)
    score = value / standard_error
    return min(1.0, math.exp(0.5 * math.log1p(m) - 0.5 * score * score * m / (1.0 + m)))
