"""Provides resampling by rational factors, of streams and of whole signals: one windowed sinc in polyphase form.

`from_rate * up = to_rate * down` in lowest terms. A block of `down` samples gives `up`, each the product of the samples
around it with a row of its own: a convolution of stride `down` with `up` outputs. What a stream returns lies
`delay` samples of the new rate behind; `whole` computes the same numbers without the delay.
"""

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from torch import Tensor, nn

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_FACTOR: Final = 1024
"""Greatest factor in lowest terms: 44,100 to 16,000 has 160 and 441."""
HALF_WIDTH: Final = 32
"""Zero crossings of the sinc on each side: 2 ms at 16 kHz."""
ATTENUATION_DB: Final = 80.0
"""Of what lies above half the lower rate."""
_BETA: Final = 0.1102 * (ATTENUATION_DB - 8.7)
"""Of the Kaiser window with this attenuation (Kaiser 1974)."""


class Resample(nn.Module):
    """A stream at another rate; the samples that later ones need are its state.

    Frequencies above half the lower rate are 80 dB down; the first 84 % of those below pass within 0.01 dB.

    Args:
        from_rate: samples a second of what comes in.
        to_rate: of what comes out; both divided by their common factor are at most 1,024.
        half_width: zero crossings of the filter on each side, >= 8; delay and time grow with it, and the band between
            what passes and what does not narrows.
        channels: streams side by side, >= 1.

    Attributes:
        up: samples that come out for each block.
        down: samples of a block; a stream takes multiples of it, such as 441 at 44,100 Hz.
        delay: by how many samples of the new rate a stream lags.

    Raises:
        ValueError: a number is out of its range.
    """

    def __init__(self, from_rate: int, to_rate: int, *, half_width: int = HALF_WIDTH, channels: int = 1) -> None:
        super().__init__()
        if from_rate < 1 or to_rate < 1:
            raise ValueError(f"rates must be at least 1, not {from_rate} and {to_rate}")
        common = math.gcd(from_rate, to_rate)
        self.up, self.down = to_rate // common, from_rate // common
        if max(self.up, self.down) > MOST_FACTOR:
            raise ValueError(
                f"factors must be at most {MOST_FACTOR}, {from_rate} to {to_rate} is {self.up}/{self.down}"
            )
        if half_width < 8 or channels < 1:
            raise ValueError(f"half_width must be at least 8 and channels 1, not {half_width} and {channels}")
        # In samples of what comes in.
        reach = half_width * max(1.0, self.down / self.up)
        self.delay = math.ceil(reach * self.up / self.down)
        past = math.ceil(self.delay * self.down / self.up + reach)
        rows = _rows(self.up, self.down, self.delay, past, half_width)
        self.register_buffer("rows", torch.from_numpy(rows[:, None].astype(np.float32)), persistent=False)
        self.register_buffer("past", torch.zeros(channels, past), persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [channels, hop * up / down] of f32 [channels, hop], hop a multiple of `down`.

        Raises:
            ValueError: it is none.
        """
        if samples.shape[-1] % self.down:
            raise ValueError(f"a hop must be a multiple of {self.down} samples, not {samples.shape[-1]}")
        past = self.get_buffer("past")
        both = torch.cat([past, samples], -1)
        past.copy_(both[:, samples.shape[-1] :])
        return self._convolve(both)

    def whole(self, signal: Tensor) -> Tensor:
        """Return f32 [..., ceil(samples * up / down)] of a whole signal f32 [..., samples] between zeros."""
        count = -(-signal.shape[-1] * self.up // self.down)
        blocks = -(-(count + self.delay) // self.up)
        past = self.get_buffer("past").shape[-1]
        both = F.pad(signal, (past, blocks * self.down - signal.shape[-1]))
        found = self._convolve(both.reshape(-1, both.shape[-1]))[:, self.delay : self.delay + count]
        return found.reshape(*signal.shape[:-1], count)

    def _convolve(self, samples: Tensor) -> Tensor:
        found = F.conv1d(samples[:, None], self.get_buffer("rows"), stride=self.down)
        return found.transpose(1, 2).reshape(samples.shape[0], -1)

    def reset(self) -> None:
        """Begin a new stream; in a program, `Session.reset` does."""
        self.get_buffer("past").zero_()

    def extra_repr(self) -> str:
        """Return the factors, for `repr`."""
        return f"up={self.up}, down={self.down}, delay={self.delay}"


def _rows(up: int, down: int, delay: int, past: int, half_width: int) -> "NDArray[np.float64]":
    """Return what each output of a block takes of each sample, float64 [up, past + down]."""
    slower = max(1.0, down / up)  # the lower rate's sample, in samples of what comes in
    # The Kaiser window's transition (Kaiser 1974) ends at half the lower rate, 1 here; the sinc cuts in its middle.
    transition = (ATTENUATION_DB - 8) / (2.285 * 2 * half_width * math.pi)
    cutoff = 1 - transition / 2
    times = (np.arange(up)[:, None] - delay) * (down / up) - (np.arange(past + down)[None, :] - past)
    places = times / slower
    inside = np.abs(places) < half_width
    window = np.i0(_BETA * np.sqrt(np.maximum(1 - (places / half_width) ** 2, 0))) / np.i0(_BETA)
    rows = np.where(inside, cutoff * np.sinc(cutoff * places) * window, 0.0)
    found: NDArray[np.float64] = rows / rows.sum(1, keepdims=True)  # each passes a constant as it is
    return found
