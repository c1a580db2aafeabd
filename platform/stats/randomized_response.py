"""Estimates an `Aggregate` from the counted cells of randomized responses.

Each device answers with its own cell with probability p and with each other cell with probability q < p. From the
counts c of n answers, (c - n q) / (p - q) estimates the true counts t without bias. Its covariance splits in two:

    n (diag(mu) - mu mu') / (p - q)^2    =    E[noise(t)]             +    n (diag(pi) - pi pi')
    all that varies over new devices          the response, given t        sampling of the devices

with pi the cells' probabilities and mu = q + (p - q) pi. Only `noise(t)` belongs into the aggregate. Given
t, the answers of the devices in cell j are multinomial with probabilities P_j (p at j, q elsewhere), so

    noise(t) = sum_j t_j (diag(P_j) - P_j P_j') / (p - q)^2

which is linear in t: the estimates stand in for t.  An answer that names a set of cells (subset selection) has
probabilities of pairs of cells besides; `privacy/subset_selection.py` has the formula.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from alcove.platform.stats.aggregate import Aggregate
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.limits import MAX_CELLS
from alcove.privacy.errors import ParameterError
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.subset_selection import SubsetSelection
from alcove.registry.policy.layout import HistogramLayout


def aggregate_from_randomized_response(
    counts: Sequence[int], layout: HistogramLayout, *, epsilon: Fraction, subset_size: int = 1
) -> Aggregate:
    """Return the aggregate that the randomized answers estimate.

    Args:
        counts: answers that named each cell, integers >= 0.
        layout: the cells that can occur, with at least 2 outcomes in the full array; the aggregate's bins are those of
            latency times those of the covariate (`pre_period.py`).
        epsilon: privacy loss of one answer, as in the task the devices answered; bounds in privacy/limits.py.
        subset_size: cells that one answer names, as in the task (subset selection where there are more than one).

    Raises:
        ArgumentError: layout, epsilon or subset size is out of bounds, or the counts don't match the cells, are
            negative, or are of no whole answers.
        AggregateError: more reports than an aggregate may hold.

    Source: privacy/randomized_response.py and privacy/subset_selection.py (estimate, covariance given the true cells);
    see the module's docstring.
    """
    if layout.outcomes < 2:
        raise ArgumentError("layout", "of at least 2 outcomes", layout.outcomes)
    cells = layout.cell_count
    if cells > MAX_CELLS:
        raise ArgumentError("layout", f"of at most {MAX_CELLS} cells", cells)
    integers = [int(count) for count in counts]
    if len(integers) != cells:
        raise ArgumentError("counts", f"{cells} cells", f"{len(integers)} cells")
    if min(integers) < 0:
        raise ArgumentError("counts", "at least 0 in every cell", min(integers))
    if subset_size < 1 or sum(integers) % subset_size:
        raise ArgumentError("counts", f"a multiple of {subset_size} together", sum(integers))
    try:
        single = subset_size == 1
        mechanism = RandomizedResponse(cells, epsilon) if single else SubsetSelection(cells, epsilon, subset_size)
        estimates, covariance = mechanism.estimate(integers), mechanism.covariance(integers)
    except ParameterError as error:
        raise ArgumentError(error.name, error.bound, error.value) from error
    return Aggregate(
        estimates=layout.expand(np.asarray(estimates, dtype=np.float64)).reshape(*layout.shape[:2], -1),
        noise_covariance=layout.expand_covariance(np.asarray(covariance, dtype=np.float64)),
        reports=sum(integers) // subset_size,
    )
