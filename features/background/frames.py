"""Brings frames of any size to the size of the program, and mattes back to the size of the frame.

A frame is made smaller as a whole and keeps its shape: what a frame of 4:3 or an upright one leaves free of 16:9 is
filled with its border pixels, and is cut away from the matte.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from alcove.features.background.config import HEIGHT, WIDTH
from alcove.features.cutouts.picture import check_pixels
from alcove.features.photo_enhance.picture import resize
from numpy.typing import NDArray

__all__ = ["Place", "check_frame", "grow", "place_of", "shrink", "to_bytes"]

LEVELS: Final = 255


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
    check_pixels(pixels)
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
    """Return alpha of [0, 1] as 0 to 255."""
    return np.rint(np.clip(matte, 0, 1) * LEVELS).astype(np.uint8)


def grow(alpha: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return alpha at another size, linear between the middles of pixels, three times side by side as colors lie.

    Args:
        alpha: uint8 [rows, columns].
        height: of the result, uint8 [height, width, 3].
        width: of the result.
    """
    return resize(np.repeat(alpha[..., None], 3, axis=2), height, width)
