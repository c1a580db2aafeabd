"""Classifiers after the transformer: patches, mixing of tokens and channels, without attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.architectures.layers import Classifier, LayerNorm2d
from benchmarks.architectures.registry import Architecture, image


class ConvNextBlock(nn.Module):
    """Depthwise 7x7, layer norm, two pointwise layers, layer scale (Liu et al. 2022, figure 4)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.expand = nn.Linear(channels, 4 * channels)
        self.project = nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of `x`."""
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.project(F.gelu(self.expand(y)))
        return x + y.permute(0, 3, 1, 2)


class GlobalResponse(nn.Module):
    """Global response normalisation of [N, H, W, C] (ConvNeXt V2, section 3.2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.randn(channels) * 0.1)
        self.beta = nn.Parameter(torch.randn(channels) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with channels that compete."""
        norm = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
        return self.gamma * (x * (norm / (norm.mean(-1, keepdim=True) + 1e-6))) + self.beta + x


class ConvNextV2Block(ConvNextBlock):
    """As V1, with global response normalisation instead of layer scale."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.response = GlobalResponse(4 * channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of `x`."""
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.project(self.response(F.gelu(self.expand(y))))
        return x + y.permute(0, 3, 1, 2)


def convnext(block: type[ConvNextBlock] = ConvNextBlock) -> nn.Module:
    """Two stages."""
    return Classifier(
        nn.Sequential(
            nn.Conv2d(3, 16, 4, 4), LayerNorm2d(16), block(16), block(16),
            LayerNorm2d(16), nn.Conv2d(16, 32, 2, 2), block(32), block(32),
        ),
        32,
    )  # fmt: skip


class Residual(nn.Module):
    """`x + layers(x)`."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum."""
        return x + self.layers(x)


def convmixer() -> nn.Module:
    """ConvMixer (Trockman and Kolter 2022, figure 3); padding is computed by torch ("same")."""
    blocks = []
    for _ in range(3):
        depthwise = nn.Conv2d(32, 32, 5, groups=32, padding="same")
        blocks += [Residual(depthwise, nn.GELU(), nn.BatchNorm2d(32)), nn.Conv2d(32, 32, 1), nn.GELU()]
        blocks.append(nn.BatchNorm2d(32))
    return Classifier(nn.Sequential(nn.Conv2d(3, 32, 4, 4), nn.GELU(), nn.BatchNorm2d(32), *blocks), 32)


class MixerLayer(nn.Module):
    """One layer of MLP-Mixer (Tolstikhin et al. 2021, figure 1)."""

    def __init__(self, tokens: int, channels: int) -> None:
        super().__init__()
        self.norm_tokens = nn.LayerNorm(channels)
        self.mix_tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.norm_channels = nn.LayerNorm(channels)
        self.mix_channels = nn.Sequential(nn.Linear(channels, 64), nn.GELU(), nn.Linear(64, channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, tokens, channels]."""
        x = x + self.mix_tokens(self.norm_tokens(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mix_channels(self.norm_channels(x))


class Mixer(nn.Module):
    """Patches, mixer layers, mean."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.layers = nn.Sequential(MixerLayer(16, 32), MixerLayer(16, 32), nn.LayerNorm(32))
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        y: Tensor = self.head(self.layers(self.patches(x).flatten(2).transpose(1, 2)).mean(1))
        return y


class PoolMixer(nn.Module):
    """PoolFormer's block: pooling minus identity mixes tokens (Yu et al. 2022, figure 2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(1, channels)
        self.norm2 = nn.GroupNorm(1, channels)
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.mlp = nn.Sequential(nn.Conv2d(channels, 2 * channels, 1), nn.GELU(), nn.Conv2d(2 * channels, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of `x`."""
        y = self.norm1(x)
        x = x + (self.pool(y) - y)
        return x + self.mlp(self.norm2(x))


def poolformer() -> nn.Module:
    """Two stages of PoolFormer."""
    first = [nn.Conv2d(3, 16, 7, 4, 2), PoolMixer(16), PoolMixer(16)]
    return Classifier(nn.Sequential(*first, nn.Conv2d(16, 32, 3, 2, 1), PoolMixer(32)), 32)


ARCHITECTURES = (
    Architecture("convnext", "image classification", convnext, image(1, 3, 48, 48)),
    Architecture("convnext-v2", "image classification", lambda: convnext(ConvNextV2Block), image(1, 3, 48, 48)),
    Architecture("convmixer", "image classification", convmixer, image(1, 3, 32, 32)),
    Architecture("mlp-mixer", "image classification", Mixer, image(1, 3, 32, 32)),
    Architecture("poolformer", "image classification", poolformer, image(1, 3, 48, 48)),
)
