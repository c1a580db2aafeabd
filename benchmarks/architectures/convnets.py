"""Classifiers made of convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from benchmarks.architectures.layers import Classifier, InvertedResidual, SqueezeExcite, conv_bn, round_channels
from benchmarks.architectures.registry import Architecture, image


def mobilenet_v2() -> nn.Module:
    """MobileNetV2 (Sandler et al. 2018, table 2) at 0.35 of its width."""
    channels = round_channels(32 * 0.35)
    layers: list[nn.Module] = [conv_bn(3, channels, 3, 2, activation=nn.ReLU6())]
    for expansion, width, repeats, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ):  # fmt: skip
        out = round_channels(width * 0.35)
        for repeat in range(repeats):
            layers.append(InvertedResidual(channels, out, expansion=expansion, stride=1 if repeat else stride))
            channels = out
    layers.append(conv_bn(channels, 256, 1, activation=nn.ReLU6()))
    return Classifier(nn.Sequential(*layers), 256)


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


class ManualShuffle(nn.Module):
    """ShuffleNetV1's unit: grouped 1x1 convolutions and a shuffle by views (Zhang et al. 2017, figure 2 b)."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.first = conv_bn(channels, channels, 1, groups=groups, activation=nn.ReLU())
        self.depthwise = conv_bn(channels, channels, 3, groups=channels)
        self.last = conv_bn(channels, channels, 1, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        """Return the unit of `x`."""
        y = self.first(x)
        n, c, h, w = y.shape
        y = y.view(n, self.groups, c // self.groups, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
        return F.relu(x + self.last(self.depthwise(y)))


def shufflenet_v1() -> nn.Module:
    """ShuffleNetV1's units of stride 1."""
    stem = conv_bn(3, 24, 3, 2, activation=nn.ReLU())
    return Classifier(nn.Sequential(stem, ManualShuffle(24, 3), nn.AvgPool2d(3, 2, 1), ManualShuffle(24, 3)), 24)


def shufflenet_v2() -> nn.Module:
    """ShuffleNetV2 x0.5 with fewer units."""
    units = [Shuffle(24, 48, 2), Shuffle(48, 48, 1), Shuffle(48, 96, 2), Shuffle(96, 96, 1)]
    stem = [conv_bn(3, 24, 3, 2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    return Classifier(nn.Sequential(*stem, *units), 96)


class RepVggBlock(nn.Module):
    """3x3, 1x1 and identity side by side, as in training (Ding et al. 2021, figure 2 b)."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.wide = conv_bn(channels_in, channels, 3, stride)
        self.point = conv_bn(channels_in, channels, 1, stride)
        self.identity = nn.BatchNorm2d(channels) if stride == 1 and channels_in == channels else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the block of `x`."""
        y = self.wide(x) + self.point(x)
        if self.identity is not None:
            y = y + self.identity(x)
        return F.relu(y)


def repvgg() -> nn.Module:
    """RepVGG before its branches are merged."""
    blocks = [RepVggBlock(3, 16, 2), RepVggBlock(16, 16, 1), RepVggBlock(16, 32, 2), RepVggBlock(32, 32, 1)]
    return Classifier(nn.Sequential(*blocks), 32)


class Fire(nn.Module):
    """Squeeze, then two expansions side by side (Iandola et al. 2016, figure 1)."""

    def __init__(self, channels_in: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels_in, squeezed, 1)
        self.point = nn.Conv2d(squeezed, expanded, 1)
        self.wide = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, 2 * expanded, H, W]."""
        y = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.point(y)), F.relu(self.wide(y))], 1)


def squeezenet() -> nn.Module:
    """SqueezeNet 1.1 with fewer fire modules; pooling rounds up."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(32, 16, 32), Fire(64, 16, 32),
        nn.MaxPool2d(3, 2, ceil_mode=True), Fire(64, 16, 64), nn.Dropout(0.5), nn.Conv2d(128, 10, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class DenseLayer(nn.Module):
    """Appends `growth` channels to what it gets (Huang et al. 2017, section 3)."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, channels + growth, H, W]."""
        return torch.cat([x, self.layers(x)], 1)


def densenet() -> nn.Module:
    """DenseNet with two blocks of three layers."""
    layers: list[nn.Module] = [conv_bn(3, 16, 3, 2, activation=nn.ReLU())]
    channels = 16
    for _ in range(2):
        for _ in range(3):
            layers.append(DenseLayer(channels, 8))
            channels += 8
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1), nn.AvgPool2d(2)]
        channels //= 2
    return Classifier(nn.Sequential(*layers), channels)


ARCHITECTURES = (
    Architecture("mobilenet-v2", "image classification", mobilenet_v2, image(1, 3, 96, 96)),
    Architecture("mobilenet-v3", "image classification", mobilenet_v3, image(1, 3, 96, 96)),
    Architecture("ghostnet", "image classification", ghostnet, image(1, 3, 48, 48)),
    Architecture("shufflenet-v1", "image classification", shufflenet_v1, image(1, 3, 48, 48)),
    Architecture("shufflenet-v2", "image classification", shufflenet_v2, image(1, 3, 64, 64)),
    Architecture("repvgg", "image classification", repvgg, image(1, 3, 32, 32)),
    Architecture("squeezenet", "image classification", squeezenet, image(1, 3, 64, 64)),
    Architecture("densenet", "image classification", densenet, image(1, 3, 32, 32)),
)
