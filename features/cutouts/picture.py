"""Reads a picture from a file or an app's pixels, and resizes it to the small square that the program takes.

PNG, JPEG and whatever else Pillow opens where it is installed (`pip install pillow`); binary PPM without it.  The whole
picture is squeezed into the square, so that nothing at its edges is lost.  That is done in native code, and gives the
same bits everywhere.
"""

import io
import re
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.runtime import _native
from numpy.typing import NDArray

MAX_FILE_BYTES: Final = 64 << 20
"""Of a picture's file: 8000 x 6000 pixels in JPEG take 10 to 30 MB."""
MAX_PIXELS: Final = 64_000_000
"""Width times height: three bytes each, 192 MB; making it small takes one row more."""
SHOWN: Final = 200
"""Characters of a path in a message."""
_PPM_HEADER: Final = re.compile(rb"P6(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)\s")


class PictureError(ValueError):
    """What was given is no picture that the feature takes.

    PictureError
    ├── MissingPictureError    there is no such file, or it cannot be read
    ├── NotAPictureError       its bytes are no picture in a known format
    ├── TruncatedPictureError  it ends early or is damaged
    ├── PictureTooLargeError   more bytes or pixels than allowed; the message names the bound
    └── WrongPixelsError       an array of another shape or type, or without pixels
    """


class MissingPictureError(PictureError):
    """There is no such file, or it cannot be read."""


class NotAPictureError(PictureError):
    """The bytes are no picture in a known format."""


class TruncatedPictureError(PictureError):
    """The picture ends early or is damaged."""


class PictureTooLargeError(PictureError):
    """More bytes or pixels than allowed."""


class WrongPixelsError(PictureError):
    """An array of another shape or type, or without pixels."""


def read_picture(path: Path) -> NDArray[np.uint8]:
    """Return the pixels of a file, uint8 [height, width, 3], red, green, blue; turned as its EXIF data say.

    Grey, palette and CMYK pictures become RGB; what is transparent loses its transparency.

    Raises:
        PictureError: one of its kinds; the message names the file.
    """
    name = str(path) if len(str(path)) <= SHOWN else f"{str(path)[:SHOWN]}…"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise MissingPictureError(f"{name} cannot be read: {why}") from error
    if len(data) > MAX_FILE_BYTES:
        raise PictureTooLargeError(f"{name}: more than the {MAX_FILE_BYTES:,} bytes that are read")
    try:
        return picture_of(data)
    except PictureError as error:
        raise type(error)(f"{name}: {error}") from error


def picture_of(data: bytes) -> NDArray[np.uint8]:
    """Return the pixels in a file's bytes, as `read_picture` does.

    Raises:
        PictureError: one of its kinds.
    """
    if data[:2] == b"P6":
        return _ppm(data)
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError  # noqa: PLC0415 - not a dependency
    except ImportError:
        raise NotAPictureError(
            "only binary PPM pictures can be read without Pillow: pip install pillow, or decode it yourself"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes that are refused below, and of damage that changes no pixel
            image = Image.open(io.BytesIO(data))
            _check_size(*image.size)
            turned = ImageOps.exif_transpose(image)
            pixels: NDArray[np.uint8] = np.asarray(turned.convert("RGB"))
    except UnidentifiedImageError:
        raise NotAPictureError("not a picture in a known format") from None
    except Image.DecompressionBombError as error:
        raise PictureTooLargeError(str(error)) from None
    except PictureError:
        raise
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        # What Pillow raises for damaged files depends on the format.
        raise TruncatedPictureError(f"damaged or cut short: {error}") from None
    return pixels


def _ppm(data: bytes) -> NDArray[np.uint8]:
    header = _PPM_HEADER.match(data[:1024])
    if header is None:
        raise NotAPictureError("a PPM picture without a whole header")
    width, height, most = (int(each) for each in header.groups())
    if most != 255:
        raise NotAPictureError(f"a PPM picture of values up to {most}; up to 255 are read")
    _check_size(width, height)
    wanted, there = 3 * width * height, len(data) - header.end()
    if there < wanted:
        raise TruncatedPictureError(f"{width} x {height} pixels are {wanted:,} bytes; there are {there:,}")
    return np.frombuffer(data, np.uint8, wanted, header.end()).reshape(height, width, 3)


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise WrongPixelsError(f"{width} x {height} is a picture without pixels")
    if width * height > MAX_PIXELS:
        raise PictureTooLargeError(f"{width} x {height} pixels; width times height may be {MAX_PIXELS:,}")


def fit(pixels: NDArray[Any], size: int) -> NDArray[np.uint8]:
    """Return the whole picture, squeezed into a square: uint8 [size, size, 3].

    Smaller: each pixel is the mean of the area that it covers.  Larger: linear between the middles of pixels.  A
    picture of one pixel becomes a square of its colour.

    Args:
        pixels: uint8 [height, width, 3], red, green, blue; at least 1 x 1, at most `MAX_PIXELS`.
        size: of the square, in pixels.

    Raises:
        WrongPixelsError: not such an array.
        PictureTooLargeError: too many pixels.
    """
    check_pixels(pixels)
    height, width = pixels.shape[:2]
    return _native.resample(np.ascontiguousarray(pixels), *_taps(height, size), *_taps(width, size))


def check_pixels(pixels: NDArray[Any]) -> None:
    """Refuse what is no picture.

    Raises:
        WrongPixelsError: not uint8 [height, width, 3], or without pixels.
        PictureTooLargeError: too many pixels.
    """
    given: Any = pixels  # apps are not always type checked
    if not isinstance(given, np.ndarray) or given.dtype != np.uint8 or given.ndim != 3 or given.shape[2] != 3:
        seen = f"{given.dtype} {list(given.shape)}" if isinstance(given, np.ndarray) else type(given).__name__
        raise WrongPixelsError(f"a picture is uint8 [height, width, 3], red, green, blue; this is {seen}")
    height, width = pixels.shape[:2]
    _check_size(width, height)


@lru_cache(maxsize=64)
def _taps(length: int, size: int) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return the first of `length` pixels that each of `size` is made of, and what it and its neighbors count."""
    whole = _weights(length, size)
    counts = whole > 0
    first = counts.argmax(axis=1)
    taps = int((length - counts[:, ::-1].argmax(axis=1) - first).max())
    first = np.minimum(first, length - taps)
    weights = np.take_along_axis(whole, first[:, None] + np.arange(taps), axis=1)
    return first.astype(np.uint32), np.ascontiguousarray(weights)


def _weights(length: int, size: int) -> NDArray[np.float32]:
    """Return what each of `length` pixels in a row counts in each of `size`, f32 [size, length]; rows add up to 1."""
    scale = length / size
    if length >= size:
        edges = np.arange(size + 1) * scale
        pixel = np.arange(length)
        covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
        weights = np.clip(covered, 0, None) / scale
    else:
        middle = np.clip((np.arange(size) + 0.5) * scale - 0.5, 0, length - 1)
        weights = np.clip(1 - np.abs(middle[:, None] - np.arange(length)), 0, None)
    found: NDArray[np.float32] = weights.astype(np.float32)
    return found
