"""Defines the background feature for apps: a frame of a camera in, a matte of the people in it out."""

from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from alcove.features.background.config import DEFAULT_VERSION, HEIGHT, WIDTH
from alcove.features.background.frames import check_frame, grow, inside, shrink, to_bytes
from alcove.features.errors import FieldError
from alcove.features.picture import MissingPictureError, read_picture
from numpy.typing import NDArray

if TYPE_CHECKING:
    from alcove.features.background.composition import Scene

PROGRAMS: Final = Path(__file__).parent / "programs"
HALF: Final = 0.5
LEAST: Final = 2e-3
"""Share of the frame from which on somebody counts as seen."""
ROUNDING: Final = 1e-4


def program_path(version: str, variant: str = "int8") -> Path:
    """Return where the committed program of a variant lies, whether or not there is one."""
    return PROGRAMS / f"background-{version}{'' if variant == 'int8' else f'-{variant}'}.alc"


@dataclass(frozen=True, kw_only=True)
class BackgroundAnswer:
    """Where people are in a frame.

    Attributes:
        is_seen: whether there is anybody.
        share: of the program's picture that people cover, 0 to 1.
        certainty: in [0, 1]: how far from undecided the matte is, on the mean.
        matte: f32 [HEIGHT, WIDTH] in [0, 1], for `alpha` and `show`; not a field, so that an answer is small as JSON.

    Raises:
        FieldError: a share is none.
    """

    is_seen: bool
    share: float
    certainty: float
    matte: InitVar[NDArray[np.float32] | None] = None

    def __post_init__(self, matte: NDArray[np.float32] | None) -> None:
        for name in ("share", "certainty"):
            if not -ROUNDING <= getattr(self, name) <= 1 + ROUNDING:
                raise FieldError(name, "0 to 1", getattr(self, name))
        object.__setattr__(self, "_matte", matte)

    def alpha(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return how much of each pixel belongs to people, uint8 [height, width], 255 for all of it.

        Args:
            frame: uint8 [height, width, 3], that was given.

        Raises:
            PictureError: it is no frame.
            ValueError: the answer comes without a matte.
        """
        height, width = check_frame(frame).shape[:2]
        return grow(to_bytes(inside(self._own(), height, width)), height, width)[..., 0]

    def show(
        self, frame: NDArray[np.uint8], scene: "Scene", small: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Return the frame with another background.

        Args:
            frame: uint8 [height, width, 3], that was given.
            scene: `composition.Blur`, `Replacement` or `Stage`.
            small: the program's input for the frame, where it is there still: saves the blur some time.

        Raises:
            PictureError: it is no frame.
            ValueError: the answer comes without a matte.
        """
        return scene.show(check_frame(frame), self._own(), small)

    def _own(self) -> NDArray[np.float32]:
        matte: NDArray[np.float32] | None = getattr(self, "_matte", None)
        if matte is None:
            raise ValueError("this answer has no matte: take the one that a program's outputs were decoded to")
        return matte


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
        return Background().decode(outputs[0])

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
        shapes = [np.shape(output) for output in outputs]
        if shapes != [(HEIGHT, WIDTH)]:
            raise ValueError(f"background expects [{HEIGHT}, {WIDTH}]; the program gave {shapes}")
        matte: NDArray[np.float32] = np.array(outputs[0], np.float32)
        low, high = float(matte.min()), float(matte.max())
        if not (low >= -ROUNDING and high <= 1 + ROUNDING):
            raise ValueError(f"background expects a matte in [0, 1]; the program gave {low} to {high}")
        share = float((matte >= HALF).mean())
        certainty = float(np.clip(np.abs(2 * matte - 1).mean(), 0, 1))
        return BackgroundAnswer(is_seen=share >= LEAST, share=share, certainty=certainty, matte=matte)

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
