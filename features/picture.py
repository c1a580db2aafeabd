"""Reads a picture from a file or an app's pixels, and resizes it; for every feature that takes pictures.

PNG, JPEG and whatever else Pillow opens where it is installed (`pip install pillow`); binary PPM without it.  Resizing
is done in native code, and gives the same bits everywhere.
"""

import io
import json
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.errors import FieldError
from alcove.runtime import _native
from numpy.typing import NDArray

MAX_FILE_BYTES: Final = 64 << 20
"""Of a picture's file: 8000 x 6000 pixels in JPEG take 10 to 30 MB."""
MAX_PIXELS: Final = 64_000_000
"""Width times height, of what is given and of what comes back: three bytes each, 192 MB."""
SHOWN: Final = 200
"""Characters of a path in a message."""
GREY, COLOR, ALPHA = 1, 3, 4
"""Channels of a picture."""
_PPM_HEADER: Final = re.compile(rb"P6(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)\s")


class PictureError(ValueError):
    """What was given is no picture that the feature takes.

    PictureError
    ├── MissingPictureError         there is no such file, or it cannot be read or written
    ├── NotAPictureError            its bytes are no picture in a known format
    │   └── TruncatedPictureError   it ends early or is damaged
    ├── PictureTooLargeError        more bytes or pixels than allowed; the message names the bound
    └── WrongPixelsError            an array of another shape or type, or without pixels
    """


class MissingPictureError(PictureError):
    """There is no such file, or it cannot be read or written."""


class NotAPictureError(PictureError):
    """The bytes are no picture in a known format."""


class TruncatedPictureError(NotAPictureError):
    """The picture ends early or is damaged."""


class PictureTooLargeError(PictureError):
    """More bytes or pixels than allowed."""


class WrongPixelsError(PictureError):
    """An array of another shape or type, or without pixels."""


def read_picture(path: Path, *, keeps_alpha: bool = False) -> NDArray[np.uint8]:
    """Return the pixels of a file, uint8 [height, width, 3], red, green, blue; turned as its EXIF data say.

    Grey, palette and CMYK pictures become RGB; what is transparent loses its transparency.

    Args:
        path: of the file, at most `MAX_FILE_BYTES`.
        keeps_alpha: whether a picture that has alpha is returned with it, uint8 [height, width, 4].

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
        return picture_of(data, keeps_alpha=keeps_alpha)
    except PictureError as error:
        raise type(error)(f"{name}: {error}") from error


def picture_of(data: bytes, *, keeps_alpha: bool = False) -> NDArray[np.uint8]:
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
            check_size(*image.size)
            has_alpha = image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info
            turned = ImageOps.exif_transpose(image)
            pixels: NDArray[np.uint8] = np.asarray(turned.convert("RGBA" if has_alpha and keeps_alpha else "RGB"))
    except UnidentifiedImageError:
        raise NotAPictureError("not a picture in a known format") from None
    except Image.DecompressionBombError as error:
        raise PictureTooLargeError(str(error)) from None
    except PictureError:
        raise
    except Exception as error:
        # What Pillow raises for damaged files depends on the format.
        raise TruncatedPictureError(f"damaged or cut short: {error}") from error
    return pixels


def _ppm(data: bytes) -> NDArray[np.uint8]:
    header = _PPM_HEADER.match(data[:1024])
    if header is None:
        raise NotAPictureError("a PPM picture without a whole header")
    width, height, most = (int(each) for each in header.groups())
    if most != 255:
        raise NotAPictureError(f"a PPM picture of values up to {most}; up to 255 are read")
    check_size(width, height)
    wanted, there = 3 * width * height, len(data) - header.end()
    if there < wanted:
        raise TruncatedPictureError(f"{width} x {height} pixels are {wanted:,} bytes; there are {there:,}")
    return np.frombuffer(data, np.uint8, wanted, header.end()).reshape(height, width, 3)


def read_photo_line(line: bytes, fields: Sequence[str]) -> tuple[Path, dict[str, Any]]:
    """Return the path in a line of input and what else it says: a path alone, or JSON with a `photo` and other fields.

    Args:
        line: without its end.
        fields: that JSON may have beside `photo`.

    Raises:
        FieldError: `photo` is missing or no path, or a field is unknown.
        ValueError: the line is empty, not UTF-8, or begins like JSON and is none.
    """
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError("a line holds the path of a picture or JSON, in UTF-8") from None
    if not text:
        raise ValueError("a line holds the path of a picture or JSON; this one is empty")
    if not text.startswith("{"):
        return Path(text), {}
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the line begins like JSON and is none: {error}") from None
    for name in given:
        if name not in ("photo", *fields):
            raise FieldError(name, f"a field of {', '.join(('photo', *fields))}", given[name])
    photo = given.pop("photo", None)
    if not isinstance(photo, str) or not photo:
        raise FieldError("photo", "the path of a picture", photo)
    return Path(photo), given


def write_picture(pixels: NDArray[np.uint8], path: Path) -> None:
    """Write pixels to a file, in the format that its name ends with; needs Pillow.

    Args:
        pixels: uint8 [height, width, 3], or 4 with alpha.
        path: of the file.

    Raises:
        MissingPictureError: it cannot be written.
        NotAPictureError: the name ends with no known format, or one that has no alpha; or Pillow is missing.
    """
    try:
        from PIL import Image  # noqa: PLC0415 - not a dependency
    except ImportError:
        raise NotAPictureError("writing pictures needs Pillow: pip install pillow, or encode it yourself") from None
    try:
        Image.fromarray(pixels).save(path)
    except (ValueError, KeyError) as error:
        raise NotAPictureError(f"{path.name}: a name ends with .png, .jpg or another known format") from error
    except OSError as error:
        # Pillow's own, of a format without alpha, have no number of the system's.
        kind = NotAPictureError if error.errno is None else MissingPictureError
        raise kind(f"{path.name} cannot be written: {error}") from error


def check_size(width: int, height: int) -> None:
    """Refuse a size without pixels or with too many.

    Raises:
        WrongPixelsError: there are none.
        PictureTooLargeError: there are too many.
    """
    if width < 1 or height < 1:
        raise WrongPixelsError(f"{width} x {height} is a picture without pixels")
    if width * height > MAX_PIXELS:
        raise PictureTooLargeError(f"{width} x {height} pixels; width times height may be {MAX_PIXELS:,}")


def check_colors(pixels: Any) -> None:
    """Refuse what is no picture in red, green and blue.

    Raises:
        WrongPixelsError: not uint8 [height, width, 3], or without pixels.
        PictureTooLargeError: too many pixels.
    """
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != COLOR:
        raise WrongPixelsError(f"a picture is uint8 [height, width, 3], red, green, blue; this is {_describe(pixels)}")
    check_size(pixels.shape[1], pixels.shape[0])


def check_pixels(pixels: Any) -> NDArray[np.uint8]:
    """Return an app's pixels as a view, uint8 [height, width, channels], 1, 3 or 4 of them.

    Taken are colors, colors with alpha, and grey, [height, width] or [height, width, 1], of any strides.

    Raises:
        WrongPixelsError: not such an array; 16 bits are refused, since 8 of them would be lost.
        PictureTooLargeError: too many pixels.
    """
    view = pixels[..., None] if isinstance(pixels, np.ndarray) and pixels.ndim == 2 else pixels
    if (
        not isinstance(view, np.ndarray)
        or view.dtype != np.uint8
        or view.ndim != 3
        or view.shape[2] not in (GREY, COLOR, ALPHA)
    ):
        raise WrongPixelsError(f"a picture is uint8 [height, width, 3], with alpha 4, or grey, not {_describe(pixels)}")
    check_size(view.shape[1], view.shape[0])
    return view


def _describe(given: Any) -> str:
    return f"{given.dtype} {list(given.shape)}" if isinstance(given, np.ndarray) else type(given).__name__


def colors_of(view: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return red, green and blue of what `check_pixels` gives, uint8 [height, width, 3]; a view if not grey."""
    return np.repeat(view, COLOR, axis=2) if view.shape[2] == GREY else view[..., :COLOR]


def fit(pixels: NDArray[Any], size: int) -> NDArray[np.uint8]:
    """Return the whole picture, squeezed into a square, so that nothing at its edges is lost: uint8 [size, size, 3].

    Args:
        pixels: uint8 [height, width, 3], red, green, blue; at least 1 x 1, at most `MAX_PIXELS`.
        size: of the square, in pixels.

    Raises:
        WrongPixelsError: not such an array.
        PictureTooLargeError: too many pixels.
    """
    check_colors(pixels)
    return resize(pixels, size, size)


def resize(colors: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return a picture in another size, uint8 [height, width, 3].

    Smaller: each pixel is the mean of the area that it covers.  Larger: linear between the middles of pixels.  A
    picture of one pixel becomes one of its color.

    Args:
        colors: uint8 [h, w, 3], not empty.
        height: of the result.
        width: of the result.
    """
    before = colors.shape[:2]
    return _native.resample(np.ascontiguousarray(colors), *_taps(before[0], height), *_taps(before[1], width))


@lru_cache(maxsize=64)
def _taps(length: int, size: int) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return the first of `length` pixels that each of `size` is made of, and what it and its neighbors count."""
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
