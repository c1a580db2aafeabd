"""Fits soft edges to a picture: the guided filter, as coefficients that are applied at the photo's size.

He, Sun and Tang, "Guided image filtering" (2013); He and Sun, "Fast guided filter" (2015): in a small window alpha is a
linear function of gray, so the coefficients of the small mask hold for the large photo.
"""

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

RADIUS: Final = 3
"""Of a window, in cells of the mask."""
SMOOTHNESS: Final = 4e-4
"""Variance of gray, of values in [0, 1], below which alpha follows the mask rather than the picture."""


def fit_edges(gray: Tensor, mask: Tensor) -> Tensor:
    """Return slope and offset of alpha over gray, f32 [1, 2, rows, columns].

    Args:
        gray: f32 [1, 1, rows, columns] in [0, 1].
        mask: f32 [1, 1, rows, columns] in [0, 1].
    """
    means = _mean(torch.cat([gray, mask, gray * gray, gray * mask], 1))
    gray_mean, mask_mean, squared, product = means[:, 0:1], means[:, 1:2], means[:, 2:3], means[:, 3:4]
    slope = (product - gray_mean * mask_mean) / (torch.relu(squared - gray_mean * gray_mean) + SMOOTHNESS)
    return _mean(torch.cat([slope, mask_mean - slope * gray_mean], 1))


def _mean(x: Tensor) -> Tensor:
    """Return the mean of the window around each cell; the border's cells count again outside."""
    size = 2 * RADIUS + 1
    wide = functional.pad(x, (RADIUS, RADIUS, RADIUS, RADIUS), mode="replicate")
    return functional.avg_pool2d(functional.avg_pool2d(wide, (1, size), 1), (size, 1), 1)
