"""Provides short-time Fourier transforms of streams: one hop of samples in, one spectrum out, and back.

The first spectrum is that of `size - hop` zeros and the first hop, so a stream's spectra are those of
`torch.stft(center=False)` over the signal with as many zeros before it; `whole` computes them at once, for training.
`StreamingIstft` adds the frames up again. What it returns lies `size - hop` samples behind what went in:

    samples   |--hop--|--hop--|--hop--|
    frame 2           [.....size......]
    returned  |-------|-------|           the samples that no later frame reaches
"""

from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from torch import Tensor, nn

MOST_POINTS: Final = 65536
"""Longest frame, that of the longest transform a program has."""
LEAST_SHARE: Final = 1e-3
"""Smallest sum of squared windows over a sample, as a share of the largest; below it noise would be amplified."""


def root_hann(size: int) -> Tensor:
    """Return the square root of the periodic Hann window, f32 [size]; twice in a row it overlaps to a constant."""
    return torch.hann_window(size, dtype=torch.float64).sqrt().to(torch.float32)


class StreamingStft(nn.Module):
    """Spectra of a stream, one for each hop; the last `size - hop` samples are its state.

    Args:
        size: samples of a frame, even, in [2, 65536].
        hop: samples from one frame to the next, in [1, size).
        window: f32 [size]; None for the square root of the periodic Hann window.
        channels: streams that are transformed side by side, >= 1.

    Raises:
        ValueError: a number is out of its range, or the window has another shape.
    """

    def __init__(self, size: int, hop: int, window: Tensor | None = None, *, channels: int = 1) -> None:
        super().__init__()
        self.size, self.hop, self.channels = size, hop, channels
        self.register_buffer("window", _check(size, hop, window, channels), persistent=False)
        self.register_buffer("past", torch.zeros(channels, size - hop), persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        """Return complex64 [channels, size / 2 + 1] of f32 [channels, hop], and keep what the next frame needs."""
        past = self.get_buffer("past")
        frame = torch.cat([past, samples], -1)
        past.copy_(frame[:, self.hop :])
        spectrum: Tensor = torch.fft.rfft(frame * self.get_buffer("window"))
        return spectrum

    def whole(self, signal: Tensor) -> Tensor:
        """Return the spectra of a whole signal; keeps and changes no state.

        Args:
            signal: f32 [..., samples]; samples behind the last whole hop are left out.

        Returns:
            complex64 [..., size / 2 + 1, samples // hop], spectra as `forward` would give them from zeros on.
        """
        padded = F.pad(signal, (self.size - self.hop, 0))
        rows = padded.reshape(-1, padded.shape[-1])
        window = self.get_buffer("window")
        found = torch.stft(rows, self.size, self.hop, window=window, center=False, return_complex=True)
        return found.reshape(*signal.shape[:-1], *found.shape[1:])

    def reset(self) -> None:
        """Begin a new stream; in a program, `Session.reset` does."""
        self.get_buffer("past").zero_()

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"size={self.size}, hop={self.hop}, channels={self.channels}"


class StreamingIstft(nn.Module):
    """A stream from its spectra, one hop for each; the sum of the frames that reach further is its state.

    Each frame is weighted by the window and by one over the sum of squared windows, as `torch.istft` does, so that
    `StreamingIstft(StreamingStft(x))` is x, `size - hop` samples later.

    Args:
        size: samples of a frame, even, in [2, 65536].
        hop: samples from one frame to the next, in [1, size).
        window: f32 [size], that of the analysis; None for the square root of the periodic Hann window.
        channels: streams side by side, >= 1.

    Raises:
        ValueError: a number is out of its range, the window has another shape, or the windows leave a sample out.
    """

    def __init__(self, size: int, hop: int, window: Tensor | None = None, *, channels: int = 1) -> None:
        super().__init__()
        self.size, self.hop, self.channels = size, hop, channels
        self.register_buffer("weights", _synthesis(_check(size, hop, window, channels), hop), persistent=False)
        self.register_buffer("sums", torch.zeros(channels, size - hop), persistent=False)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return f32 [channels, hop], the samples that are complete, of complex64 [channels, size / 2 + 1]."""
        sums = self.get_buffer("sums")
        frame = torch.fft.irfft(spectrum, self.size) * self.get_buffer("weights")
        total: Tensor = F.pad(sums, (0, self.hop)) + frame
        sums.copy_(total[:, self.hop :])
        return total[:, : self.hop]

    def whole(self, spectra: Tensor) -> Tensor:
        """Return the signal of all its spectra, without the delay; keeps and changes no state.

        Args:
            spectra: complex64 [..., size / 2 + 1, frames], as `StreamingStft.whole` gives them.

        Returns:
            f32 [..., frames * hop]: sample for sample the signal that was transformed. In its last `size - hop`
            samples some frames are missing, and it fades.
        """
        frames = torch.fft.irfft(spectra, self.size, dim=-2) * self.get_buffer("weights")[:, None]
        rows = frames.reshape(-1, *frames.shape[-2:])
        count = self.size + (rows.shape[-1] - 1) * self.hop
        total: Tensor = F.fold(rows, (1, count), (1, self.size), stride=(1, self.hop))[:, 0, 0, self.size - self.hop :]
        return total.reshape(*spectra.shape[:-2], total.shape[-1])

    def reset(self) -> None:
        """Begin a new stream; in a program, `Session.reset` does."""
        self.get_buffer("sums").zero_()

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"size={self.size}, hop={self.hop}, channels={self.channels}"


def _check(size: int, hop: int, window: Tensor | None, channels: int) -> Tensor:
    if size % 2 or not 2 <= size <= MOST_POINTS:
        raise ValueError(f"size must be even and in [2, {MOST_POINTS}], not {size}")
    if not 1 <= hop < size:
        raise ValueError(f"hop must be in [1, {size}), below the size, not {hop}")
    if channels < 1:
        raise ValueError(f"channels must be at least 1, not {channels}")
    window = root_hann(size) if window is None else window
    if window.shape != (size,):
        raise ValueError(f"window must be [{size}], not {list(window.shape)}")
    return window.detach().to(torch.float32).clone()


def _synthesis(window: Tensor, hop: int) -> Tensor:
    """Return the window over the sum of the squares of all windows that reach a sample, in the middle of a stream."""
    exact = window.to(torch.float64)
    padded = F.pad(exact.square(), (0, -len(window) % hop))
    envelope = padded.reshape(-1, hop).sum(0).repeat(len(padded) // hop)[: len(window)]
    share = float(envelope.min() / envelope.max()) if float(envelope.max()) > 0 else 0.0
    if share < LEAST_SHARE:
        raise ValueError(f"windows must overlap: over one sample their squares sum to {share:.2g} of the largest sum")
    return (exact / envelope).to(torch.float32)
