"""Defines what an app says of a look: a style or a mix of styles, and a strength; and lines of text that say so."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.errors import FieldError
from alcove.features.picture import read_photo_line
from alcove.features.style_transfer.config import STYLES
from numpy.typing import NDArray

__all__ = ["Look", "read_line"]

FIELDS: Final = ("style", "strength")
"""Of a line in JSON."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How to paint a picture.

    Attributes:
        style: a name of `config.STYLES`, or weights by such names: at least 0, one above 0; their sum does not matter.
        strength: 0 the picture as it is, 1 painted.

    Raises:
        FieldError: a style is unknown, a weight or the strength out of its bound or no number.
    """

    style: str | Mapping[str, float] = STYLES[0]
    strength: float = 1.0

    def __post_init__(self) -> None:
        given: Any = self.style  # apps are not always type checked
        if not isinstance(given, str | Mapping):
            raise FieldError("style", "a name, or weights by name", given)
        for name in (given,) if isinstance(given, str) else given:
            if name not in STYLES:
                raise FieldError("style", f"one of {', '.join(STYLES)}", name)
        if not isinstance(given, str):
            for name, weight in given.items():
                if not _is_number(weight) or not 0 <= weight < math.inf:
                    raise FieldError(f"style.{name}", "a finite weight of at least 0", weight)
            if not any(given.values()):
                raise FieldError("style", "a weight above 0", dict(given))
        if not _is_number(self.strength) or not 0 <= self.strength <= 1:
            raise FieldError("strength", "0 to 1", self.strength)

    def arrays(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return a program's inputs: weights of styles f32 [1, styles] of sum 1, strength f32 [1]."""
        parts = {self.style: 1.0} if isinstance(self.style, str) else self.style
        greatest = max(parts.values())
        weights = np.array([[parts.get(name, 0.0) / greatest for name in STYLES]])
        return (weights / weights.sum()).astype(np.float32), np.array([self.strength], np.float32)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating) and not isinstance(value, bool)


def read_line(line: bytes) -> tuple[Path, Look]:
    """Return path and look of a line: a path alone, or JSON.

        photo.jpg
        {"photo": "photo.jpg", "style": "udnie", "strength": 0.8}
        {"photo": "photo.jpg", "style": {"udnie": 1, "great_wave": 2}}

    Raises:
        FieldError: a field is missing, unknown or not as it must be.
        ValueError: the line is empty, not UTF-8, or begins like JSON and is none.
    """
    photo, given = read_photo_line(line, FIELDS)
    return photo, Look(**given)
