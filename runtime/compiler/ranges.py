"""Lists the sizes at which a program is checked: all of a short range, a dense sample of a long one."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from alcove.runtime.compiler.capture import Symbol

ALL_OF_ONE: Final = 4096
"""A symbol that has no more sizes takes each of them."""
ALL_TOGETHER: Final = 2**13
"""Symbols that have no more sizes together take each combination."""
_NEAR: Final = 17
"""Sizes on each side of an end or a border: kernels work in rows of 16."""
_SEED: Final = 20240229

Rows = NDArray[np.int64]
"""One row for each choice of sizes, a column for each symbol."""


def rows_of(symbols: "Sequence[Symbol]", borders: Sequence[Sequence[int]] = (), *, most: int = ALL_OF_ONE) -> Rows:
    """Return choices of sizes within the bounds of `symbols`, each once, the same at every call.

    Args:
        symbols: at least one.
        borders: rows around which the sizes are close, such as the bounds of buckets.
        most: sizes of a single symbol up to which it takes them all.
    """
    ladders = [
        _ladder(symbol.minimum, symbol.maximum, [row[place] for row in borders], most)
        for place, symbol in enumerate(symbols)
    ]
    if len(ladders) == 1:
        return ladders[0][:, None]
    if np.prod([float(len(ladder)) for ladder in ladders]) <= ALL_TOGETHER:
        return _combine(ladders)
    corners = ([ladder[0] for ladder in ladders], [lad[len(lad) // 2] for lad in ladders], [lad[-1] for lad in ladders])
    parts = [_one_by_one(ladders, corner) for corner in corners]
    few = int(ALL_TOGETHER ** (1 / len(ladders)))
    parts.append(_combine([_spread(ladder, few) for ladder in ladders]))
    random = np.random.default_rng(_SEED)
    parts.append(np.stack([random.choice(ladder, ALL_TOGETHER // 4) for ladder in ladders], 1))
    return np.unique(np.concatenate(parts), axis=0)


def _ladder(low: int, high: int, borders: Sequence[int], most: int) -> Rows:
    """Return the sizes of one symbol, rising."""
    if high - low < most:
        return np.arange(low, high + 1)
    ends = [np.arange(low, low + most // 4), np.arange(high - most // 16, high + 1)]
    near = [np.arange(border - _NEAR, border + _NEAR + 1) for border in borders]
    powers = [2**power + np.arange(-1, 2) for power in range(high.bit_length())]
    spread = np.linspace(low, high, most // 2).astype(np.int64)
    found = np.unique(np.concatenate([*ends, *near, *powers, spread]))
    return found[(found >= low) & (found <= high)]


def _spread(ladder: Rows, count: int) -> Rows:
    """Return the first sizes of a ladder, its last ones, and some between."""
    if len(ladder) <= count:
        return ladder
    quarter = count // 4
    between = ladder[np.linspace(0, len(ladder) - 1, count - 2 * quarter).astype(np.int64)]
    return np.unique(np.concatenate([ladder[:quarter], between, ladder[-quarter:] if quarter else between]))


def _combine(ladders: Sequence[Rows]) -> Rows:
    return np.array(list(product(*(ladder.tolist() for ladder in ladders))), dtype=np.int64)


def _one_by_one(ladders: Sequence[Rows], corner: Sequence[int]) -> Rows:
    """Return every size of each symbol while the others stay in `corner`."""
    parts = []
    for place, ladder in enumerate(ladders):
        rows = np.tile(np.array(corner, dtype=np.int64), (len(ladder), 1))
        rows[:, place] = ladder
        parts.append(rows)
    return np.concatenate(parts)
