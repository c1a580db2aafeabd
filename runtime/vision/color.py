"""Converts the pixels that cameras give (NV12, NV21, I420, BGRA) to red, green and blue, and back.

Cameras give brightness (Y) at full size and two differences of color (U, V) at half the size: in one plane of pairs
(NV12: U V, NV21: V U), or in two planes (I420).  An odd size has chroma for the last row and column of its own.

Source: Recommendations ITU-R BT.601-7 and BT.709-6; the color of a pixel is that of its 2 x 2 block, as libyuv has it.
"""

from enum import Enum
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from torch import Tensor

__all__ = [
    "YuvMatrix",
    "bgra_to_rgb",
    "i420_to_rgb",
    "nv12_to_rgb",
    "nv21_to_rgb",
    "rgb_to_bgra",
    "rgb_to_i420",
    "rgb_to_nv12",
    "rgb_to_nv21",
]

_MIDDLE: Final = 128.0
_BLACK: Final = 16.0
_LUMA_RANGE: Final = 219.0
_CHROMA_RANGE: Final = 224.0
_LEVELS: Final = 255.0
_PLANES: Final = 3


class YuvMatrix(Enum):
    """How much red and blue are in the brightness: that of SD video and JPEG, or that of HD video."""

    BT601 = (0.299, 0.114)
    BT709 = (0.2126, 0.0722)


def nv12_to_rgb(
    luma: Tensor, chroma: Tensor, *, matrix: YuvMatrix = YuvMatrix.BT601, is_full_range: bool = False
) -> Tensor:
    """Return a frame as f32 [1, 3, height, width], red first, 0 to 255, not rounded.

    Args:
        luma: uint8 [height, width].
        chroma: uint8 [ceil(height / 2), ceil(width / 2), 2], U before V.
        matrix: which standard the camera follows.
        is_full_range: True: 0 is black and 255 white, as in JPEG; False: 16 and 235.

    Raises:
        ValueError: the planes are none of one frame.
    """
    return _to_rgb(luma, chroma.permute(2, 0, 1), matrix, is_full_range)


def nv21_to_rgb(
    luma: Tensor, chroma: Tensor, *, matrix: YuvMatrix = YuvMatrix.BT601, is_full_range: bool = False
) -> Tensor:
    """Return what `nv12_to_rgb` does, of chroma that has V before U, as Android's cameras give it.

    Raises:
        ValueError: as `nv12_to_rgb`.
    """
    return _to_rgb(luma, chroma.permute(2, 0, 1).flip(0), matrix, is_full_range)


def i420_to_rgb(
    luma: Tensor, u: Tensor, v: Tensor, *, matrix: YuvMatrix = YuvMatrix.BT601, is_full_range: bool = False
) -> Tensor:
    """Return what `nv12_to_rgb` does, of chroma in two planes, uint8 [ceil(height / 2), ceil(width / 2)] each.

    Raises:
        ValueError: as `nv12_to_rgb`.
    """
    return _to_rgb(luma, torch.stack([u, v]), matrix, is_full_range)


def rgb_to_nv12(
    rgb: Tensor, *, matrix: YuvMatrix = YuvMatrix.BT601, is_full_range: bool = False
) -> tuple[Tensor, Tensor]:
    """Return luma and chroma, uint8 as `nv12_to_rgb` takes them, of f32 [1, 3, height, width], 0 to 255.

    A block's chroma is the mean of its pixels.

    Raises:
        ValueError: it is no such tensor.
    """
    luma, chroma = _from_rgb(rgb, matrix, is_full_range)
    return luma, chroma.permute(1, 2, 0).contiguous()


def rgb_to_nv21(
    rgb: Tensor, *, matrix: YuvMatrix = YuvMatrix.BT601, is_full_range: bool = False
) -> tuple[Tensor, Tensor]:
    """Return luma and chroma as `rgb_to_nv12`, V before U.

    Raises:
        ValueError: as `rgb_to_nv12`.
    """
    luma, chroma = _from_rgb(rgb, matrix, is_full_range)
    return luma, chroma.flip(0).permute(1, 2, 0).contiguous()


def rgb_to_i420(
    rgb: Tensor, *, matrix: YuvMatrix = YuvMatrix.BT601, is_full_range: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the planes Y, U and V, uint8 as `i420_to_rgb` takes them, of f32 [1, 3, height, width], 0 to 255.

    Raises:
        ValueError: as `rgb_to_nv12`.
    """
    luma, chroma = _from_rgb(rgb, matrix, is_full_range)
    return luma, chroma[0], chroma[1]


def bgra_to_rgb(pixels: Tensor) -> Tensor:
    """Return f32 [1, 3, height, width], red first, 0 to 255, of uint8 [height, width, 4]; opacity is left out.

    Raises:
        ValueError: it is no such tensor.
    """
    if pixels.dim() != 3 or pixels.shape[2] != 4:
        raise ValueError(f"pixels must be [height, width, 4], not {list(pixels.shape)}")
    return pixels[:, :, :_PLANES].permute(2, 0, 1).flip(0).unsqueeze(0).float()


def rgb_to_bgra(rgb: Tensor, alpha: Tensor | None = None) -> Tensor:
    """Return uint8 [height, width, 4] of f32 [1, 3, height, width], 0 to 255, rounded.

    Args:
        rgb: red first.
        alpha: opacity, f32 [1, 1, height, width], 0 to 1; None: opaque.

    Raises:
        ValueError: it is no such tensor.
    """
    _check_rgb(rgb)
    opacity = torch.full_like(rgb[:, :1], _LEVELS) if alpha is None else alpha * _LEVELS
    return _to_bytes(torch.cat([rgb.flip(1), opacity], 1)[0].permute(1, 2, 0))


def _to_rgb(luma: Tensor, chroma: Tensor, matrix: YuvMatrix, is_full_range: bool) -> Tensor:
    height, width = luma.shape
    halves = [2, (height + 1) // 2, (width + 1) // 2]
    if list(chroma.shape) != halves:
        raise ValueError(f"a frame of {height} x {width} has chroma of {halves[1:]}, not {list(chroma.shape[1:])}")
    red, blue = matrix.value
    green = 1 - red - blue
    y = luma.float()
    differences = F.interpolate(chroma.float().unsqueeze(0) - _MIDDLE, scale_factor=2.0, mode="nearest")
    u, v = differences[0, 0, :height, :width], differences[0, 1, :height, :width]
    if not is_full_range:
        y = (y - _BLACK) * (_LEVELS / _LUMA_RANGE)
    scale = 1.0 if is_full_range else _LEVELS / _CHROMA_RANGE
    of_v, of_u = 2 * (1 - red) * scale, 2 * (1 - blue) * scale
    planes = [y + v * of_v, y - u * (of_u * blue / green) - v * (of_v * red / green), y + u * of_u]
    return torch.stack(planes).unsqueeze(0).clamp(0, _LEVELS)


def _from_rgb(rgb: Tensor, matrix: YuvMatrix, is_full_range: bool) -> tuple[Tensor, Tensor]:
    _check_rgb(rgb)
    red, blue = matrix.value
    r, g, b = rgb[0, 0], rgb[0, 1], rgb[0, 2]
    y = r * red + g * (1 - red - blue) + b * blue
    differences = torch.stack([(b - y) / (2 * (1 - blue)), (r - y) / (2 * (1 - red))]).unsqueeze(0)
    # A block at the edge of an odd size has the pixels that there are.
    chroma = F.avg_pool2d(differences, 2, ceil_mode=True, count_include_pad=False)[0]
    if not is_full_range:
        y, chroma = y * (_LUMA_RANGE / _LEVELS) + _BLACK, chroma * (_CHROMA_RANGE / _LEVELS)
    return _to_bytes(y), _to_bytes(chroma + _MIDDLE)


def _to_bytes(values: Tensor) -> Tensor:
    return values.round().clamp(0, _LEVELS).to(torch.uint8)


def _check_rgb(rgb: Tensor) -> None:
    if rgb.dim() != 4 or list(rgb.shape[:2]) != [1, _PLANES]:
        raise ValueError(f"rgb must be [1, 3, height, width], not {list(rgb.shape)}")
