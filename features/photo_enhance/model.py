"""Defines the methods of the program: what a picture needs, the change of each pixel, and super-resolution.

    forward    small picture, part of the middle → missing light, table of colours, statistics, needs
    apply      a block of the picture, with its missing light, a table and strengths → the block, changed
    upscale    a tile → the tile at four times its sides

Light is estimated on the small picture and spread over the large one; the division by it is each pixel's own, so edges
are those of the large picture.
"""

from typing import Final

import torch
from alcove.features.photo_enhance.config import NEEDS, STATISTICS
from alcove.features.photo_enhance.networks.adaptive_table import AdaptiveTable, look_up
from alcove.features.photo_enhance.networks.illumination import SelfCalibratedIllumination, relight
from alcove.features.photo_enhance.networks.residual_features import ResidualLocalFeatures
from torch import Tensor, nn
from torch.nn import functional

LUMA: Final = (0.299, 0.587, 0.114)
"""Of red, green and blue: ITU-R BT.601."""
POOL: Final = 4
"""Percentiles are those of means of 4 x 4 pixels."""
BLOCK: Final = 14
"""Pixels of a side of the blocks that noise is measured in."""
PERCENTILES: Final = (0.05, 0.5, 0.95)
QUIET: Final = 0.25
"""Share of the blocks that are smoother than the one whose noise counts: edges are no noise."""
_LAPLACIAN: Final = ((1.0, -2.0, 1.0), (-2.0, 4.0, -2.0), (1.0, -2.0, 1.0))
_NOISE_GAIN: Final = (torch.pi / 2) ** 0.5 / 6
"""From the mean of absolute answers to the standard deviation (Immerkær, "Fast noise variance estimation", 1996)."""


def statistics(small: Tensor, detail: Tensor) -> Tensor:
    """Return the statistics of `config.STATISTICS`, f32 [6].

    Args:
        small: f32 [1, 3, 256, 256] in [0, 1].
        detail: f32 [1, 3, 128, 128] in [0, 1].
    """
    weights = torch.tensor(LUMA).reshape(1, 3, 1, 1)
    luma = functional.avg_pool2d((small * weights).sum(1, keepdim=True), POOL).flatten()
    ordered = torch.sort(luma).values
    places = [round(share * (ordered.shape[0] - 1)) for share in PERCENTILES]
    dark, middle, bright = (ordered[place : place + 1] for place in places)
    kernel = torch.tensor(_LAPLACIAN).reshape(1, 1, 3, 3)
    rough = functional.conv2d((detail * weights).sum(1, keepdim=True), kernel).abs()
    blocks = torch.sort(functional.avg_pool2d(rough, BLOCK).flatten()).values
    quiet = round(QUIET * (blocks.shape[0] - 1))
    noise = blocks[quiet : quiet + 1] * _NOISE_GAIN
    return torch.cat([luma.mean(0, keepdim=True), dark, middle, bright, bright - dark, noise])


class Analysis(nn.Module):
    """Says what a picture needs, and how to give it.

    Args:
        light: with its weights.
        table: with its weights.
    """

    def __init__(self, light: SelfCalibratedIllumination, table: AdaptiveTable) -> None:
        super().__init__()
        self.light, self.table = light, table
        self.needs = nn.Linear(2 * len(STATISTICS), len(NEEDS))

    def forward(self, small: Tensor, detail: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return light that is missing, f32 [256, 256, 3], table f32 [3, 33, 33, 33], statistics [6], needs [3].

        Args:
            small: uint8 [256, 256, 3], the whole picture.
            detail: uint8 [128, 128, 3], a part of it in its own size.
        """
        picture, part = (given.to(torch.float32).permute(2, 0, 1).unsqueeze(0) * (1 / 255) for given in (small, detail))
        found = statistics(picture, part)
        # The square root of noise tells small values apart; the logarithm of light, dark ones.
        terms = torch.cat([found, torch.sqrt(found)]).unsqueeze(0)
        needs = torch.sigmoid(self.needs(terms))[0]
        missing = self.light(picture)[0].permute(1, 2, 0).contiguous()
        return missing, self.table(picture), found, needs


class Apply(nn.Module):
    """Changes the pixels of a block, each by itself."""

    def forward(self, block: Tensor, missing: Tensor, table: Tensor, strengths: Tensor) -> Tensor:
        """Return the block, changed, uint8 [64, 512, 3].

        Args:
            block: uint8 [64, 512, 3].
            missing: f32 [64, 512, 3], light that is missing at each pixel.
            table: f32 [3, 33, 33, 33], colours.
            strengths: f32 [2] in [0, 1], of light and of colours.
        """
        picture = block.to(torch.float32) * (1 / 255)
        lit = picture + (relight(picture, missing) - picture) * strengths[0]
        colored = lit + (look_up(table, lit) - lit) * strengths[1]
        return torch.round(torch.clamp(colored, 0, 1) * 255).to(torch.uint8)


class Upscale(nn.Module):
    """Enlarges a tile.

    Args:
        features: with its weights.
        halves: whether the result is halved again, each pixel the mean of four.
    """

    def __init__(self, features: ResidualLocalFeatures, *, halves: bool) -> None:
        super().__init__()
        self.features = features
        self.halves = halves

    def forward(self, tile: Tensor) -> Tensor:
        """Return uint8 [512, 512, 3], or half of that on each side.

        Args:
            tile: uint8 [128, 128, 3].
        """
        enlarged = torch.clamp(self.features(tile.to(torch.float32).permute(2, 0, 1).unsqueeze(0)), 0, 255)
        if self.halves:
            enlarged = functional.avg_pool2d(enlarged, 2)
        return torch.round(enlarged)[0].permute(1, 2, 0).to(torch.uint8)
