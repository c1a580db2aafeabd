"""Bounds expressions of sizes over boxes of symbols, by intervals: what no size within the box exceeds.

An interval is wide where an expression is not monotone, so boxes are halved where that may lower the bound: branch and
bound.  What is left when there are too many boxes is still a bound, of what is a little more than needed.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from alcove.runtime.compiler.expressions import ON_ARRAYS, Expression, Vector
from numpy.typing import NDArray

MOST_BOXES: Final = 2**14
"""Boxes that are halved at a time; beyond, the bound stays what it is."""
_ROUNDS: Final = 96
"""Enough for six symbols of 2^16 sizes each, one box of which is halved down to a single choice."""

Interval = tuple[Vector, Vector]
Floats = NDArray[np.float64]


def most_elements(sizes: Sequence[Expression | int], low: Sequence[int], high: Sequence[int]) -> int:
    """Return a number that the product of `sizes` exceeds nowhere; the most it has, unless that takes too many boxes.

    Args:
        sizes: dimensions of a tensor, 1 or more at all sizes.
        low: smallest size of each symbol.
        high: largest size of each symbol.
    """
    lows, highs = np.array([low], dtype=np.int64), np.array([high], dtype=np.int64)
    best, least = 0.0, 0.0  # reached by some sizes; a bound of boxes that are no longer looked at
    for _ in range(_ROUNDS):
        above = _product(sizes, lows, highs)
        middles = (lows + highs) // 2
        best = max(best, *(float(_product(sizes, at, at).max()) for at in (lows, middles, highs)))
        open_boxes = (above > best) & (highs > lows).any(axis=1)
        closed = above[~open_boxes]
        least = max(least, float(closed.max()) if len(closed) else 0.0)
        lows, highs, above = lows[open_boxes], highs[open_boxes], above[open_boxes]
        if len(lows) == 0:
            return int(max(best, least))
        if len(lows) > MOST_BOXES:
            break
        lows, highs = _halve(lows, highs)
    return int(max(best, least, float(_product(sizes, lows, highs).max())))


def _halve(lows: Vector, highs: Vector) -> Interval:
    """Return each box in two halves, along its widest symbol."""
    rows = np.arange(len(lows))
    widest = (highs - lows).argmax(axis=1)
    middle = (lows[rows, widest] + highs[rows, widest]) // 2
    upper, lower = lows.copy(), highs.copy()
    lower[rows, widest] = middle
    upper[rows, widest] = middle + 1
    return np.concatenate([lows, upper]), np.concatenate([lower, highs])


def _product(sizes: Sequence[Expression | int], lows: Vector, highs: Vector) -> Floats:
    """Return the upper bound of the product over each box; of more than 2^53 a rounded one, which no arena holds."""
    above = np.ones(len(lows))
    for size in sizes:
        most = interval_of(size, lows, highs)[1] if isinstance(size, Expression) else np.array(size)
        above = above * np.maximum(most, 0)
    return above


def interval_of(expression: Expression, lows: Vector, highs: Vector) -> Interval:
    """Return the least and the most that an expression may be over each box, a row of `lows` and `highs`.

    The divisor of a quotient or remainder is 1 or more wherever a device computes it.
    """
    if not isinstance(expression.a, Expression):
        if expression.kind == "symbol":
            return lows[:, expression.a], highs[:, expression.a]
        number = np.full(len(lows), expression.a, dtype=np.int64)
        return number, number
    if expression.b is None:
        raise ValueError(expression.kind)
    a, b = interval_of(expression.a, lows, highs), interval_of(expression.b, lows, highs)
    if expression.kind in {"floordiv", "mod"}:
        b = np.maximum(b[0], 1), np.maximum(b[1], 1)
    if expression.kind == "sub":
        return a[0] - b[1], a[1] - b[0]
    if expression.kind == "mod":
        # Within one multiple of the divisor the remainder rises with the number; else it may be any.
        is_one = (b[0] == b[1]) & (a[0] // b[0] == a[1] // b[0])
        return np.where(is_one, a[0] % b[0], 0), np.where(is_one, a[1] % b[0], b[1] - 1)
    function = ON_ARRAYS[expression.kind]
    ends = np.stack([function(one, other) for one in a for other in b])
    least: Vector = ends.min(axis=0)
    most: Vector = ends.max(axis=0)
    return least, most
