"""The network that retouches: Zeng et al., "Learning image-adaptive 3D lookup tables for photo enhancement" (2020)."""

from itertools import pairwise
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

SIZE: Final = 256
"""Width and height of what the classifier sees."""
TABLES: Final = 3
STEPS: Final = 33
"""Points of a table along each colour."""
_CHANNELS: Final = (3, 16, 32, 64, 128, 128)


class AdaptiveTable(nn.Module):
    """Mixes three tables of colours by what a picture shows."""

    luts: Tensor

    def __init__(self) -> None:
        super().__init__()
        layers: dict[str, nn.Module] = {}
        last = len(_CHANNELS) - 2
        for at, (before, after) in enumerate(pairwise(_CHANNELS)):
            layers[str(3 * at + 1)] = nn.Conv2d(before, after, 3, stride=2, padding=1)
            layers[str(3 * at + 2)] = nn.LeakyReLU(0.2)
            if at < last:
                layers[str(3 * at + 3)] = nn.InstanceNorm2d(after, affine=True)
        layers["16"] = nn.Conv2d(_CHANNELS[-1], TABLES, 8)
        self.model = nn.ModuleDict(layers)
        self.luts = nn.Parameter(torch.zeros(TABLES, 3, STEPS, STEPS, STEPS))

    def forward(self, picture: Tensor) -> Tensor:
        """Return the table for a picture, f32 [3, 33, 33, 33]: colour out, then blue, green, red in.

        Args:
            picture: f32 [1, 3, 256, 256] in [0, 1], red first.
        """
        found = picture
        for layer in self.model.values():
            found = layer(found)
        return torch.matmul(found.reshape(1, TABLES), self.luts.reshape(TABLES, -1)).reshape(3, STEPS, STEPS, STEPS)


def look_up(table: Tensor, picture: Tensor) -> Tensor:
    """Return each pixel's colour in a table, between its eight neighbors, f32 [height, width, 3].

    The table's planes of equal blue lie below one another in a picture, which is sampled in the planes below and above
    a pixel's blue.

    Args:
        table: f32 [3, 33, 33, 33].
        picture: f32 [height, width, 3] in [0, 1].
    """
    planes = table.reshape(1, 3, STEPS * STEPS, STEPS)
    red, green, blue = (picture[..., at : at + 1] for at in range(3))
    below = torch.floor(torch.clamp(blue * (STEPS - 1), 0, STEPS - 2))
    across = red * 2 - 1
    down = (green * (STEPS - 1) + below * STEPS) * (2 / (STEPS * STEPS - 1)) - 1
    step = 2 * STEPS / (STEPS * STEPS - 1)
    first, second = (
        functional.grid_sample(
            planes, torch.cat([across, rows], 2).unsqueeze(0), padding_mode="border", align_corners=True
        )[0].permute(1, 2, 0)
        for rows in (down, down + step)
    )
    return first + (second - first) * (blue * (STEPS - 1) - below)
