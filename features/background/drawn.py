"""Draws frames of somebody before a webcam by rules, to show and to test with, as no photo may be passed on.

They are no photographs: what the feature makes of them shows that it runs, not how good it is.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

WIDTH: Final = 320
HEIGHT: Final = 180
NOISE: Final = 2.5
"""Standard deviation of the camera's noise, in levels of 255."""

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class DrawnFrame:
    """A drawn frame.

    Attributes:
        pixels: uint8 [180, 320, 3].
        truth: bool [180, 320], where the person is.
    """

    pixels: NDArray[np.uint8]
    truth: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Look:
    """Colors of a person and a room, red, green, blue."""

    skin: tuple[int, int, int]
    hair: tuple[int, int, int]
    shirt: tuple[int, int, int]
    wall: tuple[int, int, int]


LOOKS: Final = {
    "blue shirt": Look((214, 168, 140), (58, 40, 30), (52, 84, 142), (205, 200, 188)),
    "green shirt": Look((120, 82, 60), (28, 24, 24), (70, 122, 84), (182, 194, 205)),
    "dark shirt": Look((232, 190, 165), (150, 105, 60), (48, 48, 56), (150, 132, 120)),
}


def draw_clip(look: str, frames: int, sway: float = 0.0) -> list[DrawnFrame]:
    """Return frames of one person; the camera and the room stand still, each frame has its own noise.

    Args:
        look: a key of `LOOKS`.
        frames: how many.
        sway: pixels that the person moves to each side, in 24 frames there and back.
    """
    seed = list(LOOKS).index(look)
    room = _room(np.random.default_rng(seed), LOOKS[look])
    noise = np.random.default_rng(100 + seed)
    found = []
    for number in range(frames):
        shift = sway * float(np.sin(2 * np.pi * number / 24))
        picture, inside = _person(room, LOOKS[look], 160 + shift)
        noisy = picture + noise.normal(0, NOISE, picture.shape)
        found.append(DrawnFrame(np.clip(noisy, 0, 255).astype(np.uint8), inside > 0))
    return found


def draw_slide() -> NDArray[np.uint8]:
    """Return a drawn slide, uint8 [180, 320, 3], to stand before."""
    x, y = _grid()
    picture = np.broadcast_to(np.array((246, 244, 238), float), (HEIGHT, WIDTH, 3))
    for row, length in enumerate((120, 150, 96)):
        picture = _paint(picture, _box(x, y, 24, 70 + 26 * row, 24 + length, 80 + 26 * row), (90, 100, 120))
    picture = _paint(picture, _box(x, y, 24, 24, 200, 44), (30, 60, 120))
    return picture.astype(np.uint8)


def _grid() -> tuple[Array, Array]:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    return x + 0.5, y + 0.5


def _box(  # noqa: PLR0917 - four edges
    x: Array, y: Array, left: float, top: float, right: float, bottom: float
) -> Array:
    """Return the distance to the nearest edge of a rectangle, positive inside."""
    return np.minimum(np.minimum(x - left, right - x), np.minimum(y - top, bottom - y))


def _oval(x: Array, y: Array, at: tuple[float, float], wide: float, high: float) -> Array:
    """Return about the distance to an ellipse, positive inside."""
    found: Array = (1 - np.hypot((x - at[0]) / wide, (y - at[1]) / high)) * min(wide, high)
    return found


def _paint(picture: Array, inside: Array, color: Any) -> Array:
    """Return a picture with a shape on it; `inside` is the distance to its edge in pixels, positive inside."""
    covered = np.clip(inside + 0.5, 0, 1)[..., None]
    return picture * (1 - covered) + np.asarray(color, float) * covered


def _room(rng: np.random.Generator, look: Look) -> Array:
    """Return a wall in soft light, with a shelf of books, a window and a plant."""
    x, y = _grid()
    light = 1.05 - 0.35 * np.hypot(x - 60, y - 20)[..., None] / 320
    picture = np.array(look.wall) * light
    picture = _paint(picture, _box(x, y, 18, 18, 92, 96), (225, 235, 245))
    picture = _paint(picture, _box(x, y, 53, 18, 57, 96), (120, 110, 100))
    for shelf in (60, 112):
        picture = _paint(picture, _box(x, y, 226, shelf, 312, shelf + 5), (110, 78, 52))
        left = 228.0
        while left < 300:
            wide, high = float(rng.uniform(5, 11)), float(rng.uniform(22, 36))
            picture = _paint(picture, _box(x, y, left, shelf - high, left + wide, shelf), rng.integers(40, 210, 3))
            left += wide + 1
    for _ in range(14):
        at = float(rng.uniform(16, 70)), float(rng.uniform(112, 158))
        picture = _paint(picture, _oval(x, y, at, 4, 13), (50, int(rng.integers(90, 140)), 60))
    return _paint(picture, _box(x, y, 28, 156, 58, 180), (150, 84, 60))


def _person(room: Array, look: Look, middle: float) -> tuple[Array, Array]:
    """Return the room with head and shoulders before it, and the distance to their edge."""
    x, y = _grid()
    shade = 1.1 - 0.004 * np.abs(x - middle + 12)[..., None]
    skin, shirt = np.array(look.skin) * shade, np.array(look.shirt) * shade
    hair = np.maximum(_oval(x, y, (middle, 62), 34, 40), np.minimum(_oval(x, y, (middle, 80), 37, 44), 96 - y))
    body = np.maximum(_oval(x, y, (middle, 190), 92, 66), _box(x, y, middle - 64, 170, middle + 64, 200))
    neck = _box(x, y, middle - 14, 92, middle + 14, 134)
    face = _oval(x, y, (middle, 76), 27, 36)
    picture = _paint(room, hair, np.array(look.hair) * shade)
    picture = _paint(_paint(picture, neck, skin * 0.85), body, shirt)
    picture = _paint(picture, _oval(x, y, (middle, 126), 17, 12), skin * 0.9)
    picture = _paint(picture, face, skin)
    picture = _paint(picture, np.minimum(face + 1, 54 - y), np.array(look.hair) * shade)
    for side in (-11, 11):
        picture = _paint(picture, _oval(x, y, (middle + side, 73), 5, 2.6), (245, 245, 240))
        picture = _paint(picture, _oval(x, y, (middle + side, 73), 2.4, 2.4), (50, 36, 28))
        picture = _paint(picture, _box(x, y, middle + side - 6, 65, middle + side + 6, 67.5), look.hair)
    picture = _paint(picture, _oval(x, y, (middle, 84), 3.5, 5), skin * 0.88)
    picture = _paint(picture, _oval(x, y, (middle, 97), 9, 2.6), (170, 84, 84))
    return picture, np.maximum.reduce([hair, body, neck, face])
