"""Says where people are in a frame: the answer in a program's output."""

from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from alcove.features.background.config import HEIGHT, WIDTH
from alcove.features.background.frames import check_frame, grow, inside, to_bytes
from alcove.features.errors import FieldError
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


def decode(outputs: list[np.ndarray[Any, Any]]) -> BackgroundAnswer:
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
