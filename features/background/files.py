"""Gives a picture, or a folder of frames, another background: file to file, folder to folder."""

from pathlib import Path
from typing import Final

import numpy as np
from alcove.features.background.answer import BackgroundAnswer, program_path
from alcove.features.background.composition import Blur, Replacement, Scene, Stage
from alcove.features.background.config import DEFAULT_VERSION
from alcove.features.background.stream import BackgroundStream
from alcove.features.errors import FieldError
from alcove.features.picture import MissingPictureError, PictureError, read_picture, write_picture
from alcove.runtime import load
from numpy.typing import NDArray

__all__ = ["MODES", "convert", "make_scene"]

MODES: Final = ("blur", "replace", "stage")
ENDINGS: Final = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".ppm"})
"""Of the files in a folder that are frames."""


def make_scene(mode: str, picture: NDArray[np.uint8] | None = None) -> Scene:
    """Return the scene of a mode.

    Args:
        mode: one of `MODES`.
        picture: the background, or the stage; needed but for "blur".

    Raises:
        PictureError: the picture is none.
        FieldError: the mode is none, or its picture is missing.
    """
    if mode not in MODES:
        raise FieldError("mode", ", ".join(MODES), mode)
    if mode == "blur":
        return Blur()
    if picture is None:
        raise FieldError("picture", f'a picture for the mode "{mode}"', picture)
    return Replacement(picture) if mode == "replace" else Stage(picture)


def convert(source: Path, target: Path, mode: str = "blur", picture: Path | None = None) -> BackgroundAnswer:
    """Write a picture or a folder of frames with another background, and return the last frame's answer.

    Args:
        source: a picture, or a folder whose pictures are the frames in the order of their names.
        target: a picture, or a folder, which is made.
        mode: one of `MODES`.
        picture: the background, or the stage; needed but for "blur".

    Raises:
        PictureError: a picture cannot be read or written, or a folder has none.
        FieldError: the mode is none, or its picture is missing.
    """
    scene = make_scene(mode, None if picture is None else read_picture(picture))
    stream = BackgroundStream(load(program_path(DEFAULT_VERSION)), scene)
    if not source.is_dir():
        write_picture(stream.show(read_picture(source)), target)
    else:
        frames = sorted(path for path in source.iterdir() if path.suffix.lower() in ENDINGS)
        if not frames:
            raise MissingPictureError(f"{source} has no picture: {', '.join(sorted(ENDINGS))}")
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MissingPictureError(f"{target} is no folder: {error.strerror}") from error
        for path in frames:
            write_picture(stream.show(read_picture(path)), target / path.name)
    if stream.answer is None:
        raise PictureError(f"{source}: no frame was answered")
    return stream.answer
