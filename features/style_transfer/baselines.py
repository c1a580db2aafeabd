"""Provides the baseline: a painting's colors, without its strokes."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["transfer_colors"]

LEAST = 1e-3
"""Of a spread that is divided by, in values of 0 to 255."""


def transfer_colors(frame: NDArray[np.uint8], painting: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a frame with the painting's means and spreads of red, green and blue, uint8 [rows, columns, 3].

    Source: Reinhard, Ashikhmin, Gooch and Shirley, "Color transfer between images", 2001, on RGB; on maps of a network
    the same step is adaptive instance normalization (Huang and Belongie, 2017).
    """
    mean, spread = frame.mean((0, 1)), frame.std((0, 1)) + LEAST
    moved = (frame - mean) / spread * painting.std((0, 1)) + painting.mean((0, 1))
    found: NDArray[np.uint8] = np.rint(np.clip(moved, 0, 255)).astype(np.uint8)
    return found
