"""Defines MobileNetV2: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks" (2018).

The layers have the names of the published weights, whose normalization is folded into the convolutions; those of
stride 2 pad as TensorFlow's SAME does, the odd row and column below and right.
"""

from typing import Final

from torch import Tensor, nn
from torch.nn import functional

STAGES: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and stride of the first block, by stage."""
HEAD: Final = 1280
"""Channels of the last feature map."""
CLASSES: Final = 1000


class Convolution(nn.Conv2d):
    """A convolution that pads as TensorFlow's SAME does; sizes are fixed when the program is built."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, 0 if stride > 1 else kernel // 2, groups=groups)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Return the map, ceil(size / stride) on each side."""
        if self.stride[0] == 1:
            return super().forward(input)
        return super().forward(functional.pad(input, _same(input.shape[3], self) + _same(input.shape[2], self)))


def _same(size: int, layer: nn.Conv2d) -> tuple[int, int]:
    kernel, stride = layer.kernel_size[0], layer.stride[0]
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class InvertedResidual(nn.Module):
    """Widens, convolves each channel by itself, narrows; adds its input where the shape stays."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = Convolution(inputs, wide, 1) if expansion > 1 else None
        self.depthwise = Convolution(wide, wide, 3, stride, groups=wide)
        self.project = Convolution(wide, outputs, 1)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [n, outputs, rows, columns]."""
        wide = x if self.expand is None else functional.relu6(self.expand(x))
        narrow: Tensor = self.project(functional.relu6(self.depthwise(wide)))
        return x + narrow if self.is_residual else narrow


class MobileNetV2(nn.Module):
    """Feature map and classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Convolution(3, 32, 3, 2)
        blocks: list[nn.Module] = []
        before = 32
        for expansion, channels, repeats, stride in STAGES:
            for each in range(repeats):
                blocks.append(InvertedResidual(before, channels, stride if each == 0 else 1, expansion))
                before = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = Convolution(before, HEAD, 1)
        self.classifier = nn.Linear(HEAD, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the last feature map, f32 [n, 1280, size / 32, size / 32].

        Args:
            x: f32 [n, 3, size, size], red first, in [-1, 1].
        """
        found: Tensor = self.blocks(functional.relu6(self.stem(x)))
        return functional.relu6(self.head(found))
