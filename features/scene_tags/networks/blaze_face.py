"""Defines BlazeFace: Bazarevsky et al., "BlazeFace: sub-millisecond neural face detection on mobile GPUs" (2019).

The layers have the names of the published weights.
"""

from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

SIZE: Final = 128
WIDTHS: Final = (24, 24, 28, 32, 36, 42, 48, 56, 64, 72, 80, 88)
"""Channels after the stem and each block of the first part."""
HALVING: Final = (32, 48)
"""Blocks of the first part that halve the map, by their channels."""
LATER: Final = 96
COORDINATES: Final = 16
"""Of a face: box centre and size, then six points; in pixels of 128."""


class Block(nn.Module):
    """A depthwise and a pointwise convolution beside their input, which gains channels of zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.more = outputs - inputs
        padding = 1 if stride == 1 else 0
        self.convs = nn.Sequential(
            nn.Conv2d(inputs, inputs, 3, stride, padding, groups=inputs), nn.Conv2d(inputs, outputs, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [n, outputs, rows / stride, columns / stride]."""
        beside = x
        if self.stride == 2:
            beside = functional.max_pool2d(x, 2, 2)
            x = functional.pad(x, (0, 2, 0, 2))
        if self.more:
            beside = functional.pad(beside, (0, 0, 0, 0, 0, self.more))
        return functional.relu(self.convs(x) + beside)


class BlazeFace(nn.Module):
    """The detector of faces near to the camera."""

    def __init__(self) -> None:
        super().__init__()
        first: list[nn.Module] = [nn.Conv2d(3, WIDTHS[0], 5, 2), nn.ReLU()]
        first += [
            Block(before, width, 2 if width in HALVING and before != width else 1) for before, width in pairwise(WIDTHS)
        ]
        self.backbone1 = nn.Sequential(*first)
        later = [Block(WIDTHS[-1], LATER, 2), *(Block(LATER, LATER, 1) for _ in range(4))]
        self.backbone2 = nn.Sequential(*later)
        self.classifier_8 = nn.Conv2d(WIDTHS[-1], 2, 1)
        self.classifier_16 = nn.Conv2d(LATER, 6, 1)
        self.regressor_8 = nn.Conv2d(WIDTHS[-1], 2 * COORDINATES, 1)
        self.regressor_16 = nn.Conv2d(LATER, 6 * COORDINATES, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits f32 [n, 896] of faces, and their boxes [n, 896, 16] in pixels from the anchor's centre.

        Args:
            x: f32 [n, 3, 128, 128], red first, in [-1, 1].
        """
        fine = self.backbone1(functional.pad(x, (1, 2, 1, 2)))
        coarse = self.backbone2(fine)
        scores = [_rows(self.classifier_8(fine), 1), _rows(self.classifier_16(coarse), 1)]
        boxes = [_rows(self.regressor_8(fine), COORDINATES), _rows(self.regressor_16(coarse), COORDINATES)]
        return torch.cat(scores, 1)[:, :, 0], torch.cat(boxes, 1)


def _rows(x: Tensor, width: int) -> Tensor:
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, width)
