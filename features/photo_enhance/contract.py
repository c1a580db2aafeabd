"""Defines photo enhancement for apps: what a picture needs, and how to give it."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from alcove.features.photo_enhance.answer import EnhanceAnswer, Recipe, decode, prepare, program_path
from alcove.features.photo_enhance.config import DEFAULT_VERSION
from alcove.features.picture import MissingPictureError, read_picture
from numpy.typing import NDArray

__all__ = ["EnhanceAnswer", "PhotoEnhance", "Recipe", "program_path"]


class PhotoEnhance:
    """Photo enhancement: one picture in, `EnhanceAnswer` out; `enhance.Enhancer` changes the picture by it."""

    name: ClassVar[str] = "photo_enhance"
    summary: ClassVar[str] = "Brightens, retouches and enlarges photos of any size, and says which of it a photo needs."
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)

    def parse(self, line: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the program's inputs for a line that holds the path of a picture.

        Raises:
            PictureError: the line is no path, or there is no picture that can be read.
        """
        try:
            path = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise MissingPictureError("a line holds the path of a picture, in UTF-8") from None
        if not path:
            raise MissingPictureError("a line holds the path of a picture; this one is empty")
        return self.prepare(read_picture(Path(path), keeps_alpha=True))

    def prepare(self, pixels: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the program's inputs: the small picture and the middle of the large one.

        Raises:
            PictureError: `picture.check_pixels`.
        """
        return prepare(pixels)

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> EnhanceAnswer:
        """Return the answer in a program's outputs; `answer.decode`.

        Raises:
            ValueError: the outputs are not those, or hold what is no probability.
        """
        return decode(outputs)

    def convert(self, source: Path, target: Path) -> EnhanceAnswer:
        """Write a picture, changed as is suggested for it, and return the answer.

        Raises:
            PictureError: the picture cannot be read or written.
        """
        from alcove.features.photo_enhance.enhance import Enhancer  # noqa: PLC0415 - loads the runtime
        from alcove.features.picture import write_picture  # noqa: PLC0415

        pixels = read_picture(source, keeps_alpha=True)
        enhancer = Enhancer()
        answer = enhancer.analyze(pixels)
        write_picture(enhancer.enhance(pixels, answer.recipe_for(pixels.shape[1], pixels.shape[0]), answer), target)
        return answer
