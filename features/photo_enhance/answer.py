"""Says what a picture needs: the program's inputs, and the answer in its outputs."""

from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.errors import FieldError
from alcove.features.photo_enhance.config import DETAIL, NEEDS, SIZE, STATISTICS, STEPS
from alcove.features.picture import (
    check_pixels,
    colors_of,
    resize,
)
from numpy.typing import NDArray

NEEDED_FROM: Final = 0.5
"""Probability from which a need counts."""
SMALL_PX: Final = 512
"""Up to this long side, four times the sides are suggested,"""
MEDIUM_PX: Final = 1024
"""and up to this one, twice."""
PROGRAMS: Final = Path(__file__).parent / "programs"


def program_path(version: str, variant: str = "int8") -> Path:
    """Return where the committed program of a variant lies, whether or not there is one."""
    return PROGRAMS / f"photo_enhance-{version}{'' if variant == 'int8' else f'-{variant}'}.alc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How much of each change to make.

    Attributes:
        light: in [0, 1], of the light that is missing.
        colors: in [0, 1], of the retouch.
        scale: 1, 2 or 4 times the sides.

    Raises:
        FieldError: a field is out of its bounds.
    """

    light: float
    colors: float
    scale: int = 1

    def __post_init__(self) -> None:
        for name, value in (("light", self.light), ("colors", self.colors)):
            if not 0 <= value <= 1:
                raise FieldError(name, "0 to 1", value)
        if self.scale not in (1, 2, 4):
            raise FieldError("scale", "1, 2 or 4", self.scale)


@dataclass(frozen=True, kw_only=True)
class EnhanceAnswer:
    """What a picture needs.

    Attributes:
        statistics: measured, by the names of `config.STATISTICS`, each in [0, 1].
        low_light: probability that it was taken in too little light.
        retouch: probability that its colours are flat.
        clean: probability that it has no noise that enlarging would show.
        light: suggested strength, 0 where there is no need.
        colors: suggested strength, 0 where there is no need.
        missing: argument only: light that is missing, f32 [256, 256, 3]; `missing_light` afterwards.
        table: argument only: colours, f32 [3, 33, 33, 33]; `color_table` afterwards.

    Raises:
        FieldError: a probability is none.
    """

    statistics: dict[str, float]
    low_light: float
    retouch: float
    clean: float
    light: float = field(init=False)
    colors: float = field(init=False)
    missing: InitVar[NDArray[np.float32]]
    table: InitVar[NDArray[np.float32]]

    def __post_init__(self, missing: NDArray[np.float32], table: NDArray[np.float32]) -> None:
        for name in NEEDS:
            if not 0 <= getattr(self, name) <= 1:
                raise FieldError(name, "0 to 1", getattr(self, name))
        # Large arrays are no part of what is printed or compared.
        object.__setattr__(self, "missing_light", missing)
        object.__setattr__(self, "color_table", table)
        object.__setattr__(self, "light", self.low_light if self.low_light >= NEEDED_FROM else 0.0)
        object.__setattr__(self, "colors", self.retouch if self.retouch >= NEEDED_FROM else 0.0)

    def recipe_for(self, width: int, height: int) -> Recipe:
        """Return what is suggested for a picture of a size: enlarging only where it is small and free of noise."""
        long = max(width, height)
        scale = 1 if self.clean < NEEDED_FROM or long > MEDIUM_PX else 2 if long > SMALL_PX else 4
        return Recipe(light=self.light, colors=self.colors, scale=scale)


def prepare(pixels: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the program's inputs: the small picture and the middle of the large one.

    Raises:
        PictureError: `picture.check_pixels`.
    """
    view = check_pixels(pixels)
    height, width = view.shape[:2]
    top, left = max(0, (height - DETAIL) // 2), max(0, (width - DETAIL) // 2)
    part = colors_of(view[top : top + DETAIL, left : left + DETAIL])
    below, right = DETAIL - part.shape[0], DETAIL - part.shape[1]
    detail = np.pad(part, ((0, below), (0, right), (0, 0)), mode="edge")
    return resize(colors_of(view), SIZE, SIZE), np.ascontiguousarray(detail)


def decode(outputs: list[np.ndarray[Any, Any]]) -> EnhanceAnswer:
    """Return the answer in a program's outputs.

    Args:
        outputs: missing light f32 [256, 256, 3], table f32 [3, 33, 33, 33], statistics f32 [6], needs f32 [3].

    Raises:
        ValueError: the outputs are not those, or hold what is no probability.
    """
    wanted = [(SIZE, SIZE, 3), (3, STEPS, STEPS, STEPS), (len(STATISTICS),), (len(NEEDS),)]
    shapes = [np.shape(output) for output in outputs]
    if shapes != wanted:
        raise ValueError(f"photo_enhance gives {wanted}, not {shapes}")
    missing, table, found, needs = outputs
    return EnhanceAnswer(
        statistics={name: float(value) for name, value in zip(STATISTICS, found, strict=True)},
        missing=missing,
        table=table,
        **{name: float(value) for name, value in zip(NEEDS, needs, strict=True)},
    )
