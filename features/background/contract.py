"""Defines the background feature for apps: a frame of a camera in, a matte of the people in it out."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from alcove.features.background.answer import BackgroundAnswer, decode, program_path
from alcove.features.background.config import DEFAULT_VERSION
from alcove.features.background.frames import check_frame, shrink
from alcove.features.picture import MissingPictureError, read_picture
from numpy.typing import NDArray

__all__ = ["Background", "BackgroundAnswer", "FrameShrinker", "program_path"]


class FrameShrinker:
    """The framing of a stream: a frame of any size is one run.  A change of size is a cut, which the program sees."""

    def encode_frame(self, frame: NDArray[Any]) -> tuple[tuple[NDArray[np.uint8]], ...]:
        """Return the inputs of the one run.

        Raises:
            PictureError: it is no frame; the stream goes on as if it had not been.
        """
        return ((shrink(check_frame(frame)),),)

    def decode_frame(self, outputs: list[list[Any]]) -> BackgroundAnswer:
        """Return the answer of the one run.

        Raises:
            ValueError: the outputs are not those of this feature.
        """
        if len(outputs) != 1:
            raise ValueError(f"a frame is one run; there were {len(outputs)}")
        return decode(outputs[0])

    def skip_frame(self) -> None:
        """Do nothing: no frame leaves a remainder."""

    def reset(self) -> None:
        """Do nothing: no frame leaves a remainder."""


class Background:
    """Video background: a frame in, `BackgroundAnswer` out; a session is one camera."""

    name: ClassVar[str] = "background"
    summary: ClassVar[str] = (
        "Finds people in frames of a camera; blurs or replaces what is behind them, or sets a stage."
    )
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)
    converts_folders: ClassVar[bool] = True
    """`convert` takes a folder of frames, too."""

    def parse(self, line: bytes) -> tuple[NDArray[np.uint8]]:
        """Return the program's input for a line that holds the path of a picture, the next frame.

        Raises:
            PictureError: the line is no path, or there is no picture that can be read.
        """
        try:
            path = line.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise MissingPictureError("a line holds the path of a picture, in UTF-8") from None
        if not path:
            raise MissingPictureError("a line holds the path of a picture; this one is empty")
        return self.prepare(read_picture(Path(path)))

    def prepare(self, frame: NDArray[Any]) -> tuple[NDArray[np.uint8]]:
        """Return the program's input for a frame, uint8 [height, width, 3], red, green, blue, of any size.

        Raises:
            PictureError: it is no such frame, has no pixels or too many.
        """
        return (shrink(check_frame(frame)),)

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> BackgroundAnswer:
        """Return the answer in a program's output, matte f32 [HEIGHT, WIDTH].

        Raises:
            ValueError: the outputs are not that, or hold what is no share.
        """
        return decode(outputs)

    def framing(self) -> FrameShrinker:
        """Return the framing of a new stream."""
        return FrameShrinker()

    def convert(self, source: Path, target: Path, mode: str = "blur", picture: Path | None = None) -> BackgroundAnswer:
        """Write a picture or a folder of frames with another background, and return the last frame's answer.

        Args:
            source: a picture, or a folder whose pictures are the frames in the order of their names.
            target: a picture, or a folder, which is made.
            mode: "blur", "replace" or "stage".
            picture: the background, or the stage; needed but for "blur".

        Raises:
            PictureError: a picture cannot be read or written.
            FieldError: the mode is none, or its picture is missing.
        """
        from alcove.features.background.files import convert  # noqa: PLC0415 - loads the runtime

        return convert(source, target, mode, picture)
