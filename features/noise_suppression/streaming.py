"""Defines what is exported: one hop in, one hop out, with everything that a stream remembers in buffers.

The answer is that of `network.NoiseNetwork` over the whole sound, a hop later.
"""

from typing import Final

import torch
from alcove.features.noise_suppression.config import BINS, COARSE, HOP, WIDTH, WINDOW
from alcove.features.noise_suppression.network import (
    HALF,
    DualPathBlock,
    NoiseNetwork,
    TemporalBlock,
    interleave,
    neighbours,
)
from torch import Tensor, nn

LOUDEST: Final = 32.0
"""A sample beyond this, 30 dB above full scale, or one that is no number, counts as 0."""


class TemporalStep(nn.Module):
    """A temporal block a frame at a time.

    Args:
        block: whose layers it has.
    """

    past: Tensor
    hidden: Tensor

    def __init__(self, block: TemporalBlock) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("past", torch.zeros(1, WIDTH, 2 * block.dilation, COARSE))
        self.register_buffer("hidden", torch.zeros(1, 1, WIDTH))

    def forward(self, values: Tensor) -> Tensor:
        """Return the block's output for a frame, [1, 16, 1, 33]."""
        block = self.block
        seen, kept = values[:, :HALF], values[:, HALF:]
        wide = torch.cat([self.past, block.point_act(block.point_conv1(neighbours(seen)))], dim=2)
        narrow = block.point_conv2(block.depth_act(block.depth_conv(wide)))
        energy = (narrow * narrow).mean(dim=-1).transpose(1, 2)
        out, hidden = block.att_gru(energy, self.hidden)
        weight = torch.sigmoid(block.att_fc(out)).transpose(1, 2)
        self.past.copy_(wide[:, :, 1:])
        self.hidden.copy_(hidden)
        return interleave(narrow * weight[..., None], kept)


class DualPathStep(nn.Module):
    """A dual-path block a frame at a time, on frames [1, 33, 16].

    Args:
        block: whose layers it has.
    """

    low: Tensor
    high: Tensor

    def __init__(self, block: DualPathBlock) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("low", torch.zeros(1, COARSE, HALF))
        self.register_buffer("high", torch.zeros(1, COARSE, HALF))

    def forward(self, bands: Tensor) -> Tensor:
        """Return the block's output for a frame, [1, 33, 16]."""
        block = self.block
        both = torch.cat([block.intra[0](bands[..., :HALF])[0], block.intra[1](bands[..., HALF:])[0]], dim=-1)
        bands = bands + block.intra_ln(block.intra_fc(both))
        over_time = bands.transpose(0, 1)
        first, low = block.inter[0](over_time[..., :HALF], self.low)
        second, high = block.inter[1](over_time[..., HALF:], self.high)
        both = torch.cat([first, second], dim=-1).transpose(0, 1)
        self.low.copy_(low)
        self.high.copy_(high)
        return torch.add(bands, block.inter_ln(block.inter_fc(both)))


class NoiseModule(nn.Module):
    """A hop of a noisy sound to the hop before it without noise, and whether someone speaks.

    Args:
        network: trained.
    """

    heard: Tensor
    tail: Tensor
    window: Tensor

    def __init__(self, network: NoiseNetwork) -> None:
        super().__init__()
        self.network = network
        self.encoder = nn.ModuleList(TemporalStep(block) for block in _temporal(network.encoder))
        self.middle = nn.ModuleList(DualPathStep(block) for block in _dual_path(network.middle))
        self.decoder = nn.ModuleList(TemporalStep(block) for block in _temporal(network.decoder))
        self.register_buffer("window", network.window.reshape(1, WINDOW).clone(), persistent=False)
        self.register_buffer("heard", torch.zeros(1, HOP))
        self.register_buffer("tail", torch.zeros(1, HOP))

    def forward(self, hop: Tensor) -> tuple[Tensor, Tensor]:
        """Return the clean sound of the hop before, f32 [1, 256], and the probability of speech, f32 [1, 1].

        Args:
            hop: f32 [1, 256], -1 to 1; a sample that is no number counts as 0.
        """
        network = self.network
        sound = torch.where(torch.abs(hop) <= LOUDEST, hop, torch.zeros_like(hop))
        spectrum = torch.fft.rfft(torch.cat([self.heard, sound], dim=-1) * self.window)
        real, imaginary = spectrum.real.reshape(1, 1, BINS), spectrum.imag.reshape(1, 1, BINS)
        first = network.first_act(network.first(network.features(real, imaginary)))
        second = network.second_act(network.second(first))
        levels = [second]
        for step in self.encoder:
            levels.append(step(levels[-1]))
        bands = levels[-1].reshape(1, WIDTH, COARSE).transpose(1, 2)
        for step in self.middle:
            bands = step(bands)
        values = bands.transpose(1, 2).reshape(1, WIDTH, 1, COARSE)
        logit = network.activity(torch.relu(network.speaking(values.reshape(1, WIDTH * COARSE))))
        for step in self.decoder:
            values = step(values + levels.pop())
        values = network.third_act(network.third(values + levels.pop()))
        mask_real, mask_imaginary = network.mask(network.last(values + first))
        clean_real = real * mask_real - imaginary * mask_imaginary
        clean_imaginary = imaginary * mask_real + real * mask_imaginary
        complex_spectrum = torch.complex(clean_real.reshape(1, BINS), clean_imaginary.reshape(1, BINS))
        frame = torch.fft.irfft(complex_spectrum, n=WINDOW) * self.window
        clean = self.tail + frame[:, :HOP]
        self.heard.copy_(sound)
        self.tail.copy_(frame[:, HOP:])
        return clean, torch.sigmoid(logit)


def _temporal(blocks: nn.ModuleList) -> list[TemporalBlock]:
    return [block for block in blocks if isinstance(block, TemporalBlock)]


def _dual_path(blocks: nn.ModuleList) -> list[DualPathBlock]:
    return [block for block in blocks if isinstance(block, DualPathBlock)]
