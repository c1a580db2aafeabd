"""Reads a picture from a file or an app's pixels, and resizes it.

Taken are uint8 [height, width, 3], and with alpha [height, width, 4], and grey [height, width] or [height, width, 1],
of any strides.  PNG, JPEG and whatever else Pillow opens where it is installed (`pip install pillow`).
"""

import io
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
"""Width times height, of what is given and of what comes back: three bytes each, 192 MB."""
GREY, COLOR, ALPHA = 1, 3, 4


class PictureError(ValueError):
    """What was given is no picture that the feature takes.

    PictureError
    ├── MissingPictureError    there is no such file, or it cannot be read or written
    ├── NotAPictureError       its bytes are no picture in a known format, or it is damaged
    ├── PictureTooLargeError   more bytes or pixels than allowed; the message names the bound
    └── WrongPixelsError       an array of another shape or type, or without pixels
    """


class MissingPictureError(PictureError):
    """There is no such file, or it cannot be read or written."""


class NotAPictureError(PictureError):
    """The bytes are no picture in a known format, or it is damaged."""


class PictureTooLargeError(PictureError):
    """More bytes or pixels than allowed."""


class WrongPixelsError(PictureError):
    """An array of another shape or type, or without pixels."""


def check_pixels(pixels: Any) -> NDArray[np.uint8]:
    """Return an app's pixels as a view, uint8 [height, width, channels], 1, 3 or 4 of them.

    Raises:
        WrongPixelsError: not such an array; 16 bits are refused, since 8 of them would be lost.
        PictureTooLargeError: too many pixels.
    """
    if not isinstance(pixels, np.ndarray):
        raise WrongPixelsError(f"a picture is a uint8 array, not {type(pixels).__name__}")
    view: NDArray[Any] = pixels[..., None] if pixels.ndim == COLOR - 1 else pixels
    if view.dtype != np.uint8 or view.ndim != COLOR or view.shape[2] not in (GREY, COLOR, ALPHA):
        seen = f"{pixels.dtype} {list(pixels.shape)}"
        raise WrongPixelsError(f"a picture is uint8 [height, width, 3], with alpha 4, or grey; this is {seen}")
    check_size(view.shape[1], view.shape[0])
    return view


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


def colors_of(view: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return red, green and blue, uint8 [height, width, 3]; a view where there are such."""
    return np.repeat(view, COLOR, axis=2) if view.shape[2] == GREY else view[..., :COLOR]


def read_picture(path: Path) -> NDArray[np.uint8]:
    """Return the pixels of a file, uint8 [height, width, 3], or 4 with alpha; turned as its EXIF data say.

    Raises:
        PictureError: one of its kinds; the message names the file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise MissingPictureError(f"{str(path)[:200]} cannot be read: {why}") from error
    if len(data) > MAX_FILE_BYTES:
        raise PictureTooLargeError(f"{path.name}: more than the {MAX_FILE_BYTES:,} bytes that are read")
    image_module, image_ops = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes that are refused below, and of damage that changes no pixel
            image = image_module.open(io.BytesIO(data))
            check_size(*image.size)
            has_alpha = image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info
            turned = image_ops.exif_transpose(image)
            pixels: NDArray[np.uint8] = np.asarray(turned.convert("RGBA" if has_alpha else "RGB"))
    except PictureError as error:
        raise type(error)(f"{path.name}: {error}") from error
    except Exception as error:
        # What Pillow raises for damaged files depends on the format.
        raise NotAPictureError(f"{path.name} is damaged, or no picture in a known format: {error}") from error
    return pixels


def write_picture(pixels: NDArray[np.uint8], path: Path) -> None:
    """Write pixels to a file, in the format that its name ends with.

    Raises:
        MissingPictureError: it cannot be written.
        NotAPictureError: the name ends with no known format, or one that has no alpha.
    """
    image_module, _ = _pillow()
    try:
        image_module.fromarray(pixels).save(path)
    except (ValueError, KeyError) as error:
        raise NotAPictureError(f"{path.name}: a name ends with .png, .jpg or another known format") from error
    except OSError as error:
        raise MissingPictureError(f"{path.name} cannot be written: {error}") from error


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps  # noqa: PLC0415 - not a dependency
    except ImportError:
        raise NotAPictureError("files of pictures need Pillow: pip install pillow, or decode them yourself") from None
    return Image, ImageOps


def resize(colors: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return a picture in another size, uint8 [height, width, 3].

    Smaller: each pixel is the mean of the area that it covers.  Larger: linear between the middles of pixels.

    Args:
        colors: uint8 [h, w, 3].
        height: of the result.
        width: of the result.
    """
    before = colors.shape[:2]
    return _native.resample(np.ascontiguousarray(colors), *_taps(before[0], height), *_taps(before[1], width))


@lru_cache(maxsize=16)
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
