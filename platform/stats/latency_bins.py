"""Says what latency bins can show: which outcomes have a latency, which differences edges resolve, which edges would.

A quantile lies in some bin, and counts do not say where in it (`quantiles.py`). Two arms whose quantiles are in one bin
may differ by anything below its width, so that a difference is shown to be below a margin only where bins are no wider
than the margin. Where the control's quantile will lie is not known beforehand; what is asked for is a stretch of
`FINE_BINS` adjacent bins that are fine enough: the control's quantile, the uncertainty of one bin to each side of it,
and one margin above it fit in. A share of answers slower than an edge needs none of this: counts tell it exactly.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Final

from alcove.platform.stats.errors import ArgumentError
from alcove.registry.limits import LATENCY_EDGES_MAX
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY, Outcome

FINE_BINS: Final = 4
"""Adjacent bins between two edges, none wider than the margin, that a margin in ms needs."""

EDGES_PER_MARGIN: Final = 2
"""Bins in one margin where edges are proposed: the quantile of equal arms may lie at an edge, in one of two bins."""


def answer_outcomes(outcomes: int) -> tuple[Outcome, ...]:
    """Return those of the first `outcomes` that carry a latency: answers, for errors and fallbacks have none."""
    return tuple(outcome for outcome in Outcome if outcome in OUTCOMES_WITH_LATENCY and outcome < outcomes)


def validate_edges(edges_ms: Sequence[float], bins: int) -> tuple[float, ...]:
    """Return the inner edges of the bins in ms, or raise `ArgumentError`."""
    edges = tuple(float(edge) for edge in edges_ms)
    if len(edges) != bins - 1 or not edges:
        raise ArgumentError("edges_ms", f"{max(bins - 1, 1)} edges of {bins} bins", edges)
    if any(low >= high for low, high in zip((0.0, *edges), edges, strict=False)) or not math.isfinite(edges[-1]):
        raise ArgumentError("edges_ms", "positive, finite and rising strictly", edges)
    return edges


def is_resolved(edges_ms: Sequence[float], difference_ms: float) -> bool:
    """Return whether bins with these inner edges can show that a quantile differs by less than `difference_ms`."""
    stretch = 0
    for low, high in itertools.pairwise(edges_ms):
        stretch = stretch + 1 if high - low <= difference_ms * (1.0 + 1e-9) else 0
        if stretch == FINE_BINS:
            return True
    return False


def propose_edges(difference_ms: float, around_ms: float) -> tuple[float, ...]:
    """Return edges that resolve `difference_ms` for a control's quantile near `around_ms`, as many as a task may have.

    They are half a difference apart, from two differences below to three above where there is room.

    Raises:
        ArgumentError: an argument is not positive and finite.
    """
    for name, value in (("difference_ms", difference_ms), ("around_ms", around_ms)):
        if not (math.isfinite(value) and value > 0.0):
            raise ArgumentError(name, "positive and finite", value)
    step = difference_ms / EDGES_PER_MARGIN
    first = max(around_ms - 2.0 * difference_ms, step)
    count = min(5 * EDGES_PER_MARGIN + 1, LATENCY_EDGES_MAX)
    return tuple(round(first + place * step, 3) for place in range(count))


def explain_resolution(edges_ms: Sequence[float], difference_ms: float) -> str:
    """Return what edges must be for `difference_ms`, with edges that would do, around the middle of those given."""
    middle = edges_ms[len(edges_ms) // 2] if edges_ms else 10.0 * difference_ms
    proposed = ", ".join(f"{edge:g}" for edge in propose_edges(difference_ms, middle))
    return (
        f"{FINE_BINS + 1} neighboring edges no further apart than {difference_ms:g} ms around the control's quantile;"
        f" near {middle:g} ms such as {proposed}"
    )
