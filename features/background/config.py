"""Defines the shape of each version of the model; needs no torch."""

from typing import Final

DEFAULT_VERSION: Final = "1.0.0"
HEIGHT: Final = 144
"""Rows of the frame that a program takes and of the matte that it gives, after `frames.shrink`."""
WIDTH: Final = 256
"""Columns of both."""
