"""Puts people before other backgrounds: blurs a frame, and mixes two by a matte."""

from typing import Final

import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime.vision.guided_filter import box_mean
from torch import Tensor

__all__ = ["blur", "composite"]

_PASSES: Final = 3
"""Three box filters after each other are within 3 % of a Gaussian (Wells 1986)."""
_FINE: Final = 4
"""A blur of this many pixels and more is computed on a smaller frame: what is lost is finer than the blur."""


def blur(frame: Tensor, radius: int) -> Tensor:
    """Return a frame out of focus: nearly a Gaussian blur with a deviation of `radius` pixels.

    Args:
        frame: f32 [batch, channels, height, width].
        radius: in pixels of the frame, >= 1.

    Raises:
        ValueError: the radius is below 1.
    """
    if radius < 1:
        raise ValueError(f"radius must be 1 pixel or more, not {radius}")
    factor = 1
    while factor * 2 * _FINE <= radius and factor * 2 <= min(frame.shape[2:]):
        factor *= 2
    # A box of 2 r + 1 has the variance r (r + 1) / 3, and variances of passes add up.
    small = F.avg_pool2d(frame, factor, ceil_mode=True, count_include_pad=False) if factor > 1 else frame
    for _ in range(_PASSES):
        small = box_mean(small, max(1, round(radius / factor)))
    return small if factor == 1 else F.interpolate(small, frame.shape[2:], mode="bilinear")


def composite(frame: Tensor, alpha: Tensor, background: Tensor) -> Tensor:
    """Return alpha * frame + (1 - alpha) * background.

    Args:
        frame: f32 [batch, channels, height, width].
        alpha: f32 [batch, 1, h, w], 0 to 1; of another size it is spread over the frame, bilinear.
        background: f32, of the frame's shape.

    Raises:
        ValueError: the background has another shape, or alpha more than one channel.
    """
    if frame.shape != background.shape or alpha.shape[1] != 1:
        raise ValueError(
            f"a frame and a background of one shape and alpha of one channel, not {list(frame.shape)}, "
            f"{list(background.shape)} and {alpha.shape[1]} channels"
        )
    matte = alpha if alpha.shape[2:] == frame.shape[2:] else F.interpolate(alpha, frame.shape[2:], mode="bilinear")
    return background + matte * (frame - background)
