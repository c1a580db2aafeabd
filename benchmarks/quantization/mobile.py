"""Defines a MobileNetV2 and an EfficientNet of a quarter of the width, for 32x32 images.

Sources: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", CVPR 2018; Tan and Le, "EfficientNet:
rethinking model scaling for convolutional neural networks", ICML 2019; both with three of the five strides.
"""

from __future__ import annotations

from typing import Final

from torch import Tensor, nn

_ROWS: Final = ((1, 8, 1, 1), (4, 16, 2, 1), (4, 24, 2, 2), (4, 32, 2, 2), (4, 48, 1, 1))
"""Expansion, channels, blocks, stride of the first."""


class Gate(nn.Module):
    """Scales each channel by a sigmoid of what the mean of all channels says."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, inner, 1),
            nn.SiLU(),
            nn.Conv2d(inner, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, channels, height, width]."""
        gate: Tensor = self.layers(x)
        return x * gate


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, perhaps a gate, linear projection; the input once more where sizes stay."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int, *, is_gated: bool) -> None:
        super().__init__()
        inner = inputs * expansion
        activation = nn.SiLU if is_gated else nn.ReLU6
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), activation()]
        layers += [
            nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            activation(),
        ]
        if is_gated:
            layers.append(Gate(inner, max(4, inputs // 4)))
        layers += [nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, channels, height, width]."""
        result: Tensor = self.layers(x)
        return x + result if self.is_residual else result


class MobileNet(nn.Module):
    """Of 32x32 images: inverted residuals with relu6, or with gates and swish as in EfficientNet."""

    def __init__(self, classes: int = 10, *, is_gated: bool = False) -> None:
        super().__init__()
        activation = nn.SiLU if is_gated else nn.ReLU6
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), activation())
        blocks: list[nn.Module] = []
        inputs = 16
        for place, (expansion, width, repeats, stride) in enumerate(_ROWS):
            kernel = 5 if is_gated and place % 2 else 3
            for index in range(repeats):
                step = stride if index == 0 else 1
                blocks.append(InvertedResidual(inputs, width, expansion, kernel, step, is_gated=is_gated))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(nn.Conv2d(inputs, 192, 1, bias=False), nn.BatchNorm2d(192), activation())
        self.head = nn.Linear(192, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits for f32 [n, 3, height, width]."""
        result: Tensor = self.head(self.last(self.blocks(self.stem(x))).mean((2, 3)))
        return result


def mobilenet_v2() -> MobileNet:
    """Return a MobileNetV2 of a quarter of the width."""
    return MobileNet()


def efficientnet() -> MobileNet:
    """Return an EfficientNet of a quarter of the width."""
    return MobileNet(is_gated=True)
