"""Draws taps and a box as maps that the decoder reads."""

from typing import Final

import torch
from torch import Tensor

RADIUS: Final = 1.44
"""Of the disk of a tap, in cells of the grid: the standard deviation of a Gaussian."""


def draw_prompts(taps: Tensor, box: Tensor, grid: int) -> Tensor:
    """Return maps of the taps to add, the taps to remove, and the box, f32 [n, 3, grid, grid] in [0, 1].

    Args:
        taps: f32 [n, TAPS, 3], across and down as shares of the picture, and 1 to add, -1 to remove, 0 for no tap.
        box: f32 [n, 4], left, top, right, bottom as shares; all 0 for no box.
        grid: rows and columns of the maps.
    """
    places = (torch.arange(grid, dtype=torch.float32) + 0.5) / grid
    across, down, sign = taps[:, :, 0:1], taps[:, :, 1:2], taps[:, :, 2:3]
    wide = torch.exp(-(((places - across) / (RADIUS / grid)) ** 2) / 2)
    high = torch.exp(-(((places - down) / (RADIUS / grid)) ** 2) / 2)
    disks = wide[:, :, None, :] * high[:, :, :, None]
    add = (disks * torch.relu(sign)[..., None]).amax(1)
    remove = (disks * torch.relu(-sign)[..., None]).amax(1)
    inside_across = _ramp(places - box[:, 0:1], grid) * _ramp(box[:, 2:3] - places, grid)
    inside_down = _ramp(places - box[:, 1:2], grid) * _ramp(box[:, 3:4] - places, grid)
    return torch.stack([add, remove, inside_down[:, :, None] * inside_across[:, None, :]], 1)


def _ramp(distance: Tensor, grid: int) -> Tensor:
    """Return 0 outside, 1 inside, and between them at the cell that an edge crosses."""
    return torch.clamp(distance * grid + 0.5, 0, 1)
