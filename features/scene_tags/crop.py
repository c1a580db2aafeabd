"""Chooses the part of a picture to keep when there is room for a part only.

The program gives a map of where the tags come from, a few cells wide (class activation: Zhou et al., "Learning deep
features for discriminative localization", 2016).  It is coarse; what is computed from it is no better.
"""

from functools import cache
from typing import Any, Final

import numpy as np
from alcove.features.region import Region
from numpy.typing import NDArray

KEPT: Final = 0.7
"""Share of the map that a box without a given aspect holds."""
PLACES: Final = 49
"""Places of a window that are tried along a picture; odd, so that the middle is one."""


class Crop(Region):
    """A part of a picture to keep."""

    __slots__ = ()


def box_of(saliency: NDArray[Any], share: float = KEPT) -> Crop:
    """Return the smallest box of whole cells that holds `share` of a map; the whole picture where the map is empty.

    Of boxes as small, the one that holds the most, then the first from the upper left.

    Args:
        saliency: f32 [rows, columns], >= 0.
        share: in (0, 1].
    """
    rows, columns = saliency.shape
    sums = _sums(saliency)
    if not sums[-1, -1] > 0:
        return Crop(left=0, top=0, right=1, bottom=1)
    top, bottom = _spans(rows)
    left, right = _spans(columns)
    between = sums[bottom] - sums[top]
    held = between[:, right] - between[:, left]
    cells = np.where(held >= share * sums[-1, -1], _cells(rows, columns), rows * columns)
    # Rounding may keep the whole map from holding all of itself.
    row, column = divmod(int(np.argmax(np.where(cells == cells.min(), held, -1.0))), len(left))
    return Crop(
        left=left[column] / columns, top=top[row] / rows, right=right[column] / columns, bottom=bottom[row] / rows
    )


@cache
def _spans(length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first and end of every run of cells in a row of them."""
    first, end = np.triu_indices(length)
    return first, end + 1


@cache
def _cells(rows: int, columns: int) -> NDArray[np.int64]:
    """Return the number of cells of each box: of each run of rows and run of columns."""
    (top, bottom), (left, right) = _spans(rows), _spans(columns)
    found: NDArray[np.int64] = np.multiply.outer(bottom - top, right - left)
    return found


def window_of(saliency: NDArray[Any], width: int, height: int, aspect: float) -> Crop:
    """Return the largest part of a picture with a given aspect, where it holds the most of a map.

    Of places that hold as much, the one nearest to the middle.

    Args:
        saliency: f32 [rows, columns], >= 0.
        width: of the picture, in pixels, >= 1.
        height: of the picture, in pixels, >= 1.
        aspect: width over height of the part, > 0.

    Raises:
        ValueError: the aspect is not a positive, finite number, or the picture has no pixels.
    """
    if not (np.isfinite(aspect) and aspect > 0):
        raise ValueError(f"aspect must be a positive number, width over height, not {aspect}")
    if width < 1 or height < 1:
        raise ValueError(f"a picture has at least one pixel, not {width} x {height}")
    wide, high = min(1.0, aspect * height / width), min(1.0, width / (aspect * height))
    left = _best_place(saliency.sum(axis=0), wide)
    top = _best_place(saliency.sum(axis=1), high)
    return Crop(left=left, top=top, right=min(1.0, left + wide), bottom=min(1.0, top + high))


def _sums(saliency: NDArray[Any]) -> NDArray[np.float64]:
    rows, columns = saliency.shape
    sums = np.zeros((rows + 1, columns + 1))
    sums[1:, 1:] = saliency.cumsum(axis=0).cumsum(axis=1)
    return sums


def _best_place(values: NDArray[Any], length: float) -> float:
    """Return where a stretch of `length` (a share of the whole) holds the most of `values`, cells of equal width."""
    if length >= 1.0:
        return 0.0
    edges = np.linspace(0, 1, len(values) + 1)
    before = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    places = np.linspace(0, 1 - length, PLACES)
    held = np.interp(places + length, edges, before) - np.interp(places, edges, before)
    near = held >= held.max() - 1e-6 * max(1e-12, float(before[-1]))
    from_middle = np.abs(np.arange(PLACES) - PLACES // 2)
    return float(places[np.argmin(np.where(near, from_middle, PLACES))])
