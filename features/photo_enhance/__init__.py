"""Brightens, retouches and enlarges photos of any size, and says which of it a photo needs.

PhotoEnhance     the feature: name, shipped program, how to read a picture and a program's outputs
EnhanceAnswer    what a prediction gives: needs, and how to meet them
Enhancer         changes pictures
Recipe           how much of each change to make
PictureError     what cannot be read as a picture, and why
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.photo_enhance.contract import EnhanceAnswer, PhotoEnhance, Recipe
    from alcove.features.photo_enhance.enhance import Enhancer
    from alcove.features.picture import PictureError

__all__ = ["EnhanceAnswer", "Enhancer", "PhotoEnhance", "PictureError", "Recipe"]

_HOMES = {
    "EnhanceAnswer": ".contract",
    "Enhancer": ".enhance",
    "PhotoEnhance": ".contract",
    "PictureError": "..picture",
    "Recipe": ".contract",
}


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
