"""Draws pictures by rules, to show and to test with, because none of the data may be passed on.

They are no photographs: what the feature says of them shows that it runs, not how good it is.
"""

import itertools
import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

WIDTH: Final = 288
HEIGHT: Final = 224
Array = NDArray[Any]


def drawings() -> dict[str, NDArray[np.uint8]]:
    """Return pictures by what they are meant to be, uint8 [224, 288, 3]; the same ones each time."""
    makers = {
        "street of houses": _street,
        "yellow bus": _bus,
        "stop sign": _stop_sign,
        "traffic light": _traffic_light,
        "clock": _clock,
        "keyboard": _keyboard,
        "umbrella": _umbrella,
        "television": _television,
        "lemon": _lemon,
        "oranges": _oranges,
    }
    return {name: make(np.random.default_rng(number)) for number, (name, make) in enumerate(makers.items())}


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return a PNG file of a picture, uint8 [height, width, 3].

    Source: W3C, "Portable Network Graphics", third edition: the least that a file needs.
    """
    height, width = pixels.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _grid() -> tuple[Array, Array]:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    return x, y


def _between(top: tuple[int, ...], bottom: tuple[int, ...], share: Array) -> Array:
    share = np.clip(share, 0, 1)[..., None]
    mix_batch: Array = np.array(top) * (1 - share) + np.array(bottom) * share
    return mix_batch


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


def _sky(rng: np.random.Generator) -> Array:
    _, y = _grid()
    clouds = np.clip(_grain(rng, 40, 30) + _grain(rng, 16, 12), 0, 60)
    sky: Array = _between((96, 150, 220), (205, 225, 240), y / (0.6 * HEIGHT)) + clouds
    return sky


def _add_noise(picture: Array, rng: np.random.Generator) -> NDArray[np.uint8]:
    noisy = picture + rng.normal(0, 3, (HEIGHT, WIDTH, 1))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def _street(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    picture = _sky(rng)
    middle = WIDTH / 2
    for side in (-1, 1):
        away = np.clip(side * (x - middle) / middle, 0.02, 1)
        wall = (side * (x - middle) > 18) & (y > 125 - 150 * away) & (y < 130 + 60 * away)
        column = np.log(away) * 9
        row = (y - 128) / away / 26
        is_window = (np.mod(column, 1.5) < 0.8) & (np.mod(row, 1) < 0.55)
        stone = np.array([165, 140, 118]) + 25 * np.sin(np.floor(column / 3))[..., None] + _grain(rng, 6, 6)
        picture = np.where(wall[..., None], np.where(is_window[..., None], (62, 72, 88), stone), picture)
    road = (y > 128) & (np.abs(x - middle) < 18 + 1.7 * (y - 128))
    pavement = np.where((y > 130)[..., None] & (picture.sum(axis=2) > 500)[..., None], 150, picture)
    picture = np.where(road[..., None], 88 + _grain(rng, 3, 6), pavement)
    line = road & (np.abs(x - middle) < 0.05 * (y - 120)) & (np.mod(900 / (y - 115 + 1e-6), 2) < 1)
    return _add_noise(np.where(line[..., None], 225, picture), rng)


def _bus(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    trees = np.array([85, 115, 70]) + _grain(rng, 10, 22)
    picture = np.where((y > 80)[..., None], trees, _sky(rng))
    picture = np.where((y > 158)[..., None], 96 + _grain(rng, 3, 5), picture)
    body = (x > 40) & (x < 250) & (y > 62) & (y < 168)
    picture = np.where(body[..., None], np.array([238, 178, 24]) * (1.06 - 0.12 * (y - 62) / 106)[..., None], picture)
    windows = (x > 52) & (x < 240) & (y > 76) & (y < 108) & (np.mod(x - 52, 27) < 22)
    picture = np.where(windows[..., None], (48, 58, 68), picture)
    stripe = body & ((np.abs(y - 120) < 2) | (np.abs(y - 140) < 2))
    picture = np.where(stripe[..., None], (25, 25, 25), picture)
    for at in (88, 205):
        away = np.hypot(x - at, y - 168)
        picture = np.where((away < 20)[..., None], (28, 28, 30), picture)
        picture = np.where((away < 9)[..., None], (150, 150, 152), picture)
    return _add_noise(picture, rng)


def _disc(picture: Array, at: tuple[float, float], radius: float, color: Sequence[float], soft: float = 1.0) -> Array:
    """Return a picture with a disc on it, its edge as wide as `soft`."""
    x, y = _grid()
    covered = np.clip((radius - np.hypot(x - at[0], y - at[1])) / soft + 0.5, 0, 1)[..., None]
    return picture * (1 - covered) + np.array(color) * covered


def _box(picture: Array, corners: tuple[float, float, float, float], color: Sequence[float]) -> Array:
    """Return a picture with a box on it: left, top, right, bottom."""
    x, y = _grid()
    left, top, right, bottom = corners
    inside = np.minimum(np.minimum(x - left, right - x), np.minimum(y - top, bottom - y))
    covered = np.clip(inside + 0.5, 0, 1)[..., None]
    return picture * (1 - covered) + np.array(color) * covered


def _stroke(picture: Array, points: Sequence[tuple[float, float]], wide: float, color: Sequence[float]) -> Array:
    """Return a picture with a line on it, from point to point."""
    x, y = _grid()
    for (left, top), (right, bottom) in itertools.pairwise(points):
        across, down = right - left, bottom - top
        along = np.clip(((x - left) * across + (y - top) * down) / (across**2 + down**2), 0, 1)
        away = np.hypot(x - left - along * across, y - top - along * down)
        covered = np.clip(wide / 2 - away + 0.5, 0, 1)[..., None]
        picture = picture * (1 - covered) + np.array(color) * covered
    return picture


def _octagon(picture: Array, at: tuple[float, float], radius: float, color: Sequence[float]) -> Array:
    x, y = _grid()
    across, down = np.abs(x - at[0]), np.abs(y - at[1])
    away = np.maximum(np.maximum(across, down), (across + down) / np.sqrt(2))
    covered: Array = np.clip(radius - away + 0.5, 0, 1)[..., None]
    drawn: Array = picture * (1 - covered) + np.array(color) * covered
    return drawn


def _stop_sign(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    picture = _sky(rng)
    grass = np.array([60, 95, 50]) + _grain(rng, 5, 18)
    picture = np.where((y > 150 + 6 * np.sin(x / 23))[..., None], grass, picture)
    picture = _box(picture, (140, 100, 147, 224), (120, 122, 125))
    picture = _octagon(picture, (144, 84), 66, (240, 240, 240))
    picture = _octagon(picture, (144, 84), 61, (190, 25, 35))
    letters: tuple[tuple[tuple[float, float], ...], ...] = (
        ((112, 64), (92, 64), (92, 84), (112, 84), (112, 104), (92, 104)),
        ((120, 64), (142, 64)),
        ((131, 64), (131, 104)),
        ((150, 64), (168, 64), (168, 104), (150, 104), (150, 64)),
        ((178, 104), (178, 64), (196, 64), (196, 84), (178, 84)),
    )
    for points in letters:
        picture = _stroke(picture, points, 7, (245, 245, 245))
    return _add_noise(picture, rng)


def _traffic_light(rng: np.random.Generator) -> NDArray[np.uint8]:
    _, y = _grid()
    trees = np.array([70, 100, 60]) + _grain(rng, 6, 14)
    picture = np.where((y > 170)[..., None], trees, _sky(rng))
    picture = _box(picture, (139, 140, 149, HEIGHT), (70, 72, 74))
    picture = _box(picture, (118, 20, 170, 150), (28, 30, 32))
    for down, color in ((42, (235, 45, 35)), (85, (75, 60, 22)), (128, (22, 62, 38))):
        picture = _disc(picture, (144, down), 20, (12, 12, 13))
        picture = _disc(picture, (144, down), 17, color)
    return _add_noise(_disc(picture, (144, 40), 7, (255, 140, 120), 8), rng)


def _clock(rng: np.random.Generator) -> NDArray[np.uint8]:
    _, y = _grid()
    picture = _between((230, 226, 218), (215, 210, 200), y / HEIGHT) + _grain(rng, 30, 2)
    picture = _disc(picture, (149, 118), 82, (140, 130, 115), 14)
    picture = _disc(picture, (144, 112), 80, (25, 25, 28))
    picture = _disc(picture, (144, 112), 71, (250, 249, 244))

    def hand(minutes: float, first: float, last: float, wide: float) -> Array:
        across, up = np.sin(minutes * np.pi / 30), np.cos(minutes * np.pi / 30)
        ends = [(144 + far * across, 112 - far * up) for far in (first, last)]
        return _stroke(picture, ends, wide, (25, 25, 25))

    for minute in range(60):
        is_hour = minute % 5 == 0
        picture = hand(minute, 54 if is_hour else 63, 67, 5 if is_hour else 1.5)
    picture = hand(50.8, -8, 36, 7)
    picture = hand(10, -12, 56, 5)
    return _add_noise(_disc(picture, (144, 112), 6, (20, 20, 20)), rng)


def _keyboard(rng: np.random.Generator) -> NDArray[np.uint8]:
    picture = _box(60.0 + _grain(rng, 9, 4) + np.zeros(3), (10, 50, 278, 180), (30, 30, 32))
    for row, column in itertools.product(range(5), range(14)):
        left, top = 18 + 18.4 * column, 58 + 24.0 * row
        picture = _box(picture, (left, top, left + 15, top + 20), (70, 72, 76))
        picture = _box(picture, (left + 2, top + 1, left + 13, top + 15), (95, 97, 102))
        picture = _box(picture, (left + 6, top + 5, left + 10, top + 10), (220, 220, 220))
    return _add_noise(picture, rng)


def _umbrella(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    picture = _between((200, 205, 215), (150, 155, 165), y / HEIGHT) + _grain(rng, 30, 8)
    edge = 118 - 9 * np.abs(np.sin((x - 34) / 55 * np.pi))
    is_cloth = (np.hypot((x - 144) / 110, (y - 118) / 92) < 1) & (y < edge)
    is_first = np.mod(np.floor((x - 34) / 27.5), 2) == 0
    cloth = np.where(is_first[..., None], (200, 30, 45), (235, 60, 70)) * (1.05 - 0.3 * x / WIDTH)[..., None]
    picture = _stroke(np.where(is_cloth[..., None], cloth, picture), ((144, 24), (144, 196)), 4, (50, 40, 35))
    for turn in np.linspace(0, np.pi, 12):
        picture = _disc(picture, (132 + 12 * np.cos(turn), 196 + 12 * np.sin(turn)), 3, (90, 55, 30))
    return _add_noise(picture, rng)


def _television(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    picture = _between((200, 195, 185), (180, 172, 160), y / HEIGHT) + _grain(rng, 20, 4)
    picture = _box(picture, (0, 182, WIDTH, HEIGHT), (120, 85, 55))
    picture = _box(picture, (46, 28, 242, 156), (20, 20, 22))
    is_screen = (x > 52) & (x < 236) & (y > 34) & (y < 150)
    is_hill = is_screen & (y > 105 + 8 * np.sin(x / 19))
    picture = np.where(is_screen[..., None], 0.9 * _sky(rng), picture)
    picture = np.where(is_hill[..., None], (50, 100, 50), picture)
    picture = _box(picture, (132, 156, 156, 176), (25, 25, 27))
    return _add_noise(_box(picture, (104, 174, 184, 182), (25, 25, 27)), rng)


def _ball(picture: Array, at: tuple[int, int], wide: float, high: float, colour: tuple[int, ...]) -> Array:
    """Return a picture with a lit ball on it, its middle at x, y."""
    x, y = at
    across, down = _grid()
    away = np.hypot((across - x) / wide, (down - y) / high)
    light = np.clip(1.15 - 0.35 * away**2 - 0.25 * ((across - x) / wide + (down - y) / high), 0.25, 1.3)
    shine = 60 * np.exp(-(((across - x) / wide + 0.35) ** 2 + ((down - y) / high + 0.4) ** 2) * 14)
    lit = np.array(colour) * light[..., None] + shine[..., None]
    shadow = np.hypot((across - x - 12) / (1.1 * wide), (down - y - 0.8 * high) / (0.5 * high)) < 1
    darker = np.where(shadow[..., None], picture * 0.7, picture)
    return np.where((away < 1)[..., None], lit, darker)


def _lemon(rng: np.random.Generator) -> NDArray[np.uint8]:
    _, y = _grid()
    picture = _between((70, 110, 70), (50, 90, 55), y / HEIGHT) + _grain(rng, 12, 6)
    picture = _ball(picture, (204, 118), 22, 14, (235, 210, 60))
    picture = _ball(picture, (68, 118), 20, 13, (235, 210, 60))
    picture = _ball(picture, (138, 118), 80, 50, (250, 226, 60))
    return _add_noise(picture + _grain(rng, 3, 6), rng)


def _oranges(rng: np.random.Generator) -> NDArray[np.uint8]:
    _, y = _grid()
    table = _between((120, 90, 62), (92, 66, 44), y / HEIGHT) + _grain(rng, 7, 7)
    picture = table
    for x, down, wide in ((95, 90, 52), (190, 98, 54), (140, 150, 56)):
        picture = _ball(picture, (x, down), wide, wide, (248, 138, 22))
    return _add_noise(picture + _grain(rng, 2, 5), rng)
