"""Computes precision and calibration of scores, and precision of an embedding; needs no torch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def average_precision(scores: NDArray[Any], truth: NDArray[Any]) -> float:
    """Return the mean, over the pictures that have a tag, of the precision down to each; ties count as their worst.

    Args:
        scores: [n].
        truth: [n], above 0.5 for pictures that have it; at least one.

    Raises:
        ValueError: no picture has it.
    """
    has = np.asarray(truth) > 0.5
    if not has.any():
        raise ValueError("no picture has the tag: its average precision means nothing")
    # Of equal scores those without the tag come first, so that a constant score gains nothing.
    order = np.lexsort((has, -np.asarray(scores, np.float64)))
    rank = has[order]
    precision = np.cumsum(rank) / np.arange(1, len(rank) + 1)
    return float(precision[rank].mean())


def calibration_error(scores: NDArray[Any], truth: NDArray[Any], bins: int = 10) -> float:
    """Return the mean distance of scores from the share of truths among scores alike, each score counting the same.

    Args:
        scores: in [0, 1], any shape.
        truth: of the same shape.
        bins: of equal width.
    """
    flat, has = np.asarray(scores, np.float64).ravel(), np.asarray(truth, np.float64).ravel()
    place = np.minimum((flat * bins).astype(int), bins - 1)
    total = np.bincount(place, minlength=bins)
    apart = np.abs(np.bincount(place, flat, bins) - np.bincount(place, has, bins))
    return float(apart.sum() / total.sum())


def precision_at(similarities: NDArray[Any], is_right: NDArray[np.bool_], count: int = 10) -> float:
    """Return the share of right ones among the `count` most similar; ties count as their worst."""
    order = np.lexsort((is_right, -np.asarray(similarities, np.float64)))
    return float(is_right[order[:count]].mean())
