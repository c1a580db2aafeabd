"""The network that enlarges: Kong et al., "Residual local feature network for efficient super-resolution" (2022)."""

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

SCALE: Final = 4
LEAST: Final = 16
"""The smallest side that attention's pooling takes, in pixels."""
_WIDTH: Final = 46
_MIDDLE: Final = 48
_ATTENTION: Final = 16
_SLOPE: Final = 0.05


class Attention(nn.Module):
    """Enhanced spatial attention, from a small map of the surroundings."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(_WIDTH, _ATTENTION, 1)
        self.conv_f = nn.Conv2d(_ATTENTION, _ATTENTION, 1)
        self.conv2 = nn.Conv2d(_ATTENTION, _ATTENTION, 3, stride=2)
        self.conv3 = nn.Conv2d(_ATTENTION, _ATTENTION, 3, padding=1)
        self.conv4 = nn.Conv2d(_ATTENTION, _WIDTH, 1)

    def forward(self, given: Tensor) -> Tensor:
        """Return the features, each as strong as attention says, f32 [n, 46, height, width]."""
        narrow = self.conv1(given)
        small = self.conv3(functional.max_pool2d(self.conv2(narrow), 7, 3))
        around = functional.interpolate(small, (given.shape[2], given.shape[3]), mode="bilinear")
        return given * torch.sigmoid(self.conv4(around + self.conv_f(narrow)))


class Block(nn.Module):
    """Three convolutions around which the input goes, and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.c1_r = nn.Conv2d(_WIDTH, _MIDDLE, 3, padding=1)
        self.c2_r = nn.Conv2d(_MIDDLE, _MIDDLE, 3, padding=1)
        self.c3_r = nn.Conv2d(_MIDDLE, _WIDTH, 3, padding=1)
        self.c5 = nn.Conv2d(_WIDTH, _WIDTH, 1)
        self.esa = Attention()

    def forward(self, given: Tensor) -> Tensor:
        """Return f32 [n, 46, height, width]."""
        found = given
        for layer in (self.c1_r, self.c2_r, self.c3_r):
            found = functional.leaky_relu(layer(found), _SLOPE)
        attended: Tensor = self.esa(self.c5(found + given))
        return attended


class ResidualLocalFeatures(nn.Module):
    """RLFN, NTIRE 2022: 317 k numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(3, _WIDTH, 3, padding=1)
        self.block_1 = Block()
        self.block_2 = Block()
        self.block_3 = Block()
        self.block_4 = Block()
        self.conv_2 = nn.Conv2d(_WIDTH, _WIDTH, 3, padding=1)
        self.upsampler = nn.Sequential(nn.Conv2d(_WIDTH, 3 * SCALE * SCALE, 3, padding=1), nn.PixelShuffle(SCALE))

    def forward(self, picture: Tensor) -> Tensor:
        """Return the picture at four times its sides, f32 [n, 3, 4 height, 4 width], about in [0, 255].

        Args:
            picture: f32 [n, 3, height, width] in [0, 255], red first, at least 16 x 16.
        """
        first = self.conv_1(picture)
        found = self.block_4(self.block_3(self.block_2(self.block_1(first))))
        enlarged: Tensor = self.upsampler(self.conv_2(found) + first)
        return enlarged
