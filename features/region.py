"""Defines a part of a picture as shares of its sides; for every feature that takes or gives one."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from alcove.features.errors import FieldError

__all__ = ["Region", "is_share"]


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a picture, as shares of its width and height from the upper left corner.

    Raises:
        FieldError: a share is not in [0, 1].
    """

    left: float
    top: float
    right: float
    bottom: float

    def __post_init__(self) -> None:
        for field in fields(self):
            if not is_share(share := getattr(self, field.name)):
                raise FieldError(field.name, "0 to 1", share)

    def pixels(self, width: int, height: int) -> tuple[int, int, int, int]:
        """Return left, top, right, bottom in pixels of a picture of that size; never empty."""
        left, top = min(int(self.left * width), width - 1), min(int(self.top * height), height - 1)
        right, bottom = round(self.right * width), round(self.bottom * height)
        return left, top, max(left + 1, right), max(top + 1, bottom)


def is_share(value: Any) -> bool:
    """Return whether something is a number in [0, 1]."""
    return isinstance(value, int | float | np.floating) and not isinstance(value, bool) and bool(0 <= value <= 1)
