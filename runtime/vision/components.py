"""Finds the connected components of masks: what is one piece, and which piece is meant.

    pieces = connected_components(alpha > 0.5)           # labels, and the area of each pixel's piece
    person = keep_largest(alpha > 0.5)                   # without specks and holes' islands
    tapped = keep_touched(alpha > 0.5, row, column)      # the piece under a finger

Components are numbered from 1 in the order of their first pixels, row by row, left to right. All is integers, so eager
mode and every device give the same.
"""

from typing import Final, NamedTuple

import torch
from alcove.runtime import _native
from torch import Tensor

__all__ = ["Components", "connected_components", "keep_largest", "keep_touched", "remove_small"]

_CONNECTIVITIES: Final = frozenset({4, 8})


class Components(NamedTuple):
    """Pieces of a mask.

    Attributes:
        labels: int32, of the mask's shape: 1 and up for the pieces of each picture, 0 outside them.
        areas: int32, of the same shape: how many pixels the piece of each pixel has, 0 outside.
    """

    labels: Tensor
    areas: Tensor


@torch.library.custom_op("alcove::connected_components", mutates_args=(), device_types="cpu")
def label_components(mask: Tensor, connectivity: int) -> tuple[Tensor, Tensor]:
    """Return labels and areas; see `connected_components`.

    Args:
        mask: bool [batch, height, width], each size >= 1.
        connectivity: 4 or 8.

    Returns:
        int32 [batch, height, width], twice.

    Raises:
        InputError: a number is out of its range.

    Source: kernels/microkernels/connected_components/connected_components.h.
    """
    labels, areas = _native.connected_components(mask.detach().contiguous().numpy(), connectivity)
    return torch.from_numpy(labels), torch.from_numpy(areas)


@label_components.register_fake
def _(mask: Tensor, connectivity: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """Tell a tracer what comes out."""
    shape = mask.shape
    return mask.new_empty(shape, dtype=torch.int32), mask.new_empty(shape, dtype=torch.int32)


def connected_components(mask: Tensor, connectivity: int = 8) -> Components:
    """Return the pieces of each picture of a mask.

    Args:
        mask: bool [..., height, width], each size >= 1; each picture is numbered by itself.
        connectivity: 4, pixels touch by their sides, or 8, also by their corners.

    Raises:
        ValueError: the mask is not bool or has no height and width, or the connectivity is another.

    Source: He, Ren, Gao, Zhao, Yao, Chao 2017, "The connected-component labeling problem: a review of state-of-the-art
        algorithms", section 3 (two passes over runs).
    """
    if mask.dtype is not torch.bool or mask.dim() < 2:
        raise ValueError(f"mask must be bool [..., height, width], not {mask.dtype} {list(mask.shape)}")
    if connectivity not in _CONNECTIVITIES:
        raise ValueError(f"connectivity must be 4 or 8, not {connectivity}")
    if mask.dim() == 3:
        return Components(*label_components(mask, connectivity))
    shape = mask.shape
    labels, areas = label_components(mask.reshape(-1, *shape[-2:]), connectivity)
    return Components(labels.reshape(shape), areas.reshape(shape))


def keep_largest(mask: Tensor, connectivity: int = 8) -> Tensor:
    """Return the mask of the piece with the most pixels, of equal ones the first; empty masks stay empty.

    Args:
        mask: bool [..., height, width]; each picture keeps a piece.
        connectivity: 4 or 8.

    Raises:
        ValueError: as `connected_components`.
    """
    labels, areas = connected_components(mask, connectivity)
    place = areas.flatten(-2).argmax(-1, keepdim=True)
    chosen = labels.flatten(-2).gather(-1, place).unsqueeze(-1)
    return mask & (labels == chosen)


def keep_touched(mask: Tensor, row: Tensor, column: Tensor, connectivity: int = 8) -> Tensor:
    """Return the mask of the piece under a point; empty where there is none, and where the point is not in the picture.

    Args:
        mask: bool [..., height, width].
        row: int64 [...], one for each picture, from 0 at the top.
        column: int64 [...], from 0 at the left.
        connectivity: 4 or 8.

    Raises:
        ValueError: as `connected_components`.
    """
    height, width = mask.shape[-2:]
    labels, _ = connected_components(mask, connectivity)
    is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    place = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
    chosen = labels.flatten(-2).gather(-1, place.unsqueeze(-1)).unsqueeze(-1)
    return mask & (labels == chosen) & is_inside.unsqueeze(-1).unsqueeze(-1)


def remove_small(mask: Tensor, least: int, connectivity: int = 8) -> Tensor:
    """Return the mask without the pieces of fewer than `least` pixels.

    Args:
        mask: bool [..., height, width].
        least: in pixels, >= 1.
        connectivity: 4 or 8.

    Raises:
        ValueError: the least area is below 1, or as `connected_components`.
    """
    if least < 1:
        raise ValueError(f"least must be 1 pixel or more, not {least}")
    return connected_components(mask, connectivity).areas >= least
