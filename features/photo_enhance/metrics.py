"""Measures how near two pictures are."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

WINDOW: Final = 8
"""Side of the windows of SSIM, in pixels."""


def luma(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the luma of uint8 [height, width, 3], f64 [height, width] in [0, 255]; ITU-R BT.601."""
    return np.asarray(pixels @ np.array([0.299, 0.587, 0.114]), np.float64)


def psnr(given: NDArray[Any], truth: NDArray[Any]) -> float:
    """Return the peak signal-to-noise ratio in dB, of values in [0, 255]; 99 for equal pictures."""
    error = float(np.mean((given.astype(np.float64) - truth) ** 2))
    return 99.0 if error == 0 else min(99.0, 10 * np.log10(255**2 / error))


def ssim(given: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return the mean structural similarity, over all windows of 8 x 8 with equal weights.

    Source: Wang et al., "Image quality assessment: from error visibility to structural similarity" (2004).

    Args:
        given: f64 [height, width] in [0, 255], at least 8 x 8.
        truth: of the same shape.
    """
    means = [_means(each) for each in (given, truth, given * given, truth * truth, given * truth)]
    first, second = means[:2]
    variances = means[2] - first * first, means[3] - second * second
    covariance = means[4] - first * second
    small, large = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    above = (2 * first * second + small) * (2 * covariance + large)
    below = (first * first + second * second + small) * (variances[0] + variances[1] + large)
    return float(np.mean(above / below))


def _means(picture: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each window."""
    sums = np.pad(picture, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
    corners = sums[WINDOW:, WINDOW:] - sums[:-WINDOW, WINDOW:] - sums[WINDOW:, :-WINDOW] + sums[:-WINDOW, :-WINDOW]
    found: NDArray[np.float64] = corners / WINDOW**2
    return found
