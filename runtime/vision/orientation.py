"""Turns pictures as their EXIF orientation says."""

from typing import Final

from torch import Tensor

__all__ = ["orient"]

_TURNS: Final = {
    1: (False, ()),
    2: (False, (-1,)),
    3: (False, (-2, -1)),
    4: (False, (-2,)),
    5: (True, ()),
    6: (True, (-1,)),
    7: (True, (-2, -1)),
    8: (True, (-2,)),
}
"""Orientation: whether rows become columns, then which axes are reversed."""


def orient(image: Tensor, orientation: int) -> Tensor:
    """Return a picture upright.

    Args:
        image: [..., height, width], as the sensor gave it.
        orientation: 1 to 8, as the tag says; 1 is upright, 6 is turned right by 90 degrees to be shown.

    Returns:
        [..., height, width], or [..., width, height] for orientations 5 to 8.

    Raises:
        ValueError: the orientation is none.

    Source: Exif 2.32, tag 274 "Orientation".
    """
    if orientation not in _TURNS:
        raise ValueError(f"an orientation is 1 to 8, not {orientation}")
    is_transposed, reversed_axes = _TURNS[orientation]
    turned = image.transpose(-2, -1) if is_transposed else image
    return turned.flip(reversed_axes) if reversed_axes else turned
