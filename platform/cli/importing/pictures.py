"""Reads pictures as image models are evaluated: the middle of each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray

ENDINGS: Final = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
CROP: Final = 224 / 256
"""Of the shorter side, as image models are evaluated."""
GRAY: Final = (114, 114, 114)
"""Beside a picture in a letterbox, as detectors are trained with."""
MOST_PIXELS: Final = 64_000_000
SHOWN: Final = 3
"""Files that a note names."""

Pixels = NDArray[np.uint8]
Sample = TypeVar("Sample")


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


def spread(samples: Sequence[Sample], most: int) -> list[Sample]:
    """Return at most `most` of the samples, evenly over all of them: folders are often classes."""
    count = min(most, len(samples))
    return [samples[i * len(samples) // count] for i in range(count)]


def read_picture(path: Path, size: tuple[int, int], fit: str = "crop") -> Pixels:
    """Return a picture as RGB uint8 [height, width, 3], fitted into the size as one of `FITS`.

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
    bilinear = Image.Resampling.BILINEAR
    if fit == "stretch":
        fitted = upright.resize((width, height), bilinear)
    elif fit == "letterbox":
        fitted = ImageOps.pad(upright, (width, height), bilinear, color=GRAY)
    elif fit == "center":
        fitted = ImageOps.fit(upright, (width, height), bilinear)
    else:
        full = round(width / CROP), round(height / CROP)
        left, top = (full[0] - width) // 2, (full[1] - height) // 2
        fitted = ImageOps.fit(upright, full, bilinear).crop((left, top, left + width, top + height))
    return np.asarray(fitted, np.uint8).copy()


def read_pictures(paths: Sequence[Path], size: tuple[int, int], fit: str) -> tuple[list[Path], list[Pixels], str]:
    """Return the pictures that can be read, what is in them, and in words which cannot; empty if all can.

    Raises:
        typer.BadParameter: none can; names the first.
    """
    read: list[Path] = []
    found: list[Pixels] = []
    problems: list[str] = []
    for path in paths:
        try:
            pixels = read_picture(path, size, fit)
        except typer.BadParameter as error:
            problems.append(str(error))
            continue
        read.append(path)
        found.append(pixels)
    if not found:
        raise typer.BadParameter(problems[0])
    more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    note = f"left out: {'; '.join(problems[:SHOWN])}{more}" if problems else ""
    return read, found, note
