"""Defines the network: a frame's maps by DeepLab's frozen layers, then a matte, with the matte before as a hint.

encode   frame → maps at strides 2, 4, 8 and 16, and scores of classes
decode   maps and the matte of the frame before → logits at the frame's size

A frame of which nothing is known before it gets zeros as that matte; the decoder is trained with both.
"""

from typing import Final

import torch
from alcove.features.cutouts.deep_lab import CLASSES, LEVELS, DeepLab
from torch import Tensor, nn
from torch.nn import functional

HALF: Final = 16
"""Channels of the decoder at stride 2,"""
QUARTER: Final = 32
"""at stride 4,"""
EIGHTH: Final = 48
"""at stride 8,"""
DEEP: Final = 96
"""and at stride 16."""
PATCH: Final = 12
"""Channels that the pixels become at stride 2."""
FIRST: Final = 16
"""Channels of DeepLab's first block, at stride 2."""

Maps = tuple[Tensor, Tensor, Tensor, Tensor]
"""Strides 2, 4, 8 and 16, as DeepLab gives them; scores of classes behind the last."""


class Unit(nn.Sequential):
    """Convolution and ReLU6."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups), nn.ReLU6())


class Block(nn.Module):
    """A depthwise and a pointwise convolution, added to the input."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.depthwise = Unit(channels, channels, kernel, groups=channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of the input's shape."""
        return functional.relu6(x + self.pointwise(self.depthwise(x)))


class Decoder(nn.Module):
    """Makes a matte of a frame's maps and the matte before."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.Sequential(Unit(LEVELS[12] + LEVELS[16] + CLASSES, DEEP), Block(DEEP, 5))
        self.whole = nn.Conv2d(DEEP, DEEP, 1)
        self.last_deep = Block(DEEP, 5)
        self.eighth = nn.Sequential(Unit(DEEP + LEVELS[5] + 1, EIGHTH), Block(EIGHTH, 5), Block(EIGHTH, 3))
        self.quarter = nn.Sequential(Unit(EIGHTH + LEVELS[2] + 1, QUARTER), Block(QUARTER, 3), Block(QUARTER, 3))
        self.narrow = nn.Conv2d(QUARTER, HALF, 1)
        self.patch = Unit(3, PATCH, 3, 2)
        self.fine = nn.Sequential(Unit(HALF + FIRST + PATCH, HALF), Block(HALF, 3), Block(HALF, 3))
        self.logits = nn.Conv2d(HALF, 4, 1)

    def forward(self, x: Tensor, maps: Maps, before: Tensor) -> Tensor:
        """Return the logits of the matte, f32 [n, 1, height, width].

        Args:
            x: f32 [n, 3, height, width] in [-1, 1].
            maps: of `BackgroundNetwork.encode`.
            before: f32 [n, 1, height / 4, width / 4] in [0, 1], the matte of the frame before; 0 where there is none.
        """
        half, quarter, eighth, deep = maps
        y = self.deep(deep)
        y = self.last_deep(y + self.whole(y.mean((2, 3), keepdim=True)))
        y = self.eighth(torch.cat([_double(y), eighth, functional.avg_pool2d(before, 2)], 1))
        y = self.quarter(torch.cat([_double(y), quarter, before], 1))
        y = self.fine(torch.cat([_double(self.narrow(y)), half, self.patch(x)], 1))
        return functional.pixel_shuffle(self.logits(y), 2)


def _double(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


class BackgroundNetwork(nn.Module):
    """DeepLab's frozen layers, and the decoder."""

    def __init__(self, deep_lab: DeepLab | None = None) -> None:
        super().__init__()
        self.deep_lab = DeepLab() if deep_lab is None else deep_lab
        self.decoder = Decoder()

    def encode(self, x: Tensor) -> Maps:
        """Return the maps of a frame, f32 [n, 3, height, width] in [-1, 1]."""
        found = []
        y = functional.relu6(self.deep_lab.stem(x))
        for index, block in enumerate(self.deep_lab.blocks):
            y = block(y)
            if index == 0 or index in LEVELS:
                found.append(y)
        half, quarter, eighth, deep, last = found
        return half, quarter, eighth, torch.cat([deep, last, self.deep_lab.classes(last)], 1)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        """Return the logits of the matte, f32 [n, 1, height, width]."""
        logits: Tensor = self.decoder(x, self.encode(x), before)
        return logits
