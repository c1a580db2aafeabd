"""Takes the noise out of speech: 16 ms of sound in, the 16 ms before it without noise and voice activity out.

NoiseSuppression      the feature: name, shipped program, how to read a line of input and a program's outputs
NoiseAnswer           what a prediction gives
NoiseStream           one stream of any rate, in pieces of any size
convert               a WAV or raw samples, file to file or pipe to pipe
AudioError            a sound that cannot be taken; AudioFormatError, SampleRateError: why
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alcove.features.noise_suppression.contract import NoiseAnswer, NoiseSuppression
    from alcove.features.noise_suppression.errors import AudioError, AudioFormatError, SampleRateError
    from alcove.features.noise_suppression.files import convert
    from alcove.features.noise_suppression.stream import NoiseStream

__all__ = [
    "AudioError",
    "AudioFormatError",
    "NoiseAnswer",
    "NoiseStream",
    "NoiseSuppression",
    "SampleRateError",
    "convert",
]

_HOMES = {
    "AudioError": "errors",
    "AudioFormatError": "errors",
    "NoiseAnswer": "contract",
    "NoiseStream": "stream",
    "NoiseSuppression": "contract",
    "SampleRateError": "errors",
    "convert": "files",
}


def __getattr__(name: str) -> Any:
    """Load the contract, and numpy with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"alcove.features.noise_suppression.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
