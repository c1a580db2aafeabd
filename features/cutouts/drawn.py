"""Draws pictures by rules with the mask of one thing in each, to show and to test with, as no photo may be passed on.

They are no photographs: what the feature cuts out of them shows that it runs, not how good it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from alcove.features.cutouts.request import Tap
from numpy.typing import NDArray

WIDTH: Final = 288
HEIGHT: Final = 224
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A drawn picture.

    Attributes:
        pixels: uint8 [224, 288, 3].
        truth: bool [224, 288], the thing to cut out.
        taps: that ask for it; none where it stands out.
    """

    pixels: NDArray[np.uint8]
    truth: NDArray[np.bool_]
    taps: tuple[Tap, ...]


def drawings() -> dict[str, Drawing]:
    """Return pictures by what they are meant to be; the same ones each time."""
    makers = {
        "ball, nothing tapped": _ball,
        "one of three fruits": _fruits,
        "stop sign": _sign,
        "yellow bus": _bus,
        "star on paper": _star,
        "umbrella": _umbrella,
    }
    return {name: make(np.random.default_rng(number)) for number, (name, make) in enumerate(makers.items())}


def _grid() -> tuple[Array, Array]:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    return x + 0.5, y + 0.5


def _grain(rng: np.random.Generator, cell: int, strength: float) -> Array:
    """Return soft noise: values for cells of a grid, linear between them."""
    coarse = rng.normal(0, strength, (HEIGHT // cell + 2, WIDTH // cell + 2))
    x, y = _grid()
    column, row = (x / cell).astype(int), (y / cell).astype(int)
    right, down = x / cell - column, y / cell - row
    upper = coarse[row, column] * (1 - right) + coarse[row, column + 1] * right
    lower = coarse[row + 1, column] * (1 - right) + coarse[row + 1, column + 1] * right
    found: Array = (upper * (1 - down) + lower * down)[..., None]
    return found


def _background(rng: np.random.Generator, top: Sequence[int], bottom: Sequence[int], strength: float = 10) -> Array:
    """Return a gradient from above to below, with soft noise."""
    _, y = _grid()
    share = (y / HEIGHT)[..., None]
    found: Array = np.array(top) * (1 - share) + np.array(bottom) * share + _grain(rng, 24, strength)
    return found


def _paint(picture: Array, inside: Array, color: Any) -> Array:
    """Return a picture with a shape on it; `inside` is the distance to its edge in pixels, positive inside."""
    covered = np.clip(inside + 0.5, 0, 1)[..., None]
    return picture * (1 - covered) + np.asarray(color) * covered


def _finish(rng: np.random.Generator, picture: Array, inside: Array, taps: Sequence[tuple[float, float]]) -> Drawing:
    noisy = picture + rng.normal(0, 3, (HEIGHT, WIDTH, 1))
    places = tuple(Tap(across / WIDTH, down / HEIGHT) for across, down in taps)
    return Drawing(np.clip(noisy, 0, 255).astype(np.uint8), inside > 0, places)


def _disc(at: tuple[float, float], radius: float) -> Array:
    x, y = _grid()
    found: Array = radius - np.hypot(x - at[0], y - at[1])
    return found


def _sphere(at: tuple[float, float], radius: float, color: Sequence[int]) -> Array:
    """Return the colors of a ball that is lit from the upper left."""
    x, y = _grid()
    light = 1.15 - 0.55 * np.hypot(x - at[0] + radius / 3, y - at[1] + radius / 3) / radius
    found: Array = np.array(color) * np.clip(light, 0.3, 1.2)[..., None]
    return found


def _ball(rng: np.random.Generator) -> Drawing:
    picture = _background(rng, (150, 190, 225), (90, 140, 70))
    inside = _disc((146, 118), 62)
    return _finish(rng, _paint(picture, inside, _sphere((146, 118), 62, (225, 60, 50))), inside, [])


def _fruits(rng: np.random.Generator) -> Drawing:
    picture = _background(rng, (120, 95, 75), (160, 130, 100))
    for at, radius, color in (((70, 120), 40, (240, 150, 30)), ((222, 126), 38, (210, 220, 80))):
        picture = _paint(picture, _disc(at, radius), _sphere(at, radius, color))
    inside = _disc((146, 118), 42)
    return _finish(rng, _paint(picture, inside, _sphere((146, 118), 42, (190, 40, 50))), inside, [(146, 118)])


def _sign(rng: np.random.Generator) -> Drawing:
    x, y = _grid()
    picture = _background(rng, (160, 195, 235), (95, 120, 80), 16)
    picture = _paint(picture, np.minimum(5 - np.abs(x - 144), y - 100), (130, 130, 130))
    away = np.maximum.reduce([np.abs(x - 144), np.abs(y - 92), (np.abs(x - 144) + np.abs(y - 92)) / 2**0.5])
    picture = _paint(picture, 66 - away, (235, 235, 235))
    picture = _paint(picture, 61 - away, (200, 30, 40))
    picture = _paint(picture, np.minimum(40 - np.abs(x - 144), 9 - np.abs(y - 92)), (240, 240, 240))
    return _finish(rng, picture, 66 - away, [(144, 60)])


def _bus(rng: np.random.Generator) -> Drawing:
    x, y = _grid()
    picture = _background(rng, (190, 210, 230), (95, 95, 100), 18)
    body = np.minimum(np.minimum(x - 40, 250 - x), np.minimum(y - 62, 168 - y))
    picture = _paint(picture, body, (238, 178, 24))
    windows = np.minimum(np.minimum(x - 52, 240 - x), np.minimum(y - 76, 108 - y))
    picture = _paint(picture, np.where(np.mod(x - 52, 27) < 22, windows, -1), (48, 58, 68))
    inside = body
    for at in (88, 205):
        inside = np.maximum(inside, _disc((at, 168), 20))
        picture = _paint(picture, _disc((at, 168), 20), (28, 28, 30))
        picture = _paint(picture, _disc((at, 168), 9), (150, 150, 152))
    return _finish(rng, picture, inside, [(145, 132), (88, 168), (205, 168)])


def _star(rng: np.random.Generator) -> Drawing:
    x, y = _grid()
    picture = _background(rng, (235, 230, 220), (225, 220, 205), 4)
    angle, away = np.arctan2(y - 112, x - 144), np.hypot(x - 144, y - 112)
    inside = 78 - away * (1 + 0.55 * np.abs((angle * 5 / np.pi + 0.5) % 2 - 1))
    return _finish(rng, _paint(picture, inside, (40, 70, 160)), inside, [(144, 112)])


def _umbrella(rng: np.random.Generator) -> Drawing:
    x, y = _grid()
    picture = _background(rng, (170, 175, 180), (120, 118, 115), 14)
    roof = np.minimum(_disc((144, 128), 88), 120 - y)
    handle = np.minimum(np.minimum(4 - np.abs(x - 144), y - 118), 196 - y)
    stripe = np.where(np.mod(np.arctan2(128 - y, x - 144), np.pi / 4) < np.pi / 8, 1.0, 0.7)[..., None]
    picture = _paint(_paint(picture, handle, (70, 50, 35)), roof, np.array((180, 40, 120)) * stripe)
    return _finish(rng, picture, np.maximum(roof, handle), [(144, 80)])
