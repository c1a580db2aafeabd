"""Defines the shapes and styles of the model; needs no torch."""

from dataclasses import dataclass
from typing import Final

__all__ = ["COLUMNS", "CONFIGS", "DEFAULT_VERSION", "ROWS", "STYLES", "ModelConfig"]

DEFAULT_VERSION: Final = "1.0.0"
"""Of the program that ships."""

ROWS: Final = 360
"""Rows of a frame that a program takes."""
COLUMNS: Final = 640
"""Columns of it."""
STYLES: Final = ("starry_night", "the_scream", "great_wave", "composition_vii", "udnie", "woman_with_a_hat")
"""Names of the paintings, in the order of a program's weights of styles; all by painters who died before 1955."""


@dataclass(frozen=True)
class ModelConfig:
    """Width and depth.

    Attributes:
        width: channels at a quarter of the frame's size, a multiple of 4; half of them at a half, twice as many at an
            eighth.
        blocks: residual ones, at an eighth of the size.
    """

    width: int
    blocks: int


CONFIGS: Final = {"1.0.0": ModelConfig(width=32, blocks=5)}
"""By version; chosen by speed before anything was trained (`python -m alcove.features.style_transfer.speed`).

A frame of 640 x 360 on one core with AVX-512, in int8: 14 ms at width 16, 27 ms at 32 (0.50 MB; 54 ms in float32),
31 ms at 40, 42 ms at 48 (1.02 MB).  All reach 20 frames a second there; 32 leaves half of the time to slower cores.
"""
