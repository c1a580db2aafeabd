"""Defines DeepLab v3 on MobileNetV2, whose published weights the encoder begins with; also the baseline.

Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks" (2018); Chen et al., "Rethinking atrous
convolution for semantic image segmentation" (2017).  The layers have the names of the published weights, whose
normalization is folded into the convolutions; those of stride 2 pad as TensorFlow's SAME does, the odd row and column
below and right.
"""

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

STAGES: Final = (
    (1, 16, 1, 1, 1),
    (6, 24, 2, 2, 1),
    (6, 32, 3, 2, 1),
    (6, 64, 4, 2, 1),
    (6, 96, 3, 1, 1),
    (6, 160, 3, 1, 2),
    (6, 320, 1, 1, 2),
)
"""Expansion, channels, blocks, stride of the first block and dilation of the others, by stage."""
LEVELS: Final = {2: 24, 5: 32, 12: 96, 16: 320}
"""Channels of the maps that a cutout reads, by block: strides 4, 8, 16 and 16."""
CLASSES: Final = 21
PERSON: Final = 15
FOLDER: Final = "deeplab_v3_mobilenet_v2_voc"


class Convolution(nn.Conv2d):
    """A convolution that pads as TensorFlow's SAME does."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, *, groups: int = 1, dilation: int = 1
    ) -> None:
        padding = 0 if stride > 1 else dilation * (kernel // 2)
        super().__init__(inputs, outputs, kernel, stride, padding, dilation=dilation, groups=groups)

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

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int, dilation: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = Convolution(inputs, wide, 1) if expansion > 1 else None
        self.depthwise = Convolution(wide, wide, 3, stride, groups=wide, dilation=dilation)
        self.project = Convolution(wide, outputs, 1)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [n, outputs, rows, columns]."""
        wide = x if self.expand is None else functional.relu6(self.expand(x))
        narrow: Tensor = self.project(functional.relu6(self.depthwise(wide)))
        return x + narrow if self.is_residual else narrow


class DeepLab(nn.Module):
    """Feature maps of a picture, and scores of the 21 classes of Pascal VOC."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Convolution(3, 32, 3, 2)
        blocks: list[nn.Module] = []
        before, earlier = 32, 1
        for expansion, channels, repeats, stride, dilation in STAGES:
            for each in range(repeats):
                spread = earlier if each == 0 else dilation
                blocks.append(InvertedResidual(before, channels, stride if each == 0 else 1, expansion, spread))
                before = channels
            earlier = dilation
        self.blocks = nn.ModuleList(blocks)
        self.aspp_pooled = nn.Conv2d(before, 256, 1)
        self.aspp_local = nn.Conv2d(before, 256, 1)
        self.merge = nn.Conv2d(512, 256, 1)
        self.classifier = nn.Conv2d(256, CLASSES, 1)

    def maps(self, x: Tensor) -> list[Tensor]:
        """Return the maps of `LEVELS`, f32 [n, channels, size / stride, size / stride].

        Args:
            x: f32 [n, 3, size, size], red first, in [-1, 1].
        """
        found = []
        x = functional.relu6(self.stem(x))
        for index, block in enumerate(self.blocks):
            x = block(x)
            if index in LEVELS:
                found.append(x)
        return found

    def classes(self, top: Tensor) -> Tensor:
        """Return the scores of the classes, f32 [n, 21, rows, columns], from the last map."""
        pooled = functional.relu(self.aspp_pooled(top.mean((2, 3), keepdim=True)))
        local = functional.relu(self.aspp_local(top))
        joined = torch.cat([pooled.expand(-1, -1, top.shape[2], top.shape[3]), local], 1)
        found: Tensor = self.classifier(functional.relu(self.merge(joined)))
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of the classes at the picture's size, f32 [n, 21, size, size]."""
        scores = self.classes(self.maps(x)[-1])
        return functional.interpolate(scores, x.shape[2:], mode="bilinear", align_corners=True)


def load_deep_lab(folder: Path) -> DeepLab:
    """Return the network with its published weights, frozen.

    Args:
        folder: of all published weights.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it holds other tensors than the network has.
    """
    from safetensors.torch import load_file  # noqa: PLC0415 - not a dependency of the feature

    path = folder / FOLDER / "model.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: --weights is the folder of the published weights")
    network = DeepLab()
    network.load_state_dict(load_file(path))
    return network.eval().requires_grad_(requires_grad=False)
