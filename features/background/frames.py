"""Brings frames of any size to the size of the program, and mattes back to the size of the frame.

A frame is made smaller as a whole and keeps its shape: what a frame of 4:3 or an upright one leaves free of 16:9 is
filled with its border pixels, and is cut away from the matte.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from alcove.features.background.config import HEIGHT, WIDTH
from alcove.features.picture import check_colors, resize
from alcove.runtime import _native
from numpy.typing import NDArray

__all__ = ["Place", "check_frame", "grow", "grow_part", "inside", "part_of", "place_of", "resize", "shrink", "to_bytes"]

LEVELS: Final = 255
CERTAIN: Final = 0.04
"""What is nearer than this to nobody or somebody counts as that: no trace of a hidden room, nothing to mix there."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a frame lies in the program's picture.

    Attributes:
        top: first row.
        left: first column.
        height: rows, 1 to `config.HEIGHT`.
        width: columns, 1 to `config.WIDTH`.
    """

    top: int
    left: int
    height: int
    width: int


def check_frame(pixels: Any) -> NDArray[np.uint8]:
    """Return the pixels of a frame, row by row in memory; without a copy where they lie so.

    Args:
        pixels: uint8 [height, width, 3], red, green, blue, with any strides; 1 x 1 to 64 million pixels.

    Raises:
        PictureError: grey, with alpha, of another type, without pixels or with too many.
    """
    check_colors(pixels)
    found: NDArray[np.uint8] = np.ascontiguousarray(pixels)
    return found


def place_of(height: int, width: int) -> Place:
    """Return where a frame of a size lies in the program's picture."""
    scale = min(HEIGHT / height, WIDTH / width)
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    return Place((HEIGHT - rows) // 2, (WIDTH - columns) // 2, rows, columns)


def shrink(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return what the program takes of a frame, uint8 [HEIGHT, WIDTH, 3].

    Args:
        pixels: of `check_frame`.
    """
    place = place_of(*pixels.shape[:2])
    small = resize(pixels, place.height, place.width)
    below, right = HEIGHT - place.height - place.top, WIDTH - place.width - place.left
    if not (below or right or place.top or place.left):
        return small
    return np.pad(small, ((place.top, below), (place.left, right), (0, 0)), mode="edge")


def inside(matte: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Return the part of a matte [HEIGHT, WIDTH] that belongs to a frame of a size; a view."""
    place = place_of(height, width)
    return matte[place.top : place.top + place.height, place.left : place.left + place.width]


def to_bytes(matte: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return alpha of [0, 1] as 0 to 255, with values near the ends as the ends."""
    found: NDArray[np.uint8] = np.rint(np.clip((matte - CERTAIN) / (1 - 2 * CERTAIN), 0, 1) * LEVELS).astype(np.uint8)
    return found


def part_of(own: NDArray[np.uint8], height: int, width: int) -> tuple[slice, slice] | None:
    """Return the rows and columns of a frame outside of which alpha, spread over it, is 0; None where all of it is.

    Args:
        own: alpha uint8 [rows, columns].
        height: of the frame.
        width: of the frame.
    """
    rows, columns = (np.flatnonzero(own.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return None
    return _spread(rows, own.shape[0], height), _spread(columns, own.shape[1], width)


def _spread(covered: NDArray[np.intp], length: int, size: int) -> slice:
    """Return the pixels of `size` to which the cells of `length` give something: half a cell beyond their edges."""
    first, last = (int(covered[0]) - 0.5) * size / length, (int(covered[-1]) + 1.5) * size / length
    return slice(max(0, int(first)), min(size, int(np.ceil(last))))


def grow_part(own: NDArray[np.uint8], height: int, width: int, part: tuple[slice, slice]) -> NDArray[np.uint8]:
    """Return what `grow` does, of some rows and columns alone."""
    if height < own.shape[0] or width < own.shape[1]:
        return grow(own, height, width)[part]
    down, down_weights = _between(own.shape[0], height)
    across, across_weights = _between(own.shape[1], width)
    colors = np.repeat(own[..., None], 3, axis=2)
    return _native.resample(colors, down[part[0]], down_weights[part[0]], across[part[1]], across_weights[part[1]])


@lru_cache(maxsize=32)
def _between(length: int, size: int) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return the cell before the middle of each of `size` pixels, and what it and the next one count."""
    middle = np.clip((np.arange(size) + 0.5) * (length / size) - 0.5, 0, length - 1)
    first = np.minimum(middle.astype(np.int64), max(0, length - 2))
    share = middle - first
    weights = np.stack([1 - share, share], axis=1) if length > 1 else np.ones((size, 1))
    return first.astype(np.uint32), weights.astype(np.float32)


def grow(alpha: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return alpha at another size, linear between the middles of pixels, three times side by side as colors lie.

    Args:
        alpha: uint8 [rows, columns].
        height: of the result, uint8 [height, width, 3].
        width: of the result.
    """
    return resize(np.repeat(alpha[..., None], 3, axis=2), height, width)
