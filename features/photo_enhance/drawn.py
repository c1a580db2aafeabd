"""Draws pictures by rules, for the demo, the tests and the contact sheet: no photo may be passed on with alcove."""

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

HEIGHT: Final = 180
WIDTH: Final = 240
SEED: Final = 7


def scene(height: int = HEIGHT, width: int = WIDTH) -> NDArray[np.uint8]:
    """Return a coast, uint8 [height, width, 3]: sky, hills, water with ripples, a house, a sun and a dark shore."""
    down, across = np.mgrid[0:height, 0:width].astype(np.float32)
    y, x = down / height, across / width
    sky = np.stack([0.35 + 0.5 * y, 0.6 + 0.3 * y, 0.95 - 0.05 * y], 2)
    ridge = 0.42 + 0.07 * np.sin(9 * x + 1) + 0.03 * np.sin(31 * x)
    hill = np.stack([0.2 + 0.25 * x, 0.45 + 0.15 * np.sin(40 * x + 60 * y), 0.2 + 0 * x], 2)
    ripple = 0.08 * np.sin(90 * y + 12 * np.sin(14 * x))
    water = np.stack([0.1 + 0.1 * y + ripple, 0.35 + 0.1 * y + ripple, 0.55 + 0.2 * y + ripple], 2)
    picture = np.where((y < ridge)[..., None], sky, np.where((y < 0.62)[..., None], hill, water))
    shore = y > 0.88 + 0.03 * np.sin(17 * x)
    picture = np.where(shore[..., None], np.array([0.07, 0.06, 0.05]), picture)
    sun = np.clip(12 - 160 * np.hypot((x - 0.8) * width / height, y - 0.16), 0, 1)[..., None]
    picture = picture * (1 - sun) + np.array([1.0, 0.95, 0.7]) * sun
    walls = (abs(x - 0.3) < 0.08) & (y > 0.44) & (y < 0.6)
    roof = (y > 0.44 - 0.1 + abs(x - 0.3)) & (y <= 0.44) & (abs(x - 0.3) < 0.1)
    windows = walls & (np.sin(75 * x) > 0.5) & (abs(y - 0.52) < 0.03)
    for place, color in ((walls, (0.9, 0.86, 0.8)), (roof, (0.7, 0.25, 0.2)), (windows, (0.25, 0.3, 0.4))):
        picture = np.where(place[..., None], np.array(color), picture)
    drawn: NDArray[np.uint8] = np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    return drawn


def drawings() -> Mapping[str, NDArray[np.uint8]]:
    """Return the scene as it is, in little light, flat, and with noise; the same ones each time."""
    rng, whole = np.random.default_rng(SEED), scene()
    noisy = np.clip(whole + rng.normal(0, 20, whole.shape), 0, 255)
    return {
        "a coast": whole,
        "in little light": np.rint(whole * 0.18).astype(np.uint8),
        "flat": np.rint(110 + (whole - 110.0) * 0.4).astype(np.uint8),
        "with noise": np.rint(noisy).astype(np.uint8),
    }


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return a PNG file of uint8 [height, width, 3]."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
