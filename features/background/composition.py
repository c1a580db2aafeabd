"""Puts people before another background: out of focus, a picture, or a stage on which they stand smaller.

One function mixes at full size, `mix`, in integers, so that it gives the same bytes everywhere; scenes differ in what
they put behind.  Decision 0113 says why it is not `alcove.runtime.vision.composite`.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from alcove.features.background.config import HEIGHT
from alcove.features.background.frames import check_frame, grow, grow_part, inside, part_of, resize, to_bytes
from alcove.features.errors import FieldError
from alcove.runtime import _native
from numpy.typing import NDArray

__all__ = ["Blur", "Replacement", "Scene", "Stage", "mix", "put"]

ROWS: Final = 16
"""That are mixed together: 16 rows of 1280 pixels and what is computed of them stay in a processor's cache."""
LEVELS: Final = 255
BLUR_SHARE: Final = 0.06
"""Standard deviation of the strongest blur, as a share of the frame's height."""
REACH: Final = 2.5
"""Standard deviations up to which neighbors count."""


class Scene(Protocol):
    """What a frame becomes."""

    def show(
        self, frame: NDArray[np.uint8], matte: NDArray[np.float32], small: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Return the frame with another background, uint8 [rows, columns, 3].

        Args:
            frame: of `check_frame`.
            matte: f32 [HEIGHT, WIDTH] in [0, 1], of the program.
            small: what `shrink` made of the frame, where it is there already.
        """
        ...


def put(frame: NDArray[np.uint8], own: NDArray[np.uint8], background: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Write people on a background, in place, and return it; where alpha is 0 nothing is computed.

    Args:
        frame: uint8 [height, width, 3].
        own: its alpha at the size of the matte, uint8 [rows, columns]; spread over the frame, linear.
        background: uint8, of the frame's shape.
    """
    height, width = frame.shape[:2]
    part = part_of(own, height, width)
    if part is not None:
        mix(frame[part], grow_part(own, height, width, part), background[part], background[part])
    return background


def mix(
    frame: NDArray[np.uint8],
    alpha: NDArray[np.uint8],
    background: NDArray[np.uint8],
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Return alpha * frame + (1 - alpha) * background, rounded to the nearest level, of arrays of one shape.

    Args:
        frame: uint8 [height, width, 3].
        alpha: uint8, 255 where only the frame counts.
        background: uint8.
        out: uint8 of that shape, where the result goes; may be the background itself.

    Raises:
        ValueError: the shapes differ.

    Source: x / 255 as (x + 128 + (x + 128) / 256) / 256, exact for products of two bytes (Blinn, "Three wrongs make a
    right", 1995).
    """
    if not frame.shape == alpha.shape == background.shape:
        raise ValueError(f"arrays of one shape, not {frame.shape}, {alpha.shape} and {background.shape}")
    found = np.empty_like(frame) if out is None else out
    space = np.empty((3, min(ROWS, len(frame)), *frame.shape[1:]), np.uint16)
    for first in range(0, len(frame), ROWS):
        rows = slice(first, first + ROWS)
        mixed, behind, share = space[:, : len(frame[rows])]
        mixed[...], behind[...], share[...] = frame[rows], background[rows], alpha[rows]
        # alpha * (frame - background) + 255 * background: below 0 on the way, which 16 bits without a sign carry.
        mixed -= behind
        mixed *= share
        behind *= LEVELS
        mixed += behind
        mixed += LEVELS // 2 + 1
        np.right_shift(mixed, 8, out=behind)
        mixed += behind
        mixed >>= 8
        found[rows] = mixed
    return found


@dataclass(frozen=True, slots=True)
class Blur:
    """The own background, out of focus; nothing of the people is smeared into it.

    Attributes:
        strength: in (0, 1].

    Raises:
        FieldError: the strength is out of its bounds.
    """

    strength: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.strength <= 1:
            raise FieldError("strength", "above 0, at most 1", self.strength)

    def show(
        self, frame: NDArray[np.uint8], matte: NDArray[np.float32], small: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Return the frame with its background out of focus, of its own size; `Scene.show`."""
        height, width = frame.shape[:2]
        own = to_bytes(inside(matte, height, width))
        # Half the matte's size: what is lost is finer than the blur.
        rows, columns = (max(1, each // 2) for each in own.shape)
        whole = frame if small is None else np.ascontiguousarray(inside(small, height, width))
        little, weight = resize(whole, rows, columns), LEVELS - grow(own, rows, columns)
        taps = *_blur_taps(rows, self._deviation()), *_blur_taps(columns, self._deviation())
        sums = _native.resample(mix(little, weight, np.zeros_like(little)), *taps).astype(np.uint32)
        shares = _native.resample(weight, *taps).astype(np.uint32)
        # Where next to nothing of the background is near, the frame's own pixels stand in: they are hidden.
        soft = np.where(shares > 8, np.minimum(LEVELS, (sums * LEVELS + shares // 2) // np.maximum(shares, 1)), little)
        # Each row twice: half the rows are computed.
        background = np.repeat(resize(soft.astype(np.uint8), -(-height // 2), width), 2, axis=0)[:height]
        return put(frame, own, background)

    def _deviation(self) -> float:
        return max(0.3, self.strength * BLUR_SHARE * HEIGHT / 2)


@dataclass(slots=True, eq=False)
class Replacement:
    """A picture as background: it covers the frame, and what is too wide or too high is cut off.

    Attributes:
        picture: uint8 [height, width, 3].

    Raises:
        PictureError: it is no picture.
    """

    picture: NDArray[np.uint8]
    _fitted: NDArray[np.uint8] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.picture = check_frame(self.picture)

    def show(
        self,
        frame: NDArray[np.uint8],
        matte: NDArray[np.float32],
        small: NDArray[np.uint8] | None = None,  # noqa: ARG002 - as `Scene.show`
    ) -> NDArray[np.uint8]:
        """Return the people before the picture, of the frame's size; `Scene.show`."""
        height, width = frame.shape[:2]
        if self._fitted is None or self._fitted.shape != frame.shape:
            self._fitted = cover(self.picture, height, width)
        return put(frame, to_bytes(inside(matte, height, width)), self._fitted.copy())


@dataclass(slots=True, eq=False)
class Stage:
    """A picture, as slides or a drawn stage, before which the people stand smaller.

    Attributes:
        picture: uint8 [height, width, 3]; what is shown has its size.
        height: of the frame on the stage, as a share of the picture's height, 0.1 to 1.
        across: where the middle of the frame is, as a share of the picture's width, 0 to 1; its lower edge is the
            picture's.

    Raises:
        PictureError: it is no picture.
        FieldError: a share is out of its bounds.
    """

    picture: NDArray[np.uint8]
    height: float = 0.6
    across: float = 0.75

    def __post_init__(self) -> None:
        self.picture = check_frame(self.picture)
        if not 0.1 <= self.height <= 1:
            raise FieldError("height", "0.1 to 1", self.height)
        if not 0 <= self.across <= 1:
            raise FieldError("across", "0 to 1", self.across)

    def show(
        self,
        frame: NDArray[np.uint8],
        matte: NDArray[np.float32],
        small: NDArray[np.uint8] | None = None,  # noqa: ARG002 - as `Scene.show`
    ) -> NDArray[np.uint8]:
        """Return the picture with the people on it, of the picture's size; `Scene.show`."""
        rows = max(1, round(self.height * self.picture.shape[0]))
        columns = max(1, round(rows * frame.shape[1] / frame.shape[0]))
        left = round(self.across * self.picture.shape[1] - columns / 2)
        first, last = max(0, left), min(self.picture.shape[1], left + columns)
        part = slice(first - left, last - left)
        found = self.picture.copy()
        whole = np.zeros((rows, columns, 3), np.uint8)
        whole[:, part] = found[-rows:, first:last]
        put(resize(frame, rows, columns), to_bytes(inside(matte, *frame.shape[:2])), whole)
        found[-rows:, first:last] = whole[:, part]
        return found


def cover(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return the middle of a picture, as large as fits the shape, at another size, uint8 [height, width, 3]."""
    rows, columns = picture.shape[:2]
    own_rows = max(1, min(rows, round(columns * height / width)))
    own_columns = max(1, min(columns, round(rows * width / height)))
    top, left = (rows - own_rows) // 2, (columns - own_columns) // 2
    return resize(picture[top : top + own_rows, left : left + own_columns], height, width)


def _blur_taps(length: int, deviation: float) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return which pixels of a row each one becomes a mean of, and what they count: a Gaussian, cut at the border."""
    reach = min(length - 1, int(np.ceil(REACH * deviation)))
    taps = min(length, 2 * reach + 1)
    first = np.clip(np.arange(length) - reach, 0, length - taps)
    away = first[:, None] + np.arange(taps) - np.arange(length)[:, None]
    weights: NDArray[Any] = np.exp(-(away**2) / (2 * deviation**2))
    return first.astype(np.uint32), (weights / weights.sum(1, keepdims=True)).astype(np.float32)
