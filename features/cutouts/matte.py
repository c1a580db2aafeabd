"""Applies a program's edges at a photo's size: alpha, the crop around the cutout, and the sticker.

alpha = slope x gray + offset, where slope and offset are linear between the cells of the mask; by strips of rows, so
that the memory is bounded beside the photo and its alpha.
"""

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

STRIP: Final = 1 << 18
"""Pixels of a strip of rows, about."""
LUMA: Final = (0.299, 0.587, 0.114)
"""Of red, green and blue in gray: ITU-R BT.601, as in the program."""
WHITE: Final = 255
HALF: Final = 0.5


@dataclass(frozen=True, eq=False)
class Edges:
    """What alpha is made of.

    Attributes:
        slope: f32 [rows, columns], of alpha over gray in [0, 1].
        offset: f32 [rows, columns].
    """

    slope: NDArray[np.float32]
    offset: NDArray[np.float32]

    def alpha(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return alpha of a photo, f32 [height, width] in [0, 1].

        Args:
            pixels: uint8 [height, width, 3], the photo that the program was given, at any size.
        """
        height, width = pixels.shape[:2]
        found = np.empty((height, width), np.float32)
        below, share = _between(height, self.slope.shape[0])
        left, part = _between(width, self.slope.shape[1])
        luma = np.array(LUMA, np.float32) / 255
        rows = max(1, STRIP // width)
        for first in range(0, height, rows):
            strip = slice(first, first + rows)
            gray = pixels[strip] @ luma
            slope = _spread(self.slope, below[strip], share[strip], left, part)
            offset = _spread(self.offset, below[strip], share[strip], left, part)
            np.multiply(slope, gray, out=slope)
            np.add(slope, offset, out=slope)
            np.clip(slope, 0, 1, out=found[strip])
        return found


@lru_cache(maxsize=16)
def _between(length: int, cells: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return, of each of `length` pixels in a row, the cell before its middle and how far it is to the next one."""
    middle = np.clip((np.arange(length) + 0.5) * (cells / length) - 0.5, 0, cells - 1)
    first = np.minimum(middle.astype(np.intp), max(0, cells - 2))
    return first, (middle - first).astype(np.float32)


def _spread(
    cells: NDArray[np.float32],
    row: NDArray[np.intp],
    down: NDArray[np.float32],
    column: NDArray[np.intp],
    across: NDArray[np.float32],
) -> NDArray[np.float32]:
    upper = cells[row]
    lines = upper + (cells[row + 1] - upper) * down[:, None]
    left: NDArray[np.float32] = np.asarray(np.take(lines, column, axis=1), np.float32)
    right: NDArray[np.float32] = np.asarray(np.take(lines, column + 1, axis=1), np.float32)
    right -= left
    right *= across
    right += left
    return right


def bounds_of(alpha: NDArray[np.float32]) -> tuple[int, int, int, int] | None:
    """Return left, top, right, bottom in pixels of what is at least half covered; None where nothing is."""
    is_in = alpha >= HALF
    columns, rows = np.flatnonzero(is_in.any(axis=0)), np.flatnonzero(is_in.any(axis=1))
    if not len(columns):
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def outline(alpha: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Return alpha widened by `width` pixels to all sides: the largest within that distance.

    Args:
        alpha: f32 [rows, columns], with that much room around what is covered.
        width: of the outline, in pixels, >= 0.
    """
    found = alpha.copy()
    for down in range(-width, width + 1):
        reach = int((width * width - down * down) ** 0.5)
        for across in {-reach, -reach // 2, 0, reach // 2, reach}:
            rows = slice(max(0, down), alpha.shape[0] + min(0, down))
            columns = slice(max(0, across), alpha.shape[1] + min(0, across))
            from_rows = slice(max(0, -down), alpha.shape[0] + min(0, -down))
            from_columns = slice(max(0, -across), alpha.shape[1] + min(0, -across))
            part = found[rows, columns]
            np.maximum(part, alpha[from_rows, from_columns], out=part)
    return found


def make_sticker(pixels: NDArray[np.uint8], alpha: NDArray[np.float32], border: int) -> NDArray[np.uint8]:
    """Return the cutout with a white outline on nothing, uint8 [rows, columns, 4], no larger than it needs.

    Args:
        pixels: uint8 [height, width, 3].
        alpha: f32 [height, width] in [0, 1].
        border: width of the outline in pixels, 0 for none.

    Raises:
        ValueError: nothing is covered.
    """
    bounds = bounds_of(alpha)
    if bounds is None:
        raise ValueError("nothing is cut out: alpha is nowhere a half")
    left, top, right, bottom = bounds
    room = ((border + 1, border + 1), (border + 1, border + 1))
    own = np.pad(alpha[top:bottom, left:right], room)
    colors = np.pad(pixels[top:bottom, left:right], (*room, (0, 0)))
    around = outline(own, border) if border else own
    share = own / np.maximum(around, 1e-6)
    mixed = colors * share[..., None] + WHITE * (1 - share[..., None])
    return np.dstack([np.rint(mixed), np.rint(around * WHITE)]).astype(np.uint8)


def png_of(pixels: NDArray[Any]) -> bytes:
    """Return a PNG file of a picture, uint8 [height, width, 3], or with transparency [height, width, 4].

    Source: W3C, "Portable Network Graphics", third edition: the least that a file needs.
    """
    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
