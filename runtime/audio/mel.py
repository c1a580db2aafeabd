"""Provides mel filterbanks and logarithms of their energies, of streams and of whole signals.

Three scales are in use: Slaney's (straight to 1,000 Hz, logarithmic above; librosa's default, Whisper's), HTK's
(`2595 log10(1 + f / 700)`; torchaudio's default), and Kaldi's, which is HTK's with triangles straight over mels.
"""

import math
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.runtime.audio.stft import StreamingStft
from torch import Tensor, nn

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scale: TypeAlias = Literal["slaney", "htk", "kaldi"]
Logarithm: TypeAlias = Literal["ln", "log10", "decibel", "log1p"]
FLOOR: Final = 1e-10
"""Least energy whose logarithm is taken."""
_KNEE: Final = 15.0
"""Mels at 1,000 Hz, where Slaney's scale bends; it rises by 27 for each factor of 6.4 from there."""

Array: TypeAlias = "NDArray[np.float64]"


def hertz_to_mel(hertz: Any, scale: Scale) -> Any:
    """Return mels of frequencies, float64.

    Source: Slaney 1998, Auditory Toolbox; Young et al., The HTK Book, section 5.4; Kaldi, mel-computations.h.
    """
    hertz = np.asarray(hertz, np.float64)
    if scale == "slaney":
        above = _KNEE + np.log(np.maximum(hertz, 1000.0) / 1000) * 27 / math.log(6.4)
        return np.where(hertz >= 1000, above, hertz * 3 / 200)
    if scale == "htk":
        return 2595 * np.log10(1 + hertz / 700)
    return 1127 * np.log(1 + hertz / 700)


def mel_to_hertz(mels: Any, scale: Scale) -> Any:
    """Return frequencies of mels, float64: the inverse of `hertz_to_mel`."""
    mels = np.asarray(mels, np.float64)
    if scale == "slaney":
        return np.where(mels >= _KNEE, 1000 * np.exp((mels - _KNEE) * math.log(6.4) / 27), mels * 200 / 3)
    if scale == "htk":
        return 700 * (10 ** (mels / 2595) - 1)
    return 700 * (np.exp(mels / 1127) - 1)


def mel_weights(
    bands: int,
    size: int,
    rate: int,
    *,
    low_hz: float = 0.0,
    high_hz: float | None = None,
    scale: Scale = "slaney",
    has_equal_areas: bool = True,
) -> Array:
    """Return triangles over the frequencies of a transform, float64 [bands, size / 2 + 1].

    Args:
        bands: how many, >= 1; their edges are evenly spaced in mels.
        size: points of the transform, even.
        rate: samples a second.
        low_hz: where the first begins, >= 0.
        high_hz: where the last ends, at most rate / 2; None for that.
        scale: what mels are. Kaldi's triangles are straight over mels, the others over hertz.
        has_equal_areas: whether each is divided by half its width in hertz (Slaney's norm), so that noise of equal
            power in all frequencies gives equal bands; otherwise each peaks at 1.

    Raises:
        ValueError: a number is out of its range.
    """
    high = rate / 2 if high_hz is None else high_hz
    if bands < 1 or size < 2 or size % 2:
        raise ValueError(f"bands must be at least 1 and size even and at least 2, not {bands} and {size}")
    if not 0 <= low_hz < high <= rate / 2:
        raise ValueError(f"0 <= low_hz < high_hz <= {rate / 2:g} must hold, half the rate, not {low_hz:g} and {high:g}")
    if scale not in get_args(Scale):
        raise ValueError(f"scale must be one of {', '.join(get_args(Scale))}, not {scale}")
    mels = np.linspace(hertz_to_mel(low_hz, scale), hertz_to_mel(high, scale), bands + 2)
    edges: Array = mel_to_hertz(mels, scale)
    if scale == "kaldi":
        found = _triangles(mels, hertz_to_mel(rate / size * np.arange(1 + size // 2), scale))
    else:
        found = _triangles(edges, np.linspace(0, rate / 2, 1 + size // 2))
    return found * (2 / (edges[2:] - edges[:-2]))[:, None] if has_equal_areas else found


def _triangles(edges: Array, places: Array) -> Array:
    distances = edges[:, None] - places[None, :]
    widths = np.diff(edges)[:, None]
    found: Array = np.maximum(0, np.minimum(-distances[:-2] / widths[:-1], distances[2:] / widths[1:]))
    return found


class MelFilterbank(nn.Module):
    """Energies of mel bands from those of frequencies: a product with a constant matrix.

    Args:
        bands: how many, >= 1.
        size: points of the transform, even.
        rate: samples a second.
        low_hz: where the first band begins.
        high_hz: where the last ends; None for half the rate.
        scale: "slaney", "htk" or "kaldi"; see `mel_weights`.
        has_equal_areas: whether bands are divided by their widths.

    Raises:
        ValueError: a number is out of its range, or a band lies between two frequencies and would always be 0.
    """

    def __init__(
        self,
        bands: int,
        size: int,
        rate: int,
        *,
        low_hz: float = 0.0,
        high_hz: float | None = None,
        scale: Scale = "slaney",
        has_equal_areas: bool = True,
    ) -> None:
        super().__init__()
        weights = mel_weights(
            bands, size, rate, low_hz=low_hz, high_hz=high_hz, scale=scale, has_equal_areas=has_equal_areas
        )
        if not weights.any(1).all():
            empty = int(np.flatnonzero(~weights.any(1))[0])
            raise ValueError(
                f"band {empty} of {bands} lies between two frequencies, which are {rate / size:g} Hz apart: "
                "take fewer bands or a longer transform"
            )
        self.register_buffer("weights", torch.from_numpy(weights.astype(np.float32)), persistent=False)

    def forward(self, power: Tensor) -> Tensor:
        """Return f32 [..., bands] of f32 [..., size / 2 + 1] `power`."""
        return F.linear(power, self.get_buffer("weights"))

    def extra_repr(self) -> str:
        """Return the sizes, for `repr`."""
        bands, bins = self.get_buffer("weights").shape
        return f"bands={bands}, bins={bins}"


class LogMel(nn.Module):
    """Logarithms of mel energies of a stream, a row for each hop; state as of `StreamingStft`.

    Args:
        size: samples of a frame, even.
        hop: samples from one frame to the next, in [1, size).
        filterbank: of as many points.
        window: f32 [size]; None for the periodic Hann window.
        logarithm: "ln", "log10" and "decibel" (10 log10) of the energy, at least `floor`; "log1p" is ln(1 + energy).
        floor: least energy, > 0.
        channels: streams side by side, >= 1.

    Raises:
        ValueError: a number is out of its range, or the filterbank is of another size.
    """

    def __init__(
        self,
        size: int,
        hop: int,
        filterbank: MelFilterbank,
        *,
        window: Tensor | None = None,
        logarithm: Logarithm = "ln",
        floor: float = FLOOR,
        channels: int = 1,
    ) -> None:
        super().__init__()
        bins = filterbank.get_buffer("weights").shape[1]
        if bins != size // 2 + 1:
            raise ValueError(f"filterbank must be of {size} points, not {2 * (bins - 1)}")
        if logarithm not in get_args(Logarithm):
            raise ValueError(f"logarithm must be one of {', '.join(get_args(Logarithm))}, not {logarithm}")
        if floor <= 0:
            raise ValueError(f"floor must be above 0, not {floor:g}")
        self.stft = StreamingStft(size, hop, torch.hann_window(size) if window is None else window, channels=channels)
        self.filterbank, self.logarithm, self.floor = filterbank, logarithm, floor

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [channels, bands] of f32 [channels, hop], and keep what the next frame needs."""
        return self._logarithms(self.stft(samples))

    def whole(self, signal: Tensor) -> Tensor:
        """Return f32 [..., samples // hop, bands] of a whole signal f32 [..., samples]; keeps no state."""
        return self._logarithms(self.stft.whole(signal).transpose(-1, -2))

    def _logarithms(self, spectrum: Tensor) -> Tensor:
        energy: Tensor = self.filterbank(spectrum.real.square() + spectrum.imag.square())
        if self.logarithm == "log1p":
            return torch.log1p(energy)
        energy = energy.clamp(min=self.floor)
        if self.logarithm == "ln":
            return torch.log(energy)
        return torch.log10(energy) * (10.0 if self.logarithm == "decibel" else 1.0)

    def reset(self) -> None:
        """Begin a new stream; in a program, `Session.reset` does."""
        self.stft.reset()

    def extra_repr(self) -> str:
        """Return the arguments, for `repr`."""
        return f"logarithm={self.logarithm}, floor={self.floor:g}"
