"""Takes the noise out of one stream of any rate, in pieces of any size, with a session that remembers."""

import numpy as np
from alcove.features.noise_suppression.config import DELAY_SAMPLES, HOP, SAMPLE_RATE
from alcove.features.noise_suppression.errors import AudioError
from alcove.features.noise_suppression.resample import Resampler
from alcove.runtime import Model
from numpy.typing import NDArray

Sound = NDArray[np.float32]


class NoiseStream:
    """One stream: give it sound as it comes, get as much clean sound in the end, neither early nor late.

    At 16 kHz a sample goes out at most 32 ms after it came; another rate adds the reach of two filters, 3 ms at 48 kHz.
    What goes out holds frequencies up to 8 kHz.

    Args:
        model: a loaded program of the feature.
        rate: samples a second, of what comes and of what goes.

    Raises:
        SampleRateError: the rate is out of bounds.
    """

    def __init__(self, model: Model, rate: int = SAMPLE_RATE) -> None:
        self._session = model.session()
        self._in, self._out = Resampler(rate, SAMPLE_RATE), Resampler(SAMPLE_RATE, rate)
        self._waiting = np.zeros(0, np.float32)
        self._late = DELAY_SAMPLES
        self._count_in = self._count_out = 0
        self.speech = 0.0
        """Probability that someone speaks in the latest hop."""

    def push(self, sound: Sound) -> Sound:
        """Return the clean sound that can be told now, f32 [any], after more has come.

        Args:
            sound: f32 [any], about -1 to 1; a sample that is no number counts as 0.

        Raises:
            AudioError: it is not of one channel; the stream continues as if it had not been.
        """
        if sound.ndim != 1:
            raise AudioError(f"a stream takes one channel, [samples], not the shape {list(sound.shape)}")
        self._count_in += len(sound)
        # Before resampling, which would spread what is no number.
        finite = np.nan_to_num(sound.astype(np.float32, copy=False), nan=0.0, posinf=0.0, neginf=0.0)
        return self._limit(self._out.push(self._clean(self._in.push(finite))))

    def flush(self) -> Sound:
        """Return the rest of a stream that has ended, f32 [any]: in all as many samples as came."""
        rest = self._in.flush()
        silence = np.zeros(DELAY_SAMPLES + HOP, np.float32)
        clean = self._clean(np.concatenate([rest, silence]))
        last = self._limit(np.concatenate([self._out.push(clean), self._out.flush()]))
        missing = self._count_in - self._count_out
        self._count_out = self._count_in
        return np.append(last, np.zeros(missing, np.float32)) if missing > 0 else last

    def _limit(self, sound: Sound) -> Sound:
        sound = sound[: self._count_in - self._count_out]
        self._count_out += len(sound)
        return sound

    def _clean(self, sound: Sound) -> Sound:
        joined = np.concatenate([self._waiting, sound])
        whole = len(joined) // HOP * HOP
        self._waiting = joined[whole:]
        parts = []
        for hop in joined[:whole].reshape(-1, 1, HOP):
            clean, speech = self._session(hop)
            parts.append(clean[0].copy())
            self.speech = float(speech[0, 0])
        clean = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        dropped = min(self._late, len(clean))
        self._late -= dropped
        return clean[dropped:]
