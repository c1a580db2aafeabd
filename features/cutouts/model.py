"""Defines the network: a picture's maps once, then a mask for the taps so far.

encode   picture → maps of four scales, by DeepLab's frozen layers and convolutions trained here; once a photo
decode   maps, taps, box and the mask so far → mask, by few channels, so that each tap is cheap

A tap is compared with the whole picture: the cosine of what is under the tap and what is at each place is a map of its
own.  That lets a tap find things that the training data do not have.
"""

from typing import Final

import torch
from alcove.features.cutouts.deep_lab import CLASSES, LEVELS, DeepLab
from alcove.features.cutouts.prompts import draw_prompts
from torch import Tensor, nn
from torch.nn import functional

WIDTHS: Final = (32, 48, 96)
"""Channels that the decoder reads, at strides 4, 8, 16."""
PATCH: Final = 16
"""Channels that the pixels of a cell of the grid become."""
KEYS: Final = (12, 32)
"""Channels in which what is under a tap is compared, at strides 4 and 16."""
PROMPTS: Final = 4
"""Maps of taps to add, taps to remove, the box, and the mask so far."""
SMALL: Final = 1e-6

Maps = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Strides 4, 8, 16, and keys of strides 4 and 16."""


class Unit(nn.Sequential):
    """Convolution and ReLU6."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, groups: int = 1) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, kernel, 1, kernel // 2, groups=groups), nn.ReLU6())


class Block(nn.Module):
    """A depthwise and a pointwise convolution, added to the input."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.depthwise = Unit(channels, channels, kernel, channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of the input's shape."""
        return functional.relu6(x + self.pointwise(self.depthwise(x)))


class Neck(nn.Module):
    """Makes what the decoder reads of the picture and DeepLab's maps."""

    def __init__(self) -> None:
        super().__init__()
        quarter, eighth, deep = WIDTHS
        self.patch = nn.Sequential(nn.Conv2d(3, PATCH, 4, 4), nn.ReLU6())
        self.quarter = Unit(LEVELS[2] + PATCH, quarter)
        self.eighth = Unit(LEVELS[5], eighth)
        self.deep = Unit(LEVELS[12] + LEVELS[16] + CLASSES, deep)
        self.near_key = nn.Conv2d(LEVELS[2] + PATCH, KEYS[0], 1)
        self.deep_key = nn.Conv2d(LEVELS[12] + LEVELS[16] + CLASSES, KEYS[1], 1)

    def forward(self, x: Tensor, found: list[Tensor], classes: Tensor) -> Maps:
        """Return the maps of a picture.

        Args:
            x: f32 [n, 3, size, size] in [-1, 1].
            found: of `DeepLab.maps`.
            classes: of `DeepLab.classes`.
        """
        quarter = torch.cat([found[0], self.patch(x)], 1)
        deep = torch.cat([found[2], found[3], classes], 1)
        return (
            self.quarter(quarter),
            self.eighth(found[1]),
            self.deep(deep),
            _unit_length(self.near_key(quarter)),
            _unit_length(self.deep_key(deep)),
        )


def _unit_length(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).sum(1, keepdim=True) + SMALL)


class Decoder(nn.Module):
    """Makes a mask of a picture's maps, the taps so far, and the mask so far."""

    def __init__(self) -> None:
        super().__init__()
        quarter, eighth, deep = WIDTHS
        self.deep = nn.Sequential(Unit(deep + PROMPTS + 2, deep), Block(deep, 5), Block(deep, 5))
        self.whole = nn.Conv2d(deep, deep, 1)
        self.last_deep = Block(deep, 5)
        self.eighth = nn.Sequential(Unit(deep + eighth + PROMPTS, 64), Block(64, 3), Block(64, 3))
        self.quarter = nn.Sequential(Unit(64 + quarter + PROMPTS + 2, 32), Block(32, 3), Block(32, 3), Block(32, 3))
        self.logits = nn.Conv2d(32, 4, 1)

    def forward(self, maps: Maps, prompts: Tensor, before: Tensor) -> Tensor:
        """Return the logits of the mask, f32 [n, 1, MASK, MASK].

        Args:
            maps: of `Neck`.
            prompts: of `draw_prompts`.
            before: f32 [n, 1, GRID, GRID], the mask so far, in [0, 1]; 0 where there is none.
        """
        quarter, eighth, deep, near_key, deep_key = maps
        given = torch.cat([prompts, before], 1)
        half, low = functional.max_pool2d(given, 2), functional.max_pool2d(given, 4)
        x = self.deep(torch.cat([deep, low, _likeness(deep_key, low)], 1))
        x = self.last_deep(x + self.whole(x.mean((2, 3), keepdim=True)))
        x = self.eighth(torch.cat([_double(x), eighth, half], 1))
        x = self.quarter(torch.cat([_double(x), quarter, given, _likeness(near_key, given)], 1))
        return functional.pixel_shuffle(self.logits(x), 2)


def _likeness(keys: Tensor, given: Tensor) -> Tensor:
    """Return the cosines of each place with what is under the taps to add and to remove, f32 [n, 2, rows, columns]."""
    rows, columns = keys.shape[2:]
    flat = keys.flatten(2)
    taps = given[:, 0:2].flatten(2)
    under = torch.matmul(taps, flat.transpose(1, 2)) / (taps.sum(2, keepdim=True) + SMALL)
    return torch.matmul(under, flat).reshape(-1, 2, rows, columns)


def _double(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


class CutoutNetwork(nn.Module):
    """DeepLab's frozen layers, the neck and the decoder."""

    def __init__(self, deep_lab: DeepLab | None = None) -> None:
        super().__init__()
        self.deep_lab = DeepLab() if deep_lab is None else deep_lab
        self.neck = Neck()
        self.decoder = Decoder()

    def encode(self, x: Tensor) -> Maps:
        """Return the maps of a picture, f32 [n, 3, SIZE, SIZE] in [-1, 1]."""
        found = self.deep_lab.maps(x)
        maps: Maps = self.neck(x, found, self.deep_lab.classes(found[-1]))
        return maps

    def forward(self, x: Tensor, taps: Tensor, box: Tensor) -> Tensor:
        """Return the logits of the first mask, f32 [n, 1, MASK, MASK]."""
        prompts = draw_prompts(taps, box, x.shape[2] // 4)
        logits: Tensor = self.decoder(self.encode(x), prompts, torch.zeros_like(prompts[:, :1]))
        return logits
