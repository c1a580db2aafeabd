"""Defines the shape of each version of the model; needs no torch."""

from typing import Final

DEFAULT_VERSION: Final = "1.0.0"
SIZE: Final = 256
"""Width and height of the picture that a program takes, in pixels, after `picture.fit`."""
MASK: Final = SIZE // 2
"""Width and height of the mask and of the coefficients of its edges that a program gives."""
GRID: Final = SIZE // 4
"""Width and height of the maps of taps, and of the mask that the next tap corrects."""
TAPS: Final = 16
"""Taps of one cutout, at most."""
TRAINED: Final = 256
"""Width and height of the pictures that the network is trained on; its layers work at any multiple of 16."""
