"""Defines two small vision models: MobileNetV3-small's blocks for 32x32 images, and a narrow ResNet for scenes.

Sources: Howard et al., "Searching for MobileNetV3", ICCV 2019, table 2, with two of the five strides left out; He et
al., "Deep residual learning for image recognition", CVPR 2016, with a quarter of the width.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

MEAN: Final = (0.485, 0.456, 0.406)
DEVIATION: Final = (0.229, 0.224, 0.225)
"""Of an image in [0, 1], by channel; what comes out is the input of the models."""


def _divisible(value: float) -> int:
    rounded = max(8, int(value + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * value else rounded


class SqueezeExcite(nn.Module):
    """Scales each channel by what the mean of all channels says."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = _divisible(channels / 4)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, inner, 1)
        self.relu = nn.ReLU()
        self.expand = nn.Conv2d(inner, channels, 1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, channels, height, width]."""
        gate: Tensor = self.gate(self.expand(self.relu(self.reduce(self.pool(x)))))
        return x * gate


class Bottleneck(nn.Module):
    """Expansion, depthwise convolution, squeeze and excite, projection, and the input once more."""

    def __init__(
        self, inputs: int, expanded: int, outputs: int, kernel: int, stride: int, *, se: bool, hs: bool
    ) -> None:
        super().__init__()
        activation = nn.Hardswish if hs else nn.ReLU
        layers: list[nn.Module] = []
        if expanded != inputs:
            layers += [nn.Conv2d(inputs, expanded, 1, bias=False), nn.BatchNorm2d(expanded), activation()]
        layers += [
            nn.Conv2d(expanded, expanded, kernel, stride, kernel // 2, groups=expanded, bias=False),
            nn.BatchNorm2d(expanded),
            activation(),
        ]
        if se:
            layers.append(SqueezeExcite(expanded))
        layers += [nn.Conv2d(expanded, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, channels, height, width]."""
        result: Tensor = self.layers(x)
        return x + result if self.is_residual else result


class MobileNetV3Small(nn.Module):
    """Of 32x32 images; 1.5 million parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        rows = (
            (16, 16, 16, 3, 1, True, False),
            (16, 72, 24, 3, 2, False, False),
            (24, 88, 24, 3, 1, False, False),
            (24, 96, 40, 5, 2, True, True),
            (40, 240, 40, 5, 1, True, True),
            (40, 240, 40, 5, 1, True, True),
            (40, 120, 48, 5, 1, True, True),
            (48, 144, 48, 5, 1, True, True),
            (48, 288, 96, 5, 1, True, True),
            (96, 576, 96, 5, 1, True, True),
            (96, 576, 96, 5, 1, True, True),
        )
        blocks = [Bottleneck(*row[:5], se=row[5], hs=row[6]) for row in rows]
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(nn.Conv2d(96, 576, 1, bias=False), nn.BatchNorm2d(576), nn.Hardswish())
        self.head = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, channels, height, width]."""
        result: Tensor = self.head(self.last(self.blocks(self.stem(x))).mean((2, 3)))
        return result


class BasicBlock(nn.Module):
    """Two convolutions and the input once more."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, channels, height, width]."""
        result = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(result + self.shortcut(x))


class ResNet18Quarter(nn.Module):
    """Of 64x64 images; 0.7 million parameters."""

    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        widths = (16, 32, 64, 128)
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks: list[nn.Module] = []
        inputs = 16
        for stage, width in enumerate(widths):
            blocks += [BasicBlock(inputs, width, 1 if stage == 0 else 2), BasicBlock(width, width, 1)]
            inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, channels, height, width]."""
        result: Tensor = self.head(self.pool(self.blocks(self.stem(x))).flatten(1))
        return result
