"""Finds counts that no devices can have sent: estimates below nobody, or above everybody, by more than their noise.

Devices that follow the mechanism make every true count at least 0 and at most the number of reports, and so every share
lies in [0, 1] and every difference of shares in [-1, 1].  Estimates are unbiased and may leave those ranges, but only
by the privacy noise: sampling moves true counts, and true counts stay in range.  Who sends the same cell again and
again, unrandomized, pushes the other cells' estimates out of range; that is forgery or a broken SDK, and what such
reports say is nothing to act on.

What this does not find: a forger who randomizes as devices do is like as many devices.  Therefore reports without an
attested enrollment never halt anything, whatever they say (`rollouts/decide.py`).

Groups of cells are looked at, not single ones only, because a group's noise is less than its cells' sum: every cell,
every outcome of an arm, every arm, every outcome.  All analyses and groups together raise a false alarm with
probability `ALARM_ALPHA` at most (one-sided confidence sequences, Bonferroni; nearly normal noise is assumed, and the
sum of two Laplace variables is within the bound at these critical values).
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.confidence_sequence import one_sided_critical_value
from alcove.platform.stats.limits import ALARM_ALPHA

_ROUNDING: Final = 1e-9
"""Part of the number of reports by which float64 may be off."""


def find_impossible(
    aggregate: Aggregate, *, planned_reports: int, most_reports: float | None = None, parts: int = 1
) -> str:
    """Return a sentence that names counts no devices can have sent, with the bound and the value; "" if all are sound.

    Args:
        aggregate: the windows so far, pooled.
        planned_reports: of all arms, where the bounds are tightest, >= 1; fixed at the start.
        most_reports: that the devices which may take part can have sent; None: not known.
        parts: how many aggregates of one comparison are looked at, which share the chance of a false alarm; >= 1.

    Raises:
        ArgumentError: `planned_reports` is out of its bounds.
    """
    if most_reports is not None and aggregate.reports > most_reports:
        return f"{aggregate.reports} reports came, and the devices that may take part can send {most_reports:.0f}"
    if aggregate.reports == 0:
        return ""
    groups = list(_groups(aggregate))
    alpha = ALARM_ALPHA / (2 * len(groups) * parts)
    critical_value = one_sided_critical_value(reports=aggregate.reports, alpha=alpha, planned_reports=planned_reports)
    estimates, covariance = aggregate.estimates.ravel(), aggregate.noise_covariance
    worst, found = _ROUNDING * aggregate.reports, ""
    for name, cells in groups:
        value = float(cells @ estimates)
        half_width = critical_value * float(np.sqrt(max(float(cells @ covariance @ cells), 0.0)))
        for beyond, bound in ((-half_width - value, 0), (value - half_width - aggregate.reports, aggregate.reports)):
            if beyond > worst:
                worst = beyond
                side = "at least" if bound == 0 else "at most"
                found = (
                    f"{name} has an estimate of {value:.0f} of {aggregate.reports} reports, and can have {side} {bound}"
                    f"; privacy noise explains {half_width:.0f}"
                )
    return found


def _groups(aggregate: Aggregate) -> Iterator[tuple[str, FloatArray]]:
    """Give a name and the cells of each group, 1.0 where a cell is in it, flattened in C order."""
    shape = aggregate.estimates.shape
    arms, outcomes, bins = shape

    def cells(place: tuple[int | slice, ...]) -> FloatArray:
        mask = np.zeros(shape)
        mask[place] = 1.0
        return mask.ravel()

    everything = slice(None)
    for arm in range(arms):
        yield f"arm {arm}", cells((arm,))
        for outcome in range(outcomes):
            yield f"outcome {outcome} of arm {arm}", cells((arm, outcome))
            if bins > 1:
                for number in range(bins):
                    yield f"bin {number} of outcome {outcome} of arm {arm}", cells((arm, outcome, number))
    for outcome in range(outcomes):
        yield f"outcome {outcome}", cells((everything, outcome))
