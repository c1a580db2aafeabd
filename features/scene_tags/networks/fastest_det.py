"""Defines FastestDet: a ShuffleNetV2 (Ma et al., 2018), one joined feature map, three small heads.

The layers have the names of the published weights.  https://github.com/dog-qiuqiu/FastestDet describes it.
"""

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

CATEGORIES: Final = 80
UNITS: Final = ((4, 48), (8, 96), (4, 192))
"""Units and channels, by stage."""
JOINED: Final = 96


def _pointwise(inputs: int, outputs: int, *, acts: bool = True) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
    return [*layers, nn.ReLU()] if acts else layers


def _depthwise(channels: int, kernel: int, stride: int = 1, *, acts: bool = False) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels, bias=False)
    layers: list[nn.Module] = [convolution, nn.BatchNorm2d(channels)]
    return [*layers, nn.ReLU()] if acts else layers


class Unit(nn.Module):
    """Sends half of the channels (or, halving the map, all of them) through three convolutions."""

    def __init__(self, inputs: int, outputs: int, *, halves: bool) -> None:
        super().__init__()
        middle = outputs // 2
        stride, entering = (2, inputs) if halves else (1, middle)
        self.branch_main = nn.Sequential(
            *_pointwise(entering, middle),
            *_depthwise(middle, 3, stride),
            *_pointwise(middle, outputs - inputs if halves else middle),
        )
        self.branch_proj = nn.Sequential(*_depthwise(inputs, 3, 2), *_pointwise(inputs, inputs)) if halves else None

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [n, outputs, rows, columns]."""
        if self.branch_proj is not None:
            return torch.cat([self.branch_proj(x), self.branch_main(x)], 1)
        return torch.cat([x[:, ::2], self.branch_main(x[:, 1::2])], 1)


class Backbone(nn.Module):
    """ShuffleNetV2, half as wide."""

    def __init__(self) -> None:
        super().__init__()
        self.first_conv = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU())
        self.stage2, self.stage3, self.stage4 = (
            nn.Sequential(
                *(Unit(before if each == 0 else channels, channels, halves=each == 0) for each in range(units))
            )
            for before, (units, channels) in zip((24, 48, 96), UNITS, strict=True)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the maps of an eighth, a sixteenth and a 32nd of the size."""
        x = functional.max_pool2d(self.first_conv(x), 3, 2, 1)
        second: Tensor = self.stage2(x)
        third: Tensor = self.stage3(second)
        fourth: Tensor = self.stage4(third)
        return second, third, fourth


class _Named(nn.Module):
    """Holds layers under the name that the published weights have for them."""

    def __init__(self, name: str, layers: list[nn.Module]) -> None:
        super().__init__()
        self.name = name
        setattr(self, name, nn.Sequential(*layers))

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layers give."""
        result: Tensor = getattr(self, self.name)(x)
        return result


class Pyramid(nn.Module):
    """Joins the three maps, and looks at their surroundings in three sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv1x1 = _Named("conv1x1", _pointwise(sum(channels for _, channels in UNITS), JOINED))
        self.S1, self.S2, self.S3 = (
            nn.Sequential(*(layer for _ in range(each) for layer in _depthwise(JOINED, 5, acts=True)))
            for each in (1, 2, 3)
        )
        self.output = nn.Sequential(*_pointwise(3 * JOINED, JOINED, acts=False))

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [n, 96, rows, columns] of the joined map."""
        x = self.Conv1x1(x)
        around = torch.cat([self.S1(x), self.S2(x), self.S3(x)], 1)
        return functional.relu(self.output(around) + x)


class Head(nn.Module):
    """Whether there is an object, where it is, what it is; at each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1x1 = _Named("conv1x1", _pointwise(JOINED, JOINED))
        self.obj_layers, self.reg_layers, self.cls_layers = (
            _Named("conv5x5", [*_depthwise(JOINED, 5, acts=True), *_pointwise(JOINED, outputs, acts=False)])
            for outputs in (1, 4, CATEGORIES)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of an object, boxes and logits of categories."""
        x = self.conv1x1(x)
        return self.obj_layers(x), self.reg_layers(x), self.cls_layers(x)


class FastestDet(nn.Module):
    """The detector."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.SPP = Pyramid()
        self.detect_head = Head()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits f32 [n, 1, rows, columns] of an object, boxes [n, 4, …], logits [n, 80, …] of categories.

        Boxes: column, row (before tanh, in cells from the cell's own), width, height (before the sigmoid, as shares of
        the picture).

        Args:
            x: f32 [n, 3, size, size], blue first, in [0, 1]; the size is a multiple of 32.
        """
        second, third, fourth = self.backbone(x)
        near = functional.avg_pool2d(second, 3, 2, 1)
        far = functional.interpolate(fourth, scale_factor=2)
        found: tuple[Tensor, Tensor, Tensor] = self.detect_head(self.SPP(torch.cat([near, third, far], 1)))
        return found
