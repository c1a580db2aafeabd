"""Defines what an app says of a cutout: taps and a box, as shares of the picture; and lines of text that say so."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.cutouts.config import TAPS
from alcove.features.errors import FieldError
from alcove.features.picture import read_photo_line
from alcove.features.region import Region, is_share
from numpy.typing import NDArray

FIELDS: Final = ("add", "remove", "box")
"""Of a line in JSON."""
POINT: Final = 2
EDGES: Final = 4


@dataclass(frozen=True, slots=True)
class Tap:
    """A place that belongs to the cutout, or that does not.

    Attributes:
        across: share of the picture's width, from the left.
        down: share of its height, from above.
        adds: whether it belongs; False removes it.

    Raises:
        FieldError: the place is outside the picture.
    """

    across: float
    down: float
    adds: bool = True

    def __post_init__(self) -> None:
        for field in ("across", "down"):
            if not is_share(share := getattr(self, field)):
                raise FieldError(field, "0 to 1", share)


class Box(Region):
    """A part of a picture that holds the thing to cut out.

    Raises:
        FieldError: a share is not in [0, 1], or the box is empty or inverted.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.left < self.right:
            raise FieldError("right", f"more than left, {self.left}", self.right)
        if not self.top < self.bottom:
            raise FieldError("bottom", f"more than top, {self.top}", self.bottom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to cut out of a picture; without taps and box the thing that stands out.

    Attributes:
        taps: in any order, at most `config.TAPS`.
        box: around the thing, or None.

    Raises:
        FieldError: more taps than that.
    """

    taps: tuple[Tap, ...] = ()
    box: Box | None = None

    def __post_init__(self) -> None:
        if len(self.taps) > TAPS:
            raise FieldError("taps", f"at most {TAPS}", len(self.taps))

    def arrays(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return a program's inputs: taps f32 [TAPS, 3], box f32 [4]."""
        taps = np.zeros((TAPS, 3), np.float32)
        for at, tap in enumerate(self.taps):
            taps[at] = tap.across, tap.down, 1 if tap.adds else -1
        box = self.box
        edges = (0.0, 0.0, 0.0, 0.0) if box is None else (box.left, box.top, box.right, box.bottom)
        return taps, np.array(edges, np.float32)


def read_line(line: bytes) -> tuple[Path, Request]:
    """Return path and request of a line: a path alone, or JSON.

        photo.jpg
        {"photo": "photo.jpg", "add": [[0.5, 0.4]], "remove": [[0.1, 0.9]], "box": [0.2, 0.1, 0.8, 0.9]}

    Raises:
        FieldError: a field is missing, unknown or not as it must be.
        ValueError: the line is empty, not UTF-8, or begins like JSON and is none.
    """
    photo, given = read_photo_line(line, FIELDS)
    taps = [Tap(across, down) for across, down in _points(given, "add")]
    taps += [Tap(across, down, adds=False) for across, down in _points(given, "remove")]
    box = given.get("box")
    return photo, Request(taps=tuple(taps), box=None if box is None else Box(*_numbers("box", box, EDGES)))


def _points(given: dict[str, Any], field: str) -> list[tuple[float, float]]:
    points = given.get(field, [])
    if not isinstance(points, list):
        raise FieldError(field, "a list of [across, down]", points)
    pairs = [_numbers(f"{field}.{at}", point, POINT) for at, point in enumerate(points)]
    return [(across, down) for across, down in pairs]


def _numbers(field: str, value: Any, count: int) -> list[float]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != count:
        raise FieldError(field, f"{count} numbers", value)
    return list(value)
