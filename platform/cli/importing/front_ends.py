"""Makes of sound what audio models take, inside a program: normalized samples, or logarithms of mel bands.

Each follows a feature extractor of transformers and takes its settings from `preprocessor_config.json`.  A sound that
is shorter than what a program takes ends with zeros, which are left out as transformers leaves out what it pads.
"""

import math
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
import typer
from alcove.platform.cli.importing.folders import Folder
from alcove.runtime.audio import mel_weights
from numpy.typing import NDArray
from torch import Tensor, nn

RATE: Final = 16_000
KALDI_FLOOR: Final = 1.192092955078125e-07
"""Kaldi's least energy of a band: the distance of 1 from the next float32."""
KALDI_LOW_HZ: Final = 20.0
"""Where Kaldi's first band begins."""
PREEMPHASIS: Final = 0.97


class FrontEnd(nn.Module):
    """What comes before an audio model; takes f32 [samples] in [-1, 1].

    Attributes:
        rate: samples a second.
        fixed_samples: how many it takes; None for any number.
    """

    def __init__(self, rate: int, fixed_samples: int | None = None) -> None:
        super().__init__()
        self.rate = rate
        self.fixed_samples = fixed_samples


def count_used(samples: Tensor) -> Tensor:
    """Return how many samples there are before the zeros that a shorter sound ends with, int64 []."""
    return torch.where(samples != 0, torch.arange(1, samples.shape[0] + 1), 0).amax()


class NormalizedSamples(FrontEnd):
    """Samples of mean 0 and deviation 1, or as they are, f32 [1, samples] (wav2vec2, HuBERT, WavLM)."""

    def __init__(self, rate: int, *, normalizes: bool) -> None:
        super().__init__(rate)
        self.normalizes = normalizes

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [1, samples]."""
        if not self.normalizes:
            return samples[None]
        count = count_used(samples).clamp(min=1)
        is_used = torch.arange(samples.shape[0]) < count
        centered = (samples - samples.sum() / count) * is_used
        return (centered * torch.rsqrt(centered.square().sum() / count + 1e-7))[None]


class WhisperMel(FrontEnd):
    """Logarithms of mel bands in the last 80 dB, f32 [1, bands, frames] (Whisper)."""

    def __init__(self, rate: int, settings: dict[str, Any]) -> None:
        super().__init__(rate, int(settings.get("chunk_length", 30)) * rate)
        self.size, self.hop = int(settings.get("n_fft", 400)), int(settings.get("hop_length", 160))
        bands = mel_weights(int(settings.get("feature_size", 80)), self.size, rate)
        self.register_buffer("bands", torch.from_numpy(bands.astype(np.float32)), persistent=False)
        self.spectrum = Spectrum(np.hanning(self.size + 1)[:-1], self.size)

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [1, bands, frames]."""
        half = self.size // 2
        padded = F.pad(samples[None, None], (half, half), mode="reflect")
        power = self.spectrum(padded[0], self.hop)[:, :-1]
        logs = torch.log10(torch.clamp(self.get_buffer("bands") @ power, min=1e-10))
        return ((torch.maximum(logs, logs.amax() - 8.0) + 4.0) / 4.0)[None]


class KaldiMel(FrontEnd):
    """Logarithms of Kaldi's mel bands, normalized, f32 [1, frames, bands] (Audio Spectrogram Transformer)."""

    def __init__(self, rate: int, settings: dict[str, Any]) -> None:
        self.window, self.hop = round(rate * 0.025), round(rate * 0.010)
        self.frames = int(settings.get("max_length", 1024))
        super().__init__(rate, self.window + (self.frames - 1) * self.hop)
        size = 1 << (self.window - 1).bit_length()
        count = int(settings.get("num_mel_bins", 128))
        bands = mel_weights(count, size, rate, low_hz=KALDI_LOW_HZ, scale="kaldi", has_equal_areas=False)
        self.register_buffer("bands", torch.from_numpy(bands.astype(np.float32)), persistent=False)
        self.spectrum = Spectrum(np.hanning(self.window), size, is_kaldi=True)
        normalizes = bool(settings.get("do_normalize", True))
        self.mean = float(settings.get("mean", -4.2677393)) if normalizes else 0.0
        self.scale = 2 * float(settings.get("std", 4.5689974)) if normalizes else 1.0

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [1, frames, bands]."""
        power = self.spectrum(samples[None], self.hop)
        logs = torch.log(torch.clamp(self.get_buffer("bands") @ power, min=KALDI_FLOOR)).T
        used = 1 + (count_used(samples) - self.window) // self.hop
        return ((logs * (torch.arange(self.frames) < used)[:, None] - self.mean) / self.scale)[None]


class Spectrum(nn.Module):
    """Powers of frequencies in windows, as one convolution with cosines and sines.

    Args:
        window: f64 [taps].
        size: of the transform, at least as many; zeros fill it up.
        is_kaldi: whether the mean is taken off each window and high frequencies are raised, as Kaldi does.
    """

    def __init__(self, window: NDArray[np.float64], size: int, *, is_kaldi: bool = False) -> None:
        super().__init__()
        taps = len(window)
        angles = 2 * math.pi / size * np.outer(np.arange(1 + size // 2), np.arange(taps))
        rows = np.concatenate([np.cos(angles), -np.sin(angles)]) * window
        if is_kaldi:
            rows = rows @ _raise_high(taps) @ (np.eye(taps) - 1 / taps)
        self.register_buffer("rows", torch.from_numpy(rows.astype(np.float32)[:, None]), persistent=False)

    def forward(self, samples: Tensor, hop: int) -> Tensor:
        """Return f32 [frequencies, frames] of f32 [1, samples]."""
        found = F.conv1d(samples[None], self.get_buffer("rows"), stride=hop)[0]
        real, imaginary = found.chunk(2)
        return real.square() + imaginary.square()


def _raise_high(taps: int) -> NDArray[np.float64]:
    """Return the matrix that takes a share of the sample before from each."""
    found = np.eye(taps) - PREEMPHASIS * np.eye(taps, k=-1)
    found[0, 0] = 1 - PREEMPHASIS
    return found


def make_front_end(folder: Folder) -> FrontEnd:
    """Return the front end of a folder's model.

    Raises:
        typer.BadParameter: there are no settings, or they are of one that is not built here.
    """
    settings = folder.preprocessor
    name = str(settings.get("feature_extractor_type", ""))
    rate = int(settings.get("sampling_rate", RATE))
    if name == "WhisperFeatureExtractor":
        return WhisperMel(rate, settings)
    if name == "ASTFeatureExtractor":
        return KaldiMel(rate, settings)
    if name == "Wav2Vec2FeatureExtractor":
        return NormalizedSamples(rate, normalizes=bool(settings.get("do_normalize", True)))
    known = "WhisperFeatureExtractor, ASTFeatureExtractor, Wav2Vec2FeatureExtractor"
    raise typer.BadParameter(
        f"--architecture {folder.path}: "
        + (f"feature extractor {name}" if name else "no preprocessor_config.json with a feature_extractor_type")
        + f"; front ends are built for {known}"
    )
