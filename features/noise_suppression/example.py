"""Shows how an app uses the feature: a call's microphone goes through a gate that knows speech from noise.

microphone = Microphone(load(NoiseSuppression.default_program), rate=48_000)
for piece in device:                               # f32 [any], as the device gives it
    heard = microphone.hear(piece)
    if heard.is_speech:
        call.send(heard.sound)                     # without noise, at the device's rate
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.noise_suppression.stream import NoiseStream
from alcove.runtime import Model
from numpy.typing import NDArray

HOLD_SECONDS: Final = 0.3
"""A call goes on sending for so long after the last speech, so that no end of a word is lost."""


@dataclass(frozen=True)
class Heard:
    """A piece of a call.

    Attributes:
        sound: f32 [any], without noise; what came up to 32 ms before.
        is_speech: whether somebody speaks or spoke a moment ago.
    """

    sound: NDArray[np.float32]
    is_speech: bool


class Microphone:
    """One call's microphone.

    Args:
        model: a loaded program of the feature.
        rate: samples a second of the device.

    Raises:
        SampleRateError: the rate is out of bounds.
    """

    def __init__(self, model: Model, rate: int) -> None:
        self._stream = NoiseStream(model, rate)
        self._rate = rate
        self._silent_s = HOLD_SECONDS

    def hear(self, piece: NDArray[np.float32]) -> Heard:
        """Return what can be sent of a piece f32 [any], -1 to 1.

        Raises:
            AudioError: the piece is not of one channel.
        """
        sound = self._stream.push(piece)
        self._silent_s = 0.0 if self._stream.speech >= 0.5 else self._silent_s + len(piece) / self._rate
        return Heard(sound, self._silent_s < HOLD_SECONDS)
