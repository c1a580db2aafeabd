"""Defines the network over a whole signal: a mask for each frame, and whether someone speaks.

Source of the layers: "GTCRN: A Speech Enhancement Model Requiring Ultralow Computational Resources" (Rong and others,
ICASSP 2024), written from the description of the published weights; batch norms are folded into the convolutions.
Tensors are [sounds, channels, frames, bands] unless said.  `alcove.features.noise_suppression.streaming` is the same
network a hop at a time.
"""

from typing import Final

import torch
from alcove.features.noise_suppression.config import (
    ACTIVITY_WIDTH,
    BINS,
    COARSE,
    FLOOR,
    HIGH_BANDS,
    HOP,
    LOW_BINS,
    WIDTH,
    WINDOW,
)
from torch import Tensor, nn
from torch.nn import functional

HALF: Final = WIDTH // 2
DILATIONS: Final = (1, 2, 5)


def hann_root() -> Tensor:
    """Return the root of the periodic Hann window, f32 [512]: applied twice, frames a hop apart add up to 1."""
    return torch.hann_window(WINDOW).sqrt()


def neighbours(values: Tensor) -> Tensor:
    """Return each band with the bands below and above it, [n, 3 * channels, t, bands]: channel outermost."""
    bands = values.shape[-1]
    padded = functional.pad(values, (1, 1))
    stacked = torch.stack([padded[..., shift : shift + bands] for shift in range(3)], dim=2)
    return stacked.flatten(1, 2)


def interleave(first: Tensor, second: Tensor) -> Tensor:
    """Return the channels of two halves by turns: first, second, first, ..."""
    return torch.stack([first, second], dim=2).flatten(1, 2)


class TemporalBlock(nn.Module):
    """Half of the channels through a depthwise convolution over the past, weighted by what the past says.

    Args:
        dilation: frames between the three frames that are seen.
    """

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.point_conv1 = nn.Conv2d(3 * HALF, WIDTH, 1)
        self.point_act = nn.PReLU()
        self.depth_conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=(0, 1), dilation=(dilation, 1), groups=WIDTH)
        self.depth_act = nn.PReLU()
        self.point_conv2 = nn.Conv2d(WIDTH, HALF, 1)
        self.att_gru = nn.GRU(HALF, WIDTH, batch_first=True)
        self.att_fc = nn.Linear(WIDTH, HALF)

    def forward(self, values: Tensor) -> Tensor:
        """Return the block's output, [n, 16, t, 33], for an input of that shape."""
        seen, kept = values.chunk(2, dim=1)
        wide = self.point_act(self.point_conv1(neighbours(seen)))
        wide = functional.pad(wide, (0, 0, 2 * self.dilation, 0))
        narrow = self.point_conv2(self.depth_act(self.depth_conv(wide)))
        energy = narrow.square().mean(dim=-1).transpose(1, 2)
        weight = torch.sigmoid(self.att_fc(self.att_gru(energy)[0])).transpose(1, 2)
        return interleave(narrow * weight[..., None], kept)


class DualPathBlock(nn.Module):
    """Recurrent layers over the bands of a frame, both ways, then over the frames of a band; each added to its input.

    The two halves of the channels have layers of their own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.intra = nn.ModuleList(nn.GRU(HALF, HALF // 2, batch_first=True, bidirectional=True) for _ in range(2))
        self.intra_fc = nn.Linear(WIDTH, WIDTH)
        self.intra_ln = nn.LayerNorm([COARSE, WIDTH], eps=1e-8)
        self.inter = nn.ModuleList(nn.GRU(HALF, HALF, batch_first=True) for _ in range(2))
        self.inter_fc = nn.Linear(WIDTH, WIDTH)
        self.inter_ln = nn.LayerNorm([COARSE, WIDTH], eps=1e-8)

    def forward(self, values: Tensor) -> Tensor:
        """Return the block's output, [n, 16, t, 33], for an input of that shape."""
        count, _, frames, bands = values.shape
        over_bands = values.permute(0, 2, 3, 1)
        halves = over_bands.reshape(count * frames, bands, WIDTH).chunk(2, dim=-1)
        both = torch.cat([layer(half)[0] for layer, half in zip(self.intra, halves, strict=True)], dim=-1)
        over_bands = over_bands + self.intra_ln(self.intra_fc(both).reshape(count, frames, bands, WIDTH))
        halves = over_bands.transpose(1, 2).reshape(count * bands, frames, WIDTH).chunk(2, dim=-1)
        both = torch.cat([layer(half)[0] for layer, half in zip(self.inter, halves, strict=True)], dim=-1)
        over_frames = self.inter_fc(both).reshape(count, bands, frames, WIDTH).transpose(1, 2)
        return torch.add(over_bands, self.inter_ln(over_frames)).permute(0, 3, 1, 2)


class NoiseNetwork(nn.Module):
    """A sound to the same sound without its noise, and the logit of someone speaking in each frame."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", hann_root(), persistent=False)
        self.bands = nn.Linear(BINS - LOW_BINS, HIGH_BANDS, bias=False)
        self.bins = nn.Linear(HIGH_BANDS, BINS - LOW_BINS, bias=False)
        self.first = nn.Conv2d(9, WIDTH, (1, 5), stride=(1, 2), padding=(0, 2))
        self.first_act = nn.PReLU()
        self.second = nn.Conv2d(WIDTH, WIDTH, (1, 5), stride=(1, 2), padding=(0, 2), groups=2)
        self.second_act = nn.PReLU()
        self.encoder = nn.ModuleList(TemporalBlock(dilation) for dilation in DILATIONS)
        self.middle = nn.ModuleList(DualPathBlock() for _ in range(2))
        self.decoder = nn.ModuleList(TemporalBlock(dilation) for dilation in reversed(DILATIONS))
        self.third = nn.ConvTranspose2d(WIDTH, WIDTH, (1, 5), stride=(1, 2), padding=(0, 2), groups=2)
        self.third_act = nn.PReLU()
        self.last = nn.ConvTranspose2d(WIDTH, 2, (1, 5), stride=(1, 2), padding=(0, 2))
        self.speaking = nn.Linear(WIDTH * COARSE, ACTIVITY_WIDTH)
        self.activity = nn.Linear(ACTIVITY_WIDTH, 1)

    def features(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """Return what the first convolution takes, [n, 9, t, 129], of a spectrum [n, t, 257] in two parts."""
        magnitude = torch.sqrt(real * real + imaginary * imaginary + FLOOR)
        bins = torch.stack([magnitude, real, imaginary], dim=1)
        return neighbours(torch.cat([bins[..., :LOW_BINS], self.bands(bins[..., LOW_BINS:])], dim=-1))

    def logit(self, values: Tensor) -> Tensor:
        """Return the logit of someone speaking, [n, t], of what the dual-path blocks give."""
        flat = values.permute(0, 2, 1, 3).flatten(2)
        return torch.squeeze(self.activity(functional.relu(self.speaking(flat))), -1)

    def mask(self, bands: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two parts of the mask, each [n, t, 257], of what the last convolution gives, [n, 2, t, 129]."""
        bounded = torch.tanh(bands)
        full = torch.cat([bounded[..., :LOW_BINS], self.bins(bounded[..., LOW_BINS:])], dim=-1)
        return full[:, 0], full[:, 1]

    def spectrum(self, real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the clean spectrum's two parts, [n, t, 257], and the logits, [n, t], of a noisy one's parts."""
        first = self.first_act(self.first(self.features(real, imaginary)))
        second = self.second_act(self.second(first))
        levels = [second]
        for block in self.encoder:
            levels.append(block(levels[-1]))
        values = levels[-1]
        for block in self.middle:
            values = block(values)
        logit = self.logit(values)
        for block in self.decoder:
            values = block(values + levels.pop())
        values = self.third_act(self.third(values + levels.pop()))
        mask_real, mask_imaginary = self.mask(self.last(values + first))
        clean_real = real * mask_real - imaginary * mask_imaginary
        clean_imaginary = imaginary * mask_real + real * mask_imaginary
        return clean_real, clean_imaginary, logit

    def forward(self, sound: Tensor) -> tuple[Tensor, Tensor]:
        """Return the clean sound, f32 [n, samples], and the logits of someone speaking, f32 [n, frames].

        Frames begin a hop before the sound, as in a stream, and end with its last whole hop.

        Args:
            sound: f32 [n, samples], samples a multiple of 256.
        """
        padded = functional.pad(sound, (HOP, HOP))
        spectrum = torch.fft.rfft(padded.unfold(-1, WINDOW, HOP) * self.window)
        real, imaginary, logit = self.spectrum(spectrum.real, spectrum.imag)
        frames = torch.fft.irfft(torch.complex(real, imaginary), n=WINDOW) * self.window
        clean = frames[:, :-1, HOP:] + frames[:, 1:, :HOP]
        return clean.flatten(1), logit
