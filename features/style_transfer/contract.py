"""Defines style transfer for apps: a picture and a look in; the picture as the painting's style has it out."""

from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from alcove.features.errors import FieldError
from alcove.features.picture import read_picture, write_picture
from alcove.features.style_transfer.config import COLUMNS, DEFAULT_VERSION, ROWS, STYLES
from alcove.features.style_transfer.frames import fit_frame, repaint
from alcove.features.style_transfer.look import Look, read_line
from numpy.typing import NDArray

__all__ = ["PROGRAMS", "StyleAnswer", "StyleTransfer", "program_path"]

PROGRAMS: Final = Path(__file__).parent / "programs"


def program_path(version: str, variant: str = "int8") -> Path:
    """Return where the committed program of a variant lies, whether or not there is one."""
    return PROGRAMS / f"style_transfer-{version}{'' if variant == 'int8' else f'-{variant}'}.alc"


@dataclass(frozen=True, kw_only=True)
class StyleAnswer:
    """A painted frame.

    Attributes:
        red: mean of the frame, 0 to 1.
        green: likewise.
        blue: likewise.
        painted: argument only: uint8 [ROWS, COLUMNS, 3]; `frame` afterwards, so that an answer is small as JSON.

    Raises:
        FieldError: a mean is out of its bound.
    """

    red: float
    green: float
    blue: float
    painted: InitVar[NDArray[np.uint8]]

    def __post_init__(self, painted: NDArray[np.uint8]) -> None:
        for name in ("red", "green", "blue"):
            if not 0 <= getattr(self, name) <= 1:
                raise FieldError(name, "0 to 1", getattr(self, name))
        object.__setattr__(self, "_painted", painted)

    @property
    def frame(self) -> NDArray[np.uint8]:
        """The painted frame, uint8 [ROWS, COLUMNS, 3]; of a picture of that size it is the painted picture."""
        painted: NDArray[np.uint8] = getattr(self, "_painted")  # noqa: B009 - no field, see above
        return painted

    def apply(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the picture that was painted at its own size, uint8 [height, width, 3], or 4 where it has alpha.

        Args:
            pixels: the picture that was prepared.

        Raises:
            PictureError: it is no picture.
        """
        return repaint(self.frame, pixels)


class StyleTransfer:
    """Style transfer: a picture and a look in, `StyleAnswer` out."""

    name: ClassVar[str] = "style_transfer"
    summary: ClassVar[str] = f"Paints pictures and video in the manner of {len(STYLES)} paintings, mixed as you like."
    default_version: ClassVar[str] = DEFAULT_VERSION
    default_program: ClassVar[Path] = program_path(DEFAULT_VERSION)

    def parse(self, line: bytes) -> tuple[NDArray[Any], ...]:
        """Return the program's inputs for a line: the path of a picture, or JSON with a look; `look.read_line`.

        Raises:
            PictureError: there is no picture that can be read.
            FieldError: style or strength are not as they must be.
            ValueError: the line is neither.
        """
        path, look = read_line(line)
        return self.prepare(read_picture(path), look)

    def prepare(self, pixels: NDArray[Any], look: Look | None = None) -> tuple[NDArray[Any], ...]:
        """Return the program's inputs: frame uint8 [ROWS, COLUMNS, 3], styles f32 [1, styles], strength f32 [1].

        Args:
            pixels: uint8 [height, width, 3], with alpha, or grey; of any size and strides.
            look: None for the first style at full strength.

        Raises:
            PictureError: it is no picture, has no pixels or too many.
        """
        return (fit_frame(pixels), *(Look() if look is None else look).arrays())

    def decode(self, outputs: list[np.ndarray[Any, Any]]) -> StyleAnswer:
        """Return the answer in a program's outputs.

        Args:
            outputs: the painted frame, uint8 [ROWS, COLUMNS, 3].

        Raises:
            ValueError: the outputs are not that.
        """
        seen = [(str(np.asarray(each).dtype), np.shape(each)) for each in outputs]
        if seen != [("uint8", (ROWS, COLUMNS, 3))]:
            raise ValueError(f"style_transfer expects one frame, uint8 [{ROWS}, {COLUMNS}, 3]; the program gave {seen}")
        frame = np.array(outputs[0])  # the program's next run writes where its outputs lie
        red, green, blue = (float(each) / 255 for each in frame.mean((0, 1)))
        return StyleAnswer(red=red, green=green, blue=blue, painted=frame)

    def convert(self, source: Path, target: Path, *, style: str = STYLES[0], strength: float = 1.0) -> StyleAnswer:
        """Write a painted picture at its own size, and return the answer.

        Raises:
            PictureError: the picture cannot be read or written.
            FieldError: the style is unknown, or the strength out of its bound.
        """
        from alcove.runtime import load  # noqa: PLC0415 - loads the runtime

        look = Look(style=style, strength=strength)
        pixels = read_picture(source)
        answer = self.decode(load(self.default_program).session()(*self.prepare(pixels, look)))
        write_picture(answer.apply(pixels), target)
        return answer
