"""Blocks that several of the models share."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it


def round_channels(channels: float, to: int = 8) -> int:
    """Return the multiple of `to` nearest to `channels`, never more than a tenth below it (MobileNetV2, section 4)."""
    near = max(to, int(channels + to / 2) // to * to)
    return near + to if near < 0.9 * channels else near


def conv_bn(
    channels_in: int,
    channels_out: int,
    kernel: int = 3,
    stride: int = 1,
    *,
    groups: int = 1,
    dilation: int = 1,
    activation: nn.Module | None = None,
) -> nn.Sequential:
    """Return convolution, batch norm and an activation if one is given; padded so that stride 1 keeps the size."""
    padding = (kernel - 1) // 2 * dilation
    layers: list[nn.Module] = [
        nn.Conv2d(channels_in, channels_out, kernel, stride, padding, dilation, groups, bias=False),
        nn.BatchNorm2d(channels_out),
    ]
    return nn.Sequential(*layers, *([activation] if activation else []))


class SqueezeExcite(nn.Module):
    """Scales channels by what a small network makes of their means."""

    def __init__(self, channels: int, squeezed: int, gate: nn.Module | None = None, inner: nn.Module | None = None):
        super().__init__()
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, channels, 1)
        self.inner = inner or nn.ReLU()
        self.gate = gate or nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with scaled channels."""
        weight = F.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.expand(self.inner(self.reduce(weight))))


class InvertedResidual(nn.Module):
    """Expand, depthwise, (squeeze and excite,) project; with a shortcut where shapes allow (MobileNetV2, figure 4)."""

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        *,
        expansion: float,
        kernel: int = 3,
        stride: int = 1,
        activation: type[nn.Module] = nn.ReLU6,
        squeeze: nn.Module | None = None,
    ) -> None:
        super().__init__()
        hidden = round_channels(channels_in * expansion)
        layers: list[nn.Module] = []
        if expansion != 1:
            layers.append(conv_bn(channels_in, hidden, 1, activation=activation()))
        layers.append(conv_bn(hidden, hidden, kernel, stride, groups=hidden, activation=activation()))
        if squeeze is not None:
            layers.append(squeeze)
        layers.append(conv_bn(hidden, channels_out, 1))
        self.layers = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and channels_in == channels_out

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of `x`."""
        y: Tensor = self.layers(x)
        return x + y if self.has_shortcut else y


class Classifier(nn.Module):
    """Global mean and a linear layer."""

    def __init__(self, body: nn.Module, channels: int, classes: int = 10) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [N, classes]."""
        y: Tensor = self.head(torch.flatten(F.adaptive_avg_pool2d(self.body(x), 1), 1))
        return y


class LayerNorm2d(nn.Module):
    """Layer norm over the channels of [N, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` normalised."""
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return x * self.weight[:, None, None] + self.bias[:, None, None]
