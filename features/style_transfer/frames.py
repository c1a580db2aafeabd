"""Fits pictures of any size into the program's frame, and brings what was painted back to their size.

The whole picture is squeezed into the frame; one that is higher than wide is turned over its diagonal first, so that
strokes are stretched by 1.8 at most for a square, and by nothing for 16:9.  What the program changed is enlarged and
added to the picture, which keeps its fine detail; at strength 0 it comes back as it was, to the bit.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.picture import (
    MAX_PIXELS,
    MissingPictureError,
    NotAPictureError,
    PictureError,
    PictureTooLargeError,
    WrongPixelsError,
    read_picture,
)
from alcove.features.style_transfer.config import COLUMNS, ROWS
from alcove.runtime import _native
from numpy.typing import NDArray

__all__ = ["PictureError", "check_pixels", "fit_frame", "read_picture", "repaint", "write_picture"]

STRIP: Final = 256
"""Rows that are added at a time, so that memory does not grow with the picture."""
CHANNELS: Final = (1, 3, 4)
"""Of a picture: grey, color, color and alpha."""


def check_pixels(pixels: Any) -> NDArray[np.uint8]:
    """Return an app's pixels as a view, uint8 [height, width, 1, 3 or 4].

    Raises:
        WrongPixelsError: not uint8 [height, width], or with 1, 3 or 4 channels; or without pixels.
        PictureTooLargeError: too many pixels.
    """
    if not isinstance(pixels, np.ndarray):
        raise WrongPixelsError(f"a picture is a uint8 array, not {type(pixels).__name__}")
    view: NDArray[Any] = pixels[..., None] if pixels.ndim == 2 else pixels
    if view.dtype != np.uint8 or view.ndim != 3 or view.shape[2] not in CHANNELS:
        seen = f"{pixels.dtype} {list(pixels.shape)}"
        raise WrongPixelsError(f"a picture is uint8 [height, width, 3], with alpha 4, or grey; this is {seen}")
    height, width = view.shape[:2]
    if height < 1 or width < 1:
        raise WrongPixelsError(f"{width} x {height} is a picture without pixels")
    if width * height > MAX_PIXELS:
        raise PictureTooLargeError(f"{width} x {height} pixels; width times height may be {MAX_PIXELS:,}")
    return view


def fit_frame(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return what the program sees of a picture, uint8 [ROWS, COLUMNS, 3].

    Raises:
        PictureError: `check_pixels`.
    """
    colors = _colors_of(check_pixels(pixels))
    return _resize(_lying(colors), ROWS, COLUMNS)


def repaint(painted: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a picture with what the program changed, uint8 [height, width, 3], or 4 where it has alpha, as it was.

    Args:
        painted: uint8 [ROWS, COLUMNS, 3], of the frame that `fit_frame` gave of the same picture.
        pixels: uint8, of any size.

    Raises:
        PictureError: `check_pixels`.
    """
    view = check_pixels(pixels)
    colors = _colors_of(view)
    lying = _lying(colors)
    height, width = lying.shape[:2]
    frame = fit_frame(pixels)
    if (height, width) == (ROWS, COLUMNS):
        found = painted.copy()
    else:
        found = _resize(painted, height, width)
        before = _resize(frame, height, width)
        for top in range(0, height, STRIP):
            rows = slice(top, top + STRIP)
            sums = found[rows].astype(np.int16) - before[rows] + lying[rows]
            found[rows] = np.clip(sums, 0, 255)
    turned = found if lying is colors else found.transpose(1, 0, 2)
    if view.shape[2] == CHANNELS[-1]:
        return np.concatenate([turned, view[..., 3:]], axis=2)
    return np.ascontiguousarray(turned)


def write_picture(pixels: NDArray[np.uint8], path: Path) -> None:
    """Write pixels to a file, in the format that its name ends with.

    Raises:
        MissingPictureError: it cannot be written.
        NotAPictureError: the name ends with no known format, or Pillow is not installed.
    """
    try:
        from PIL import Image  # noqa: PLC0415 - not a dependency
    except ImportError:
        raise NotAPictureError("files of pictures need Pillow: pip install pillow") from None
    try:
        Image.fromarray(pixels).save(path)
    except (ValueError, KeyError) as error:
        raise NotAPictureError(f"{path.name}: a name ends with .png, .jpg or another known format") from error
    except OSError as error:
        raise MissingPictureError(f"{path.name} cannot be written: {error}") from error


def _colors_of(view: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.repeat(view, 3, axis=2) if view.shape[2] == 1 else view[..., :3]


def _lying(colors: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the picture itself, or turned over its diagonal where it is higher than wide."""
    return colors.transpose(1, 0, 2) if colors.shape[0] > colors.shape[1] else colors


def _resize(colors: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    if colors.shape[:2] == (height, width):
        return np.ascontiguousarray(colors)
    down, across = _taps(colors.shape[0], height), _taps(colors.shape[1], width)
    return _native.resample(np.ascontiguousarray(colors), *down, *across)


@lru_cache(maxsize=16)
def _taps(length: int, size: int) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return the first of `length` pixels that each of `size` is made of, and what it and its neighbors count.

    Smaller: each pixel is the mean of the area that it covers.  Larger: linear between the middles of pixels.
    """
    scale = length / size
    if length >= size:
        begin, end = np.arange(size) * scale, np.arange(1, size + 1) * scale
        taps = min(length, int(np.ceil(scale)) + 1)
        first = np.minimum(np.floor(begin).astype(np.int64), length - taps)
        pixel = first[:, None] + np.arange(taps)
        weights = np.clip(np.minimum(end[:, None], pixel + 1) - np.maximum(begin[:, None], pixel), 0, None) / scale
    else:
        middle = np.clip((np.arange(size) + 0.5) * scale - 0.5, 0, length - 1)
        taps = min(length, 2)
        first = np.minimum(np.floor(middle).astype(np.int64), length - taps)
        weights = np.clip(1 - np.abs(middle[:, None] - first[:, None] - np.arange(taps)), 0, None)
    return first.astype(np.uint32), np.ascontiguousarray(weights, np.float32)
