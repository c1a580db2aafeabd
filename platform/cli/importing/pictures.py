"""Reads pictures as image models are evaluated: the middle of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import typer
from numpy.typing import NDArray

ENDINGS: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
CROP: Final = 224 / 256
"""Of the shorter side, as image models are evaluated."""
MOST_PIXELS: Final = 64_000_000

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Pictures:
    """Size and normalization of a model's pictures.

    Attributes:
        size: height and width of what the program takes, in pixels.
        mean: of each channel, in [0, 1].
        std: of each channel.
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]


def three_numbers(option: str, text: str) -> tuple[float, ...]:
    """Return the numbers in "0.5,0.5,0.5".

    Raises:
        typer.BadParameter: these are not three numbers in [0, 1], or a deviation is 0.
    """
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    least = 1e-6 if option == "--std" else 0.0
    if len(numbers) != 3 or not all(least <= number <= 1 for number in numbers):
        raise typer.BadParameter(f"{option} is three numbers in [{least:g}, 1], such as 0.5,0.5,0.5; got {text!r}")
    return numbers


def picture_files(folder: Path) -> list[Path]:
    """Return the pictures in a folder and its folders, by name.

    Raises:
        typer.BadParameter: there are none.
    """
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    if not found:
        kinds = ", ".join(sorted(ENDINGS))
        raise typer.BadParameter(f"--pictures {folder}: no picture there (files ending in {kinds})")
    return found


def spread(paths: Sequence[Path], most: int) -> list[Path]:
    """Return at most `most` of the paths, evenly over all of them: folders are often classes."""
    count = min(most, len(paths))
    return [paths[i * len(paths) // count] for i in range(count)]


def read_picture(path: Path, size: tuple[int, int]) -> Pixels:
    """Return a picture as RGB uint8 [height, width, 3]: its middle, as image models are evaluated.

    Raises:
        typer.BadParameter: the file is no picture, or too large; names it.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError  # noqa: PLC0415 - only this verb reads pictures

    try:
        with Image.open(path) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise typer.BadParameter(
                    f"{path}: {opened.width}x{opened.height} pixels; at most {MOST_PIXELS:,} are read"
                )
            upright = ImageOps.exif_transpose(opened).convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise typer.BadParameter(f"{path}: not a picture that can be read ({error})") from None
    height, width = size
    full = round(width / CROP), round(height / CROP)
    fitted = ImageOps.fit(upright, full, Image.Resampling.BILINEAR)
    left, top = (full[0] - width) // 2, (full[1] - height) // 2
    return np.asarray(fitted.crop((left, top, left + width, top + height)), np.uint8).copy()
