"""Paints pictures and frames of a camera in the manner of a painting.

StyleTransfer                 the feature: name, shipped program, how to read a picture and a program's outputs
StyleAnswer                   what a prediction gives: the painted frame, and the picture at its own size
Look                          a style or a mix of styles, and a strength
PictureError                  what cannot be read as a picture, and why
STYLES                        names of the paintings
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.picture import PictureError
    from alcove.features.style_transfer.config import STYLES
    from alcove.features.style_transfer.contract import StyleAnswer, StyleTransfer
    from alcove.features.style_transfer.look import Look

__all__ = ["STYLES", "Look", "PictureError", "StyleAnswer", "StyleTransfer"]

_HOMES = {
    "Look": ".look",
    "PictureError": "..picture",
    "STYLES": ".config",
    "StyleAnswer": ".contract",
    "StyleTransfer": ".contract",
}


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
