"""Draws pictures by rules, to show and to test with, because none of the data may be passed on.

They are no photographs: what the feature says of them shows that it runs, not how good it is.
"""

import struct
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

WIDTH: Final = 288
HEIGHT: Final = 224
Array = NDArray[Any]


def drawings() -> dict[str, NDArray[np.uint8]]:
    """Return pictures by what they are meant to be, uint8 [224, 288, 3]; the same ones each time."""
    makers = {
        "sea at noon": _sea,
        "mountain with snow": _mountain,
        "forest": _forest,
        "street of houses": _street,
        "bridge over a river": _bridge,
        "yellow bus": _bus,
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


def _sea(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    depth = np.clip((y - 100) / 124, 0.01, 1)
    waves = 14 * np.sin(x / (4 + 30 * depth) + 9 * np.log(depth)) * np.sin(60 * np.sqrt(depth))
    sea = _between((60, 120, 170), (20, 70, 110), depth) + waves[..., None] + _grain(rng, 6, 8)
    sand = np.array([222, 200, 160]) + _grain(rng, 4, 8)
    shore = 190 + 6 * np.sin(x / 30)
    picture = np.where((y > 100)[..., None], sea, _sky(rng))
    return _add_noise(np.where((y > shore)[..., None], sand, picture), rng)


def _mountain(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    picture = _sky(rng)
    rough = _grain(rng, 12, 9)[..., 0] + _grain(rng, 5, 4)[..., 0]
    for peak, top, slope in ((90, 60, 0.9), (200, 35, 0.8), (150, 100, 0.7)):
        edge = top + slope * np.abs(x - peak) + rough
        light = np.where(x > peak, 0.65, 1.0)[..., None]
        rock = np.where((y < edge + 38 + 2 * rough)[..., None], (238, 242, 248), (110, 108, 112)) * light
        picture = np.where((y > edge)[..., None], rock + _grain(rng, 4, 10), picture)
    meadow = np.array([70, 105, 55]) + _grain(rng, 4, 12)
    return _add_noise(np.where((y > 185 + rough)[..., None], meadow, picture), rng)


def _forest(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    leaves = _between((60, 110, 50), (35, 60, 30), y / HEIGHT) + _grain(rng, 9, 30) + _grain(rng, 4, 25)
    picture = leaves
    for at in rng.uniform(0, WIDTH, 14):
        wide = rng.uniform(3, 9)
        trunk = np.abs(x - at - 3 * np.sin(y / 60 + at)) < wide * (0.6 + 0.4 * y / HEIGHT)
        bark = np.array([78, 60, 42]) * (1 - 0.4 * ((x - at) / wide))[..., None] + _grain(rng, 5, 10)
        picture = np.where((trunk & (y > rng.uniform(0, 60)))[..., None], bark, picture)
    crowns = _between((75, 125, 55), (50, 90, 40), y / 90) + _grain(rng, 5, 38)
    return _add_noise(np.where((y < 60 + 2 * _grain(rng, 14, 12)[..., 0])[..., None], crowns, picture), rng)


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


def _bridge(rng: np.random.Generator) -> NDArray[np.uint8]:
    x, y = _grid()
    river = np.array([70, 105, 125]) + (10 * np.sin(y * 1.3 + x / 17))[..., None] + _grain(rng, 6, 6)
    picture = np.where((y > 150)[..., None], river, _sky(rng))
    cable = 40 + 75 * ((x - WIDTH / 2) / 85) ** 2
    cable = np.where(np.abs(x - WIDTH / 2) > 85, 40 + (np.abs(x - WIDTH / 2) - 85) * 1.3, 115 - (cable - 40))
    steel = np.array([165, 62, 48])
    deck = np.abs(y - 128) < 5
    towers = (np.abs(np.abs(x - WIDTH / 2) - 85) < 5) & (y > 36) & (y < 175)
    ropes = (np.abs(y - cable) < 2) & (y < 128)
    hangers = (np.mod(x, 10) < 1.2) & (y > cable) & (y < 128)
    return _add_noise(np.where((deck | towers | ropes | hangers)[..., None], steel, picture), rng)


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
    table = _between((225, 222, 215), (198, 190, 180), y / HEIGHT) + _grain(rng, 12, 3)
    picture = _ball(table, (196, 118), 20, 15, (220, 190, 40))
    picture = _ball(picture, (138, 118), 74, 58, (246, 214, 46))
    return _add_noise(picture + _grain(rng, 3, 4), rng)


def _oranges(rng: np.random.Generator) -> NDArray[np.uint8]:
    _, y = _grid()
    table = _between((120, 90, 62), (92, 66, 44), y / HEIGHT) + _grain(rng, 7, 7)
    picture = table
    for x, down, wide in ((95, 90, 52), (190, 98, 54), (140, 150, 56)):
        picture = _ball(picture, (x, down), wide, wide, (248, 138, 22))
    return _add_noise(picture + _grain(rng, 2, 5), rng)
