"""Estimates how many bits a second a call can send: packet statistics of every 60 ms in, capacity out.

Bandwidth                     the feature: name, shipped program, how to read a line of input and a program's outputs
BandwidthAnswer               what a prediction gives
BandwidthStream               one call: a session that also knows what a pause means
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.bandwidth.contract import Bandwidth, BandwidthAnswer
    from alcove.features.bandwidth.stream import BandwidthStream

__all__ = ["Bandwidth", "BandwidthAnswer", "BandwidthStream"]

_HOMES = {"Bandwidth": "contract", "BandwidthAnswer": "contract", "BandwidthStream": "stream"}


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"alcove.features.bandwidth.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
