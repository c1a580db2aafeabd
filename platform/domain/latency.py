"""Refuses what the latency bins of a plan cannot show, naming bins that would.  Pure."""

import itertools
import math

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.stats import explain_resolution, is_resolved

__all__ = ["validate_edge", "validate_resolution"]


def validate_edge(field: str, edge_ms: float, edges_ms: tuple[float, ...]) -> None:
    """Refuse a bound of slow answers that reports do not tell.

    Raises:
        InvalidFieldError: `edge_ms` is none of the edges.
    """
    if edge_ms not in edges_ms:
        raise InvalidFieldError(
            field, f"one of the latency edges {', '.join(f'{edge:g}' for edge in edges_ms)}", edge_ms
        )


def validate_resolution(field: str, difference_ms: float, edges_field: str, edges_ms: tuple[float, ...]) -> None:
    """Refuse a difference of quantiles that is finer than the bins.

    Raises:
        InvalidFieldError: it is not positive, or the bins cannot show it; the bound names edges that would.
    """
    if not (math.isfinite(difference_ms) and difference_ms > 0.0):
        raise InvalidFieldError(
            field, "above 0 ms, for no bins show less; a share slower than an edge may", difference_ms
        )
    is_rising = all(low < high for low, high in itertools.pairwise(edges_ms))  # else the task refuses the edges
    if is_rising and not is_resolved(edges_ms, difference_ms):
        raise InvalidFieldError(edges_field, explain_resolution(edges_ms, difference_ms), edges_ms)
