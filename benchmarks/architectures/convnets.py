"""Classifiers made of convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.architectures.layers import Classifier, InvertedResidual, SqueezeExcite, conv_bn, round_channels
from benchmarks.architectures.registry import Architecture, image

# kernel, expanded, out, squeeze and excite, hard swish, stride: Howard et al. 2019, table 2
_V3_SMALL = (
    (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1), (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1), (5, 120, 48, True, True, 1), (5, 288, 96, True, True, 2), (5, 576, 96, True, True, 1),
)  # fmt: skip


def mobilenet_v3() -> nn.Module:
    """MobileNetV3-small."""
    layers: list[nn.Module] = [conv_bn(3, 16, 3, 2, activation=nn.Hardswish())]
    channels = 16
    for kernel, expanded, out, has_squeeze, is_hard_swish, stride in _V3_SMALL:
        squeeze = SqueezeExcite(expanded, round_channels(expanded / 4), nn.Hardsigmoid()) if has_squeeze else None
        activation = nn.Hardswish if is_hard_swish else nn.ReLU
        layers.append(
            InvertedResidual(
                channels,
                out,
                expansion=expanded / channels,
                kernel=kernel,
                stride=stride,
                activation=activation,
                squeeze=squeeze,
            )
        )
        channels = out
    layers.append(conv_bn(channels, 576, 1, activation=nn.Hardswish()))
    return Classifier(nn.Sequential(*layers), 576)


class Ghost(nn.Module):
    """Half of the channels by a convolution, the others from them by a cheap depthwise one (Han et al. 2020)."""

    def __init__(self, channels_in: int, channels: int, activation: nn.Module | None) -> None:
        super().__init__()
        self.channels = channels
        primary = (channels + 1) // 2
        self.primary = conv_bn(channels_in, primary, 1, activation=activation)
        self.cheap = conv_bn(primary, primary, 3, groups=primary, activation=activation)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, channels, H, W]."""
        y = self.primary(x)
        return torch.cat([y, self.cheap(y)], 1)[:, : self.channels]


class GhostBlock(nn.Module):
    """Two ghost modules around a strided depthwise convolution, and a shortcut."""

    def __init__(self, channels_in: int, hidden: int, channels: int, stride: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [Ghost(channels_in, hidden, nn.ReLU())]
        if stride > 1:
            layers.append(conv_bn(hidden, hidden, 3, stride, groups=hidden))
            layers.append(SqueezeExcite(hidden, hidden // 4, nn.Hardsigmoid()))
        self.layers = nn.Sequential(*layers, Ghost(hidden, channels, None))
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels_in != channels:
            depthwise = conv_bn(channels_in, channels_in, 3, stride, groups=channels_in)
            self.shortcut = nn.Sequential(depthwise, conv_bn(channels_in, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of `x`."""
        y: Tensor = self.layers(x) + self.shortcut(x)
        return y


def ghostnet() -> nn.Module:
    """GhostNet with fewer blocks."""
    blocks = [
        GhostBlock(16, 16, 16, 1),
        GhostBlock(16, 48, 24, 2),
        GhostBlock(24, 72, 24, 1),
        GhostBlock(24, 72, 40, 2),
    ]
    return Classifier(nn.Sequential(conv_bn(3, 16, 3, 2, activation=nn.ReLU()), *blocks), 40)


class Shuffle(nn.Module):
    """A unit of ShuffleNetV2 (Ma et al. 2018, figure 3 c and d)."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        half = channels // 2
        self.stride = stride
        inside = half if stride == 1 else channels_in
        self.right = nn.Sequential(
            conv_bn(inside, half, 1, activation=nn.ReLU()),
            conv_bn(half, half, 3, stride, groups=half),
            conv_bn(half, half, 1, activation=nn.ReLU()),
        )
        self.left: nn.Module = nn.Identity()
        if stride > 1:
            depthwise = conv_bn(channels_in, channels_in, 3, stride, groups=channels_in)
            self.left = nn.Sequential(depthwise, conv_bn(channels_in, half, 1, activation=nn.ReLU()))

    def forward(self, x: Tensor) -> Tensor:
        """Return the unit of `x`, its two halves shuffled."""
        left, right = x.chunk(2, dim=1) if self.stride == 1 else (x, x)
        return F.channel_shuffle(torch.cat([self.left(left), self.right(right)], 1), 2)


def shufflenet_v2() -> nn.Module:
    """ShuffleNetV2 x0.5 with fewer units."""
    units = [Shuffle(24, 48, 2), Shuffle(48, 48, 1), Shuffle(48, 96, 2), Shuffle(96, 96, 1)]
    stem = [conv_bn(3, 24, 3, 2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    return Classifier(nn.Sequential(*stem, *units), 96)


ARCHITECTURES = (
    Architecture("mobilenet-v3", "image classification", mobilenet_v3, image(1, 3, 96, 96)),
    Architecture("ghostnet", "image classification", ghostnet, image(1, 3, 48, 48)),
    Architecture("shufflenet-v2", "image classification", shufflenet_v2, image(1, 3, 64, 64)),
)
