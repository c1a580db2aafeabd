"""Changes the sample rate of a stream with a polyphase filter of its own; needs numpy alone.

Source: R. Crochiere, L. Rabiner, "Multirate Digital Signal Processing", 1983: the output at time n is a sum of inputs
near n * from / to, weighted by a low-pass that is sampled at the phase of n.
"""

import math
from typing import Final

import numpy as np
from alcove.features.noise_suppression.errors import SampleRateError
from numpy.typing import NDArray

LOWEST_RATE: Final = 4_000
HIGHEST_RATE: Final = 384_000
ZEROS: Final = 24
"""Zero crossings of the low-pass to either side."""
PASS_SHARE: Final = 0.94
"""Of the lower rate's half, what passes: the transition lies beyond."""
KAISER_BETA: Final = 9.0
"""Of the window: 90 dB of stop band."""
BLOCK: Final = 8_192
"""Outputs computed at a time: bounds the memory."""


def require_rate(rate: int) -> int:
    """Return a rate.

    Raises:
        SampleRateError: it is out of bounds.
    """
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise SampleRateError(rate, LOWEST_RATE, HIGHEST_RATE)
    return rate


class Resampler:
    """A stream at one rate to a stream at another, neither early nor late.

    Args:
        source: samples a second that come.
        target: samples a second that go.

    Raises:
        SampleRateError: one of them is out of bounds.
    """

    def __init__(self, source: int, target: int) -> None:
        common = math.gcd(require_rate(source), require_rate(target))
        self.up, self.down = target // common, source // common
        cutoff = PASS_SHARE * min(1.0, target / source)
        self.reach = math.ceil(ZEROS / cutoff)
        self._cutoff = cutoff
        self._table = self._taps(np.arange(self.up)) if self.up <= 4096 else None
        self._buffer = np.zeros(self.reach, np.float32)  # samples before the first count as 0
        self._start = -self.reach
        self._count_in = self._count_out = 0

    def _taps(self, phases: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the weights of the 2 * reach inputs around an output, f32 [phases, 2 * reach], summing to 1."""
        away = np.arange(1 - self.reach, self.reach + 1)[None] - phases[:, None] / self.up
        window = np.i0(KAISER_BETA * np.sqrt(np.maximum(1 - (away / self.reach) ** 2, 0))) / np.i0(KAISER_BETA)
        taps = np.sinc(self._cutoff * away) * window
        weights: NDArray[np.float32] = (taps / taps.sum(axis=1, keepdims=True)).astype(np.float32)
        return weights

    def push(self, sound: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the samples that can be told after more have come, f32 [any]."""
        if self.up == self.down:
            return sound
        self._count_in += len(sound)
        self._buffer = np.concatenate([self._buffer, sound])
        last = self._start + len(self._buffer)
        # Output n needs inputs up to n * down // up + reach.
        ready = max(-(-(last - self.reach) * self.up // self.down), self._count_out)
        return self._give(ready)

    def flush(self) -> NDArray[np.float32]:
        """Return the last samples of a stream that has ended, f32 [any]: as many in all as its length asks for."""
        if self.up == self.down:
            return np.zeros(0, np.float32)
        total = -(-self._count_in * self.up // self.down)
        self._buffer = np.concatenate([self._buffer, np.zeros(2 * self.reach, np.float32)])
        return self._give(total)

    def _give(self, end: int) -> NDArray[np.float32]:
        parts = []
        for begin in range(self._count_out, end, BLOCK):
            numbers = np.arange(begin, min(begin + BLOCK, end), dtype=np.int64)
            base, phases = np.divmod(numbers * self.down, self.up)
            taps = self._taps(phases) if self._table is None else self._table[phases]
            first = base - self.reach + 1 - self._start
            inputs = self._buffer[first[:, None] + np.arange(2 * self.reach)[None]]
            parts.append(np.einsum("nk,nk->n", taps, inputs))
        self._count_out = max(self._count_out, end)
        needed = self._count_out * self.down // self.up - self.reach + 1
        drop = min(max(needed - self._start, 0), len(self._buffer))
        self._buffer, self._start = self._buffer[drop:], self._start + drop
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)
