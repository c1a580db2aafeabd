"""Models that compute with complex numbers: masks of spectra, filters of frequencies, attention without attention."""

from __future__ import annotations

import torch
import transformers as t
from torch import Tensor, nn

from benchmarks.architectures.registry import Architecture, Picked, image, tokens


class SpectralMask(nn.Module):
    """A GRU that masks a short-time transform and goes back to the wave."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(33, 24, batch_first=True)
        self.mask = nn.Linear(24, 33)
        self.register_buffer("window", torch.hann_window(64))

    def forward(self, wave: Tensor) -> Tensor:
        """Return samples [N, T]."""
        window = self.get_buffer("window")
        spectrum = torch.stft(wave, 64, 16, window=window, return_complex=True)
        hidden, _ = self.gru(torch.log1p(spectrum.abs()).transpose(1, 2))
        mask = torch.sigmoid(self.mask(hidden)).transpose(1, 2)
        return torch.istft(spectrum * mask, 64, 16, window=window, length=wave.shape[-1])


class GlobalFilter(nn.Module):
    """Learned filters of the frequencies of a map (Rao et al. 2021, algorithm 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.filters = nn.Parameter(torch.randn(16, 8, 5, 2) * 0.5)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 7)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores [N, 7]."""
        x = self.patches(x)
        frequencies = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(self.filters)
        x = x + torch.fft.irfft2(frequencies, s=(8, 8), norm="ortho")
        scores: Tensor = self.head(self.norm(x.flatten(2).mean(2)))
        return scores


class FourierOperator(nn.Module):
    """A layer of a Fourier neural operator (Li et al. 2021, figure 2 b): lowest frequencies mixed, others dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(1, 8), nn.Linear(8, 1)
        self.mix = nn.Parameter(torch.randn(8, 8, 6, dtype=torch.cfloat) * 0.3)
        self.skip = nn.Conv1d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return values [N, T, 1]."""
        x = self.enter(x).transpose(1, 2)
        frequencies = torch.fft.rfft(x)
        kept = torch.zeros_like(frequencies)
        kept[:, :, :6] = torch.einsum("bix,iox->box", frequencies[:, :, :6], self.mix)
        x = torch.relu(torch.fft.irfft(kept, n=x.shape[-1]) + self.skip(x))
        y: Tensor = self.leave(x.transpose(1, 2))
        return y


def fnet() -> nn.Module:
    """FNet: a transform of the sequence in place of attention."""
    config = t.FNetConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, intermediate_size=64)
    return Picked(t.FNetModel(config), "last_hidden_state", ("input_ids",))


ARCHITECTURES = (
    Architecture("spectral-mask", "noise suppression", SpectralMask, image(1, 640)),
    Architecture("gfnet", "image classification", GlobalFilter, image(1, 3, 32, 32), is_small=False),
    Architecture("fourier-operator", "simulation", FourierOperator, image(2, 32, 1), is_small=False),
    Architecture("fnet", "text", fnet, tokens(99, 2, 8), is_small=False),
)
