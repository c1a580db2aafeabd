"""Fits pictures of any size into the program's frame, and brings what was painted back to their size.

The whole picture is squeezed into the frame; one that is higher than wide is turned over its diagonal first, so that
strokes are stretched by 1.8 at most for a square, and by nothing for 16:9.  What the program changed is enlarged and
added to the picture, which keeps its fine detail; at strength 0 it comes back as it was, to the bit.
"""

from typing import Final

import numpy as np
from alcove.features.picture import check_pixels, colors_of, resize
from alcove.features.style_transfer.config import COLUMNS, ROWS
from numpy.typing import NDArray

__all__ = ["fit_frame", "repaint"]

STRIP: Final = 256
"""Rows that are added at a time, so that memory does not grow with the picture."""
ALPHA: Final = 4
"""Channels of a picture with alpha."""


def fit_frame(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return what the program sees of a picture, uint8 [ROWS, COLUMNS, 3].

    Raises:
        PictureError: `check_pixels`.
    """
    lying = _lying(colors_of(check_pixels(pixels)))
    return np.ascontiguousarray(lying) if lying.shape[:2] == (ROWS, COLUMNS) else resize(lying, ROWS, COLUMNS)


def repaint(painted: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture with what the program changed, uint8 [height, width, 3], or 4 where it has alpha, as it was.

    Args:
        painted: uint8 [ROWS, COLUMNS, 3], of the frame that `fit_frame` gave of the same picture.
        pixels: uint8, of any size.

    Raises:
        PictureError: `check_pixels`.
    """
    view = check_pixels(pixels)
    colors = colors_of(view)
    lying = _lying(colors)
    height, width = lying.shape[:2]
    frame = fit_frame(pixels)
    if (height, width) == (ROWS, COLUMNS):
        found = painted.copy()
    else:
        found = resize(painted, height, width)
        before = resize(frame, height, width)
        for top in range(0, height, STRIP):
            rows = slice(top, top + STRIP)
            sums = found[rows].astype(np.int16) - before[rows] + lying[rows]
            found[rows] = np.clip(sums, 0, 255)
    turned = found if lying is colors else found.transpose(1, 0, 2)
    if view.shape[2] == ALPHA:
        return np.concatenate([turned, view[..., 3:]], axis=2)
    return np.ascontiguousarray(turned)


def _lying(colors: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the picture itself, or turned over its diagonal where it is higher than wide."""
    return colors.transpose(1, 0, 2) if colors.shape[0] > colors.shape[1] else colors
