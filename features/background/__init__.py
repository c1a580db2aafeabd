"""Finds people in the frames of a camera, and blurs, replaces or stages what is behind them.

Background                    the feature: name, shipped program, how to read a frame and a program's output
BackgroundAnswer              what a prediction gives: who covers how much; alpha and scenes of the frame
BackgroundStream              one camera: frames in, frames with another background out
Blur, Replacement, Stage      scenes that people are shown in
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.background.answer import BackgroundAnswer
    from alcove.features.background.composition import Blur, Replacement, Stage
    from alcove.features.background.contract import Background
    from alcove.features.background.stream import BackgroundStream

__all__ = ["Background", "BackgroundAnswer", "BackgroundStream", "Blur", "Replacement", "Stage"]

_HOMES = {
    "Background": "contract",
    "BackgroundAnswer": "answer",
    "BackgroundStream": "stream",
    "Blur": "composition",
    "Replacement": "composition",
    "Stage": "composition",
}


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"alcove.features.background.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
