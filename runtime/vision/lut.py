"""Looks colors up in three-dimensional tables (3-D LUT), with trilinear interpolation."""

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from torch import Tensor

__all__ = ["apply_lut", "identity_lut"]


def identity_lut(size: int) -> Tensor:
    """Return the table, f32 [3, size, size, size], that changes no color.

    Raises:
        ValueError: the size is below 2.
    """
    if size < 2:
        raise ValueError(f"a table has 2 colors or more along each side, not {size}")
    steps = torch.linspace(0, 1, size)
    blue, green, red = torch.meshgrid(steps, steps, steps, indexing="ij")
    return torch.stack([red, green, blue])


def apply_lut(image: Tensor, table: Tensor) -> Tensor:
    """Return an image with each color replaced by the table's, between its entries by trilinear interpolation.

    Args:
        image: f32 [1, 3, height, width], red first, 0 to 1; what is outside counts as the nearest color.
        table: f32 [3, size, size, size]: colors out; along blue, green and red in, the last fastest, as `.cube` files
            have it.

    Returns:
        f32 [1, 3, height, width].

    Raises:
        ValueError: a shape is another.
    """
    if image.dim() != 4 or list(image.shape[:2]) != [1, 3]:
        raise ValueError(f"image must be [1, 3, height, width], not {list(image.shape)}")
    size = table.shape[-1]
    if list(table.shape) != [3, size, size, size] or size < 2:
        raise ValueError(f"table must be [3, size, size, size], size 2 or more, not {list(table.shape)}")
    places = (image * 2 - 1).permute(0, 2, 3, 1).unsqueeze(1)
    found = F.grid_sample(table.unsqueeze(0), places, mode="bilinear", padding_mode="border", align_corners=True)
    return found.squeeze(2)
