"""Corrects p-values for several arms and metrics (Bonferroni, Holm), and computes always-valid p-values.

`holm` and `bonferroni` turn p-values into adjusted ones whose comparison with alpha keeps the chance of any false
finding below alpha, whatever the dependence. With always-valid p-values (`always_valid_p`) that holds at every
analysis.

Sources: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 1979;
always-valid p-values: Johari, Koomen, Pekelis and Walsh, "Always valid inference", Operations Research 2022: the
smallest alpha at which the confidence sequence of `confidence_sequence.py` (its rho fixed) leaves zero out: one over
the mixture's likelihood ratio.
"""

import math
from collections.abc import Sequence
from enum import StrEnum

from alcove.platform.stats.confidence_sequence import rho_squared
from alcove.platform.stats.errors import ArgumentError


class Correction(StrEnum):
    """Division of the error among all pairs of arms."""

    BONFERRONI = "bonferroni"
    """Each pair gets an equal part: an arm wins where its simultaneous intervals exclude zero."""
    HOLM = "holm"
    """Step by step, the surest pair first: never fewer wins, and nothing to show as an interval."""


def adjust_p_values(p_values: Sequence[float | None], correction: Correction) -> tuple[float | None, ...]:
    """Return adjusted p-values in the order given; None stays None and counts as 1.

    Raises:
        ArgumentError: a p-value is not in [0, 1].
    """
    adjust = holm if correction is Correction.HOLM else bonferroni
    found = adjust([1.0 if value is None else value for value in p_values])
    return tuple(None if p is None else value for p, value in zip(p_values, found, strict=True))


def bonferroni(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return adjusted p-values: each times their number, at most 1.

    Raises:
        ArgumentError: a p-value is not in [0, 1].
    """
    _validate(p_values)
    return tuple(min(1.0, value * len(p_values)) for value in p_values)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p-values, in the order given: never above Bonferroni's.

    Raises:
        ArgumentError: a p-value is not in [0, 1].
    """
    _validate(p_values)
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return tuple(adjusted)


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


def _validate(p_values: Sequence[float]) -> None:
    for value in p_values:
        if not 0.0 <= value <= 1.0:
            raise ArgumentError("p_values", "each in [0, 1]", value)
