"""Builds models of sound in plain torch: separation, noise suppression, keyword spotting, and others."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.architectures.layers import conv_bn
from benchmarks.architectures.registry import Architecture, image


class SeparatorBlock(nn.Module):
    """1x1, dilated depthwise, two 1x1 outputs; PReLU and global layer norm (Luo and Mesgarani 2019, figure 1 C)."""

    def __init__(self, channels: int, hidden: int, dilation: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(channels, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden, eps=1e-8),
            nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden),
            nn.PReLU(), nn.GroupNorm(1, hidden, eps=1e-8),
        )  # fmt: skip
        self.residual, self.skip = nn.Conv1d(hidden, channels, 1), nn.Conv1d(hidden, channels, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the next block's input and the skip."""
        y = self.layers(x)
        return x + self.residual(y), self.skip(y)


class ConvTasNet(nn.Module):
    """A learned filter bank, masks for two speakers, and the bank's inverse."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 32, 16, 8, bias=False)
        self.bottleneck = nn.Sequential(nn.GroupNorm(1, 32, eps=1e-8), nn.Conv1d(32, 16, 1))
        self.blocks = nn.ModuleList(SeparatorBlock(16, 32, 2**i) for _ in range(2) for i in range(4))
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(16, 64, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(32, 1, 16, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, 2, samples]."""
        code = F.relu(self.encoder(x))
        y = self.bottleneck(code)
        total = torch.zeros(1)
        for block in self.blocks:
            y, skip = block(y)
            total = total + skip
        n, c, frames = code.shape
        sources = self.masks(total).view(n, 2, c, frames) * code.unsqueeze(1)
        return self.decoder(sources.view(n * 2, c, frames)).view(n, 2, -1)


class DeepFilter(nn.Module):
    """Convolutions over time and frequency, a grouped GRU, complex filters over five frames (as DeepFilterNet)."""

    def __init__(self, bands: int = 32, taps: int = 5) -> None:
        super().__init__()
        self.taps = taps
        self.first = nn.Sequential(
            nn.ConstantPad2d((1, 1, 2, 0), 0.0), nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.second = nn.Sequential(
            nn.Conv2d(8, 8, (1, 3), (1, 2), (0, 1), groups=8), nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.gru = nn.GRU(8 * bands // 2, 64, 2, batch_first=True)
        self.mask = nn.Linear(64, bands)
        self.filters = nn.Linear(64, bands * taps * 2)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Return the filtered spectrum [N, 2, T, bands]."""
        n, _, frames, bands = spectrum.shape
        y = self.second(self.first(spectrum))
        y, _ = self.gru(y.permute(0, 2, 1, 3).flatten(2))
        masked = spectrum * torch.sigmoid(self.mask(y)).unsqueeze(1)
        filters = self.filters(y).view(n, frames, bands, self.taps, 2)
        windows = F.pad(masked, (0, 0, self.taps - 1, 0)).unfold(2, self.taps, 1)
        real, imaginary = windows[:, 0], windows[:, 1]
        a, b = filters[..., 0], filters[..., 1]
        return torch.stack([(real * a - imaginary * b).sum(-1), (real * b + imaginary * a).sum(-1)], 1)


class WaveNet(nn.Module):
    """Causal dilated convolutions with gates, skips added (van den Oord et al. 2016, figure 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 16)
        self.gated = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(5))
        self.residual = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(5))
        self.skip = nn.ModuleList(nn.Conv1d(16, 24, 1) for _ in range(5))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(24, 24, 1), nn.ReLU(), nn.Conv1d(24, 64, 1))

    def forward(self, samples: Tensor) -> Tensor:
        """Return log-probabilities [N, 64, T] of the next sample."""
        x = self.embedding(samples).transpose(1, 2)
        skips = []
        for i, (gated, residual, skip) in enumerate(zip(self.gated, self.residual, self.skip, strict=True)):
            a, b = gated(F.pad(x, (2**i, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            skips.append(skip(y))
            x = x + residual(y)
        return F.log_softmax(self.head(torch.stack(skips).sum(0)), 1)


def ds_cnn() -> nn.Module:
    """DS-CNN for keywords (Zhang et al. 2017, "Hello Edge"), on 49 frames of 10 coefficients."""
    layers: list[nn.Module] = [nn.Conv2d(1, 32, (10, 4), (2, 2), (5, 1), bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    for _ in range(3):
        layers.append(conv_bn(32, 32, 3, groups=32, activation=nn.ReLU()))
        layers.append(conv_bn(32, 32, 1, activation=nn.ReLU()))
    return nn.Sequential(*layers, nn.AvgPool2d((25, 5)), nn.Flatten(), nn.Linear(32, 12), nn.Softmax(1))


class HifiGan(nn.Module):
    """A vocoder's generator: transposed convolutions and dilated residual blocks with leaky ReLU (Kong et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(20, 32, 7, padding=3)
        self.ups = nn.ModuleList([nn.ConvTranspose1d(32, 16, 8, 4, 2), nn.ConvTranspose1d(16, 8, 4, 2, 1)])
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(c, c, 3, padding=d, dilation=d) for d in (1, 3, 5)) for c in (16, 8)
        )
        self.leave = nn.Conv1d(8, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        """Return samples [N, 1, 8T]."""
        x = self.enter(mel)
        for up, block in zip(self.ups, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            for conv in block:  # type: ignore[attr-defined]
                x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(self.leave(F.leaky_relu(x)))


ARCHITECTURES = (
    Architecture("conv-tasnet", "separation", ConvTasNet, image(1, 1, 800)),
    Architecture("deepfilternet", "noise suppression", DeepFilter, image(1, 2, 12, 32)),
    Architecture("wavenet", "speech synthesis", WaveNet, lambda: [(torch.randint(64, (1, 50)),)]),
    Architecture("hifi-gan", "speech synthesis", HifiGan, image(1, 20, 12)),
    Architecture("ds-cnn", "keyword spotting", ds_cnn, image(1, 1, 49, 10)),
)
