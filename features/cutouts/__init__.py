"""Cuts what is tapped out of a photo, or what stands out, with soft edges at the photo's size.

Cutouts                       the feature: name, shipped program, how to read a picture and a program's outputs
CutoutAnswer                  what a prediction gives: mask, bounds; alpha, crop and sticker of the photo
Cutting                       one photo that is cut again and again: a tap costs the decoder alone
Tap, Box                      what belongs to the cutout and what does not, as shares of the picture
PictureError                  what cannot be read as a picture, and why
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.cutouts.contract import CutoutAnswer, Cutouts
    from alcove.features.cutouts.cutting import Cutting
    from alcove.features.cutouts.request import Box, Tap
    from alcove.features.picture import PictureError

__all__ = ["Box", "CutoutAnswer", "Cutouts", "Cutting", "PictureError", "Tap"]

_HOMES = {
    "Box": ".request",
    "CutoutAnswer": ".contract",
    "Cutouts": ".contract",
    "Cutting": ".cutting",
    "PictureError": "..picture",
    "Tap": ".request",
}


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
