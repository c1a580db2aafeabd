"""Classifiers after the transformer: patches, mixing of tokens and channels, without attention."""

from __future__ import annotations

from torch import Tensor, nn

from benchmarks.architectures.layers import Classifier
from benchmarks.architectures.registry import Architecture, image


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


ARCHITECTURES = (
    Architecture("convmixer", "image classification", convmixer, image(1, 3, 32, 32)),
    Architecture("mlp-mixer", "image classification", Mixer, image(1, 3, 32, 32)),
)
