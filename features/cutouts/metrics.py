"""Measures masks: intersection over union, boundary F, the place to tap a thing."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

TOLERANCE: Final = 0.008
"""Of a boundary, as a share of the picture's diagonal (Perazzi et al., "A benchmark dataset and evaluation methodology
for video object segmentation", 2016)."""

Mask = NDArray[np.bool_]


def iou(found: Mask, truth: Mask) -> float:
    """Return intersection over union, in [0, 1]; 1 where both are empty."""
    either = int((found | truth).sum())
    return int((found & truth).sum()) / either if either else 1.0


def boundary_f(found: Mask, truth: Mask) -> float:
    """Return the F-measure of the boundaries, in [0, 1]; 1 where there is none in both.

    Of the shares of each boundary that lie near the other.
    """
    reach = max(1, round(TOLERANCE * float(np.hypot(*truth.shape))))
    one, other = _boundary(found), _boundary(truth)
    if not one.any() or not other.any():
        return float(one.any() == other.any())
    precision = float((one & _widen(other, reach)).sum() / one.sum())
    recall = float((other & _widen(one, reach)).sum() / other.sum())
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _boundary(mask: Mask) -> Mask:
    """Return the pixels inside that have a neighbor outside; the picture's border is no boundary."""
    wide = np.pad(mask, 1, mode="edge")
    inner = wide[1:-1, 1:-1] & wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:]
    return mask & ~inner


def _widen(mask: Mask, reach: int) -> Mask:
    """Return the pixels within `reach` of a mask."""
    height, width = mask.shape
    wide = np.pad(mask, reach)
    found = np.zeros_like(mask)
    for down in range(-reach, reach + 1):
        for across in range(-reach, reach + 1):
            if down * down + across * across <= reach * reach:
                found |= wide[reach + down : reach + down + height, reach + across : reach + across + width]
    return found


def depth(mask: NDArray[Any]) -> NDArray[np.int32]:
    """Return how many times a mask can be made smaller by a pixel on all sides before each pixel is gone."""
    left = np.pad(mask.astype(bool), 1)
    found = left.astype(np.int32)
    while left.any():
        left[1:-1, 1:-1] &= left[:-2, 1:-1] & left[2:, 1:-1] & left[1:-1, :-2] & left[1:-1, 2:]
        found += left
    return found[1:-1, 1:-1]


def inner_point(mask: NDArray[Any]) -> tuple[float, float]:
    """Return the place of a thing that is farthest from its edge, across and down as shares of the picture.

    Of places as far, the one nearest to the middle of them.

    Raises:
        ValueError: the mask is empty.
    """
    deep = depth(mask)
    if not deep.any():
        raise ValueError("an empty mask has no inner point")
    down, across = np.nonzero(deep == deep.max())
    at = np.argmin((down - down.mean()) ** 2 + (across - across.mean()) ** 2)
    return (float(across[at]) + 0.5) / mask.shape[1], (float(down[at]) + 0.5) / mask.shape[0]


def next_tap(found: Mask, truth: Mask) -> tuple[float, float, bool] | None:
    """Return where a person would correct a mask, and whether to add: in the middle of what is most wrong.

    None where nothing is.
    """
    missing, extra = truth & ~found, found & ~truth
    deepest = int(depth(missing).max(initial=0)), int(depth(extra).max(initial=0))
    if not max(deepest):
        return None
    adds = deepest[0] >= deepest[1]
    return (*inner_point(missing if adds else extra), adds)
