"""Identifies the language of a text among 75, most likely first.

LanguageId                    the feature: name, shipped program, how to read a program's outputs
LanguageAnswer                what a prediction gives
RankedLanguage                one language of it
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.language_id.contract import LanguageAnswer, LanguageId, RankedLanguage

__all__ = ["LanguageAnswer", "LanguageId", "RankedLanguage"]


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("alcove.features.language_id.contract"), name)
    globals()[name] = value
    return value
