"""Makes pictures worse in the ways that phones and messengers do, to see what a feature still finds.

Needs Pillow (the `dev` extra).
"""

import io
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from alcove.features.picture import picture_of
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
TURNED_LEFT: Final = 6
"""Value of EXIF's orientation: the picture is stored turned left, and is to be shown turned back."""


def _image(pixels: Pixels) -> Any:
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    return Image.fromarray(pixels)


def blur(pixels: Pixels) -> Pixels:
    """Return the picture out of focus: a Gaussian of a hundredth of the longer side."""
    from PIL import ImageFilter  # noqa: PLC0415 - not a dependency of the feature

    return np.asarray(_image(pixels).filter(ImageFilter.GaussianBlur(max(pixels.shape) / 100)))


def add_noise(pixels: Pixels) -> Pixels:
    """Return the picture with Gaussian noise of 20 of 255 in each value."""
    noise = np.random.default_rng(pixels.shape[1]).normal(0, 20, pixels.shape)
    return np.clip(pixels + noise, 0, 255).astype(np.uint8)


def compress(pixels: Pixels) -> Pixels:
    """Return the picture after JPEG of quality 30."""
    data = io.BytesIO()
    _image(pixels).save(data, "JPEG", quality=30)
    return picture_of(data.getvalue())


def darken(pixels: Pixels) -> Pixels:
    """Return the picture with a quarter of its light, and noise of 6 of 255."""
    noise = np.random.default_rng(pixels.shape[0]).normal(0, 6, pixels.shape)
    return np.clip(pixels * 0.25 + noise, 0, 255).astype(np.uint8)


def turn(pixels: Pixels) -> Pixels:
    """Return the picture as it is read from a file that stores it turned and says so."""
    data = io.BytesIO()
    image = _image(np.ascontiguousarray(np.rot90(pixels)))
    exif = image.getexif()
    exif[0x0112] = TURNED_LEFT
    image.save(data, "PNG", exif=exif)
    return picture_of(data.getvalue())


def halve(pixels: Pixels) -> Pixels:
    """Return the picture at half its width and height."""
    image = _image(pixels)
    return np.asarray(image.resize((max(1, image.width // 2), max(1, image.height // 2))))


CONDITIONS: Final[dict[str, Callable[[Pixels], Pixels]]] = {
    "as it is": lambda pixels: pixels,
    "out of focus": blur,
    "noise": add_noise,
    "JPEG of quality 30": compress,
    "a quarter of the light": darken,
    "turned, with EXIF": turn,
    "half size": halve,
}
"""By what the card calls them."""
